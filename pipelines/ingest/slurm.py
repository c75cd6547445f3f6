"""Reads Slurm accounting: ``sacct --parsable2`` or ``--parsable`` output, and CSV exports with a header such as NREL's of Eagle.

The header says which column is which. Steps (``123.batch``) are skipped. Times are the cluster's local time, so its zone must be
said: in the hour that autumn repeats, a time counts as the first of its two instants, but a start or end as the second where it
would otherwise precede the submission or the start; in the hour that spring skips, as the moment the clocks moved.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from features.errors import InputError
from features.schema import Trace, conform, masked
from pipelines.ingest.accounting import UNBOUNDED, AccountingTable, duration, minutes, seconds, whole
from pipelines.ingest.localtime import NEVER, to_unix, zone
from pipelines.ingest.source import Source, load

PROCESSORS = ("cpus", "nodes")

# Names in lower case, the first that is there is read: sacct's fields first, then those of the export.
_JOB = ("jobidraw", "jobid", "job_id")
_SUBMIT, _START, _END = ("submit", "submit_time"), ("start", "start_time"), ("end", "end_time")
_RUNTIME = {"elapsedraw": seconds, "elapsed": duration, "run_time": seconds}
_REQUESTED = {"timelimitraw": minutes, "timelimit": duration, "wallclock_req": seconds}
_PROCESSORS = {
    "cpus": {"procs": ("reqcpus", "processors_req"), "allocated_procs": ("alloccpus", "ncpus")},
    "nodes": {"procs": ("reqnodes", "nodes_req"), "allocated_procs": ("allocnodes", "nnodes")},
}
_IDENTITIES = {
    "user": ("user", "uid"),
    "group": ("account", "group"),
    "executable": ("jobname", "name"),
    "queue": ("qos",),
    "partition": ("partition",),
}
STATUS = {
    "COMPLETED": 1,
    "FAILED": 0,
    "TIMEOUT": 0,
    "NODE_FAIL": 0,
    "OUT_OF_MEMORY": 0,
    "BOOT_FAIL": 0,
    "DEADLINE": 0,
    "LAUNCH_FAILED": 0,
    "RECONFIG_FAIL": 0,
    "CANCELLED": 5,
    "PREEMPTED": 5,
    "REVOKED": 5,
}
"""SWF status (1 completed, 0 failed, 5 cancelled) of each of Slurm's final states."""
UNFINISHED = (
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "RESIZING",
    "RESV_DEL_HOLD",
    "SIGNALING",
    "SPECIAL_EXIT",
    "STAGE_OUT",
    "STOPPED",
)
"""States of jobs that have no runtime yet."""
_KNOWN = {
    *_JOB,
    *_SUBMIT,
    *_START,
    *_END,
    *_RUNTIME,
    *_REQUESTED,
    *(name for kind in _PROCESSORS.values() for names in kind.values() for name in names),
    *(name for names in _IDENTITIES.values() for name in names),
    "state",
}
"""All columns that are read, or passed over because another says the same."""


def read_sacct(path: str | Path, timezone: str | None, processors: str = "cpus") -> Trace:
    """Read one Slurm accounting file. Raises InputError with file, line, column and what is wrong.

    ``timezone`` is the IANA name of the cluster's zone. ``processors`` says what a processor is: ``cpus``, or ``nodes`` for machines
    that give whole nodes; where the file has only nodes, they are taken. Second 0 is the earliest submission. A job that has not
    started, or not ended, has no runtime. The account is the group, the job name the executable, the QOS the queue.
    """
    return parse_sacct(load(path), timezone, processors)


def parse_sacct(source: Source, timezone: str | None, processors: str = "cpus") -> Trace:
    """As :func:`read_sacct`, for a file whose bytes are already here."""
    if processors not in PROCESSORS:
        raise InputError(f"unknown kind of processors {processors!r}: known are {', '.join(PROCESSORS)}")
    if timezone is None:
        raise InputError(
            f"{source.path}: Slurm writes local times; say of which zone with --time-zone, as in --time-zone America/Denver"
        )
    place = zone(timezone)
    table = AccountingTable(source, _KNOWN)
    job = _column(table, "JobID", *_JOB)
    submitted = _column(table, "Submit", *_SUBMIT)
    notes: list[str] = []

    steps = np.zeros(table.rows, bool)
    for name in ("jobid", "jobidraw"):
        if name in table:
            steps |= table.matches(name, lambda text: "." in text)
    jobs = ~steps
    if not jobs.any():
        raise InputError(f"{source.path}: holds no job, only {int(steps.sum())} job steps")
    if steps.any():
        notes.append(f"Job steps are not read: {int(steps.sum()):,} of {table.rows:,} lines.")

    submit, start, end = _times(table, submitted, jobs, place, notes)
    columns: dict[str, object] = {"job_id": _job_ids(table, job, jobs, notes)}
    origin = int(submit.min())
    columns["submit_s"] = submit - origin
    wait = start - submit
    if early := int(((start != NEVER) & (wait < 0)).sum()):
        notes.append(f"Starts before the submission are taken as missing waits: {early:,}.")
    columns["wait_s"] = masked(wait, (start != NEVER) & (wait >= 0))
    unfinished, columns["status"] = _states(table, jobs)
    columns["runtime_s"] = _runtime(table, jobs, start, end, unfinished, notes)
    columns["requested_s"] = _requested(table, jobs, notes)
    columns |= _procs(table, jobs, processors, notes)
    for name, candidates in _IDENTITIES.items():
        if found := table.find(*candidates):
            columns[name] = table.category(found, jobs)
    if unread := [title for title in table.titles if title and title.lower() not in _KNOWN]:
        notes.append(f"Columns that are not read: {', '.join(unread)}.")
    return Trace(
        name=source.name,
        jobs=conform(columns, int(jobs.sum())),
        origin_unix_s=origin,
        timezone=timezone,
        source=source.path,
        sha256=source.sha256,
        header={"Columns": ", ".join(filter(None, table.titles))},
        notes=tuple(notes),
    )


def _column(table: AccountingTable, title: str, *names: str) -> str:
    found = table.find(*names)
    if found is None:
        raise InputError(f"{table.path}: the header line has no column {title}, only {', '.join(table.titles)[:200]}")
    return found


def _job_ids(table: AccountingTable, name: str, jobs: np.ndarray, notes: list[str]) -> np.ndarray:
    numbered = table.matches(name, str.isdecimal)
    if not numbered[jobs].all():
        if name == "jobidraw":
            raise table.error(name, int(np.argmax(jobs & ~numbered)), "is not a whole number")
        notes.append(
            "Job ids are not all whole numbers (array or heterogeneous jobs, and no JobIDRaw): jobs are numbered from 1 instead."
        )
        return np.arange(1, int(jobs.sum()) + 1)
    codes, distinct = table.texts(name)
    ids = np.array([int(text) if text.isdecimal() else -1 for text in distinct], np.int64)[codes[jobs]]
    if repeated := len(ids) - len(np.unique(ids)):
        notes.append(f"Job ids that an earlier line has too: {repeated:,}.")
    return ids


def _times(table: AccountingTable, submitted: str, jobs: np.ndarray, place: ZoneInfo, notes: list[str]) -> tuple[np.ndarray, ...]:
    """Unix seconds of submission, start and end, int64 [jobs], NEVER where missing."""
    local = table.times(submitted)
    if (lost := jobs & np.isnat(local)).any():
        raise table.error(submitted, int(np.argmax(lost)), "says no time of submission")
    found = [to_unix(local[jobs], place)]
    for names in (_START, _END):
        name = table.find(*names)
        local = np.full(table.rows, "NaT", "datetime64[s]") if name is None else table.times(name)
        found.append(to_unix(local[jobs], place, found[-1].unix_s))
    for which, how in (
        ("repeated", "twice, and are told apart by order"),
        ("skipped", "never, and are taken as the moment of the change"),
    ):
        marks = np.array([getattr(times, which) for times in found])
        if marks.any():
            notes.append(
                f"Local times that the clocks showed {how}: {int(marks.sum()):,} in {int(marks.any(axis=0).sum()):,} jobs."
            )
    return tuple(times.unix_s for times in found)


def _states(table: AccountingTable, jobs: np.ndarray) -> tuple[np.ndarray, object]:
    """(bool [jobs]: not ended, by its state; SWF status)."""
    if "state" not in table:
        return np.zeros(int(jobs.sum()), bool), None
    codes, distinct = table.texts("state")
    words = [text.upper().split(" ")[0] for text in distinct]
    for place, word in enumerate(words):
        if word not in STATUS and word not in UNFINISHED and (jobs & (codes == place)).any():
            raise table.error(
                "state", int(np.argmax(jobs & (codes == place))), f"is not one of {', '.join([*STATUS, *UNFINISHED])}"
            )
    status = np.array([STATUS.get(word, -1) for word in words], np.int64)[codes[jobs]]
    return status < 0, masked(status, status >= 0, "Int8")


def _runtime(
    table: AccountingTable, jobs: np.ndarray, start: np.ndarray, end: np.ndarray, unfinished: np.ndarray, notes: list[str]
) -> object:
    name = table.find(*_RUNTIME)
    has_start, has_end = table.find(*_START) is not None, table.find(*_END) is not None
    between = np.where((start != NEVER) & (end != NEVER), end - start, -1)
    if name is not None:
        runtime = _rounded(table, name, _RUNTIME[name], jobs, notes)
        if shorter := int(((between >= 0) & (runtime >= 0) & (runtime < between)).sum()):
            notes.append(f"Jobs that ran for less than the time between start and end (suspended meanwhile): {shorter:,}.")
    elif has_start and has_end:
        runtime = between
    else:
        raise InputError(f"{table.path}: the header line has no column Elapsed, nor Start and End")
    open_ = unfinished | (has_end & (end == NEVER))
    never = has_start & (start == NEVER)
    if count := int(never.sum()):
        notes.append(f"Jobs that never started, so that they have no runtime: {count:,}.")
    if count := int((open_ & ~never).sum()):
        notes.append(f"Jobs that had started and not ended, so that they have no runtime: {count:,}.")
    return masked(runtime, (runtime >= 0) & ~open_ & ~never)


def _requested(table: AccountingTable, jobs: np.ndarray, notes: list[str]) -> object:
    name = table.find(*_REQUESTED)
    if name is None:
        return None
    if count := int(table.matches(name, lambda text: text.lower() in UNBOUNDED)[jobs].sum()):
        notes.append(f"Time limits UNLIMITED or Partition_Limit are taken as missing: {count:,}.")
    requested = _rounded(table, name, _REQUESTED[name], jobs, notes)
    return masked(requested, requested >= 0)


def _rounded(table: AccountingTable, name: str, parse: Callable[[str], float], jobs: np.ndarray, notes: list[str]) -> np.ndarray:
    """Whole seconds, halves up, -1 where there is no value."""
    values = table.numbers(name, parse)[jobs]
    if count := int((values % 1 > 0).sum()):
        notes.append(f"Fractional times are rounded to the second: {table.title(name)} ({count:,}).")
    return np.where(np.isnan(values), -1, np.floor(np.nan_to_num(values) + 0.5)).astype(np.int64)


def _procs(table: AccountingTable, jobs: np.ndarray, processors: str, notes: list[str]) -> dict[str, object]:
    kinds = {kind: {column: table.find(*names) for column, names in _PROCESSORS[kind].items()} for kind in PROCESSORS}
    there = [kind for kind in PROCESSORS if any(kinds[kind].values())]
    if not there:
        raise InputError(
            f"{table.path}: the header line has no column of processors or nodes: ReqCPUS, AllocCPUS, ReqNodes or AllocNodes"
        )
    kind = processors if processors in there else there[0]
    if kind != processors:
        notes.append(f"The file states no {processors}: {kind} are taken as processors.")
    columns: dict[str, object] = {}
    for column, name in kinds[kind].items():
        if name is not None:
            count = table.numbers(name, whole)[jobs]
            columns[column] = masked(np.nan_to_num(count), ~np.isnan(count))
    return columns
