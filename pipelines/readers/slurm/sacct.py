"""Reader of Slurm accounting: ``sacct --parsable2``, ``--parsable``, ``--json``, or CSV.

The header names the columns; in CSV it is such as NREL's of Eagle. Steps (``123.batch``) are skipped. Times are the
cluster's local time, so its zone must be given (:mod:`pipelines.readers.slurm.times`). A line that is not a row of the
header's columns, or contradicts itself, is set aside with the rule's name.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.schema import Trace, UnreadLine, conform, masked
from pipelines.readers.canonical import with_hashed_names
from pipelines.readers.delimited import (
    BEYOND,
    MISSING,
    UNBOUNDED,
    AccountingTable,
    duration,
    minutes,
    seconds,
    whole,
)
from pipelines.readers.localtime import MISSING_TIME, zone
from pipelines.readers.slurm.as_json import as_table, is_json
from pipelines.readers.slurm.requests import ALLOCATED, ALLOCATED_CPUS, ALLOCATED_TRES, CPUS, NODES, READ, TRES, asked, resources
from pipelines.readers.slurm.times import (
    END,
    RAW,
    START,
    SUBMIT,
    JobTimes,
    is_id,
    job_ids,
    job_steps,
    job_times,
    note_kinds,
    written_ids,
)
from pipelines.readers.text import Source, counted, some

PROCESSORS = ("cpus", "nodes")

# Names in lower case, the first present one is read: sacct's fields first, then those of the export.
RUNTIME = {"elapsedraw": seconds, "elapsed": duration, "run_time": seconds}
REQUESTED = {"timelimitraw": minutes, "timelimit": duration, "wallclock_req": seconds}
_PROCESSORS = {
    "cpus": {"procs": CPUS, "allocated_procs": ALLOCATED_CPUS},
    "nodes": {"procs": NODES, "allocated_procs": ALLOCATED[::-1]},
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
ENDED_RUN = {"REQUEUED": 5, "REQUEUE_FED": 5, "REQUEUE_HOLD": 5, "SPECIAL_EXIT": 5, "RESIZING": 2}
"""SWF status (5 cancelled, 2 continued elsewhere) of states in which a run has ended although its job goes on."""
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
"""States of jobs without a runtime yet; those in :data:`ENDED_RUN` have one if the line states an end."""
UNKNOWN = "UNKNOWN"
"""State of a line that states none."""
FREE_TEXT = frozenset(
    {
        *("jobname", "name", "comment", "admincomment", "systemcomment", "submitline", "submit_line", "workdir", "work_dir"),
        *("constraints", "extra", "stdin", "stdout", "stderr"),
    }
)
"""Columns of users' free text."""
_KNOWN = {
    *RAW,
    *SUBMIT,
    *START,
    *END,
    *RUNTIME,
    *REQUESTED,
    *(name for kind in _PROCESSORS.values() for names in kind.values() for name in names),
    *(name for names in _IDENTITIES.values() for name in names),
    *READ,
    "cluster",
    "state",
    ALLOCATED_TRES,
}
"""All columns that are read."""


def parse_sacct(source: Source, timezone: str | None, processors: str = "cpus", cpus_per_node: int | None = None) -> Trace:
    """Parse one Slurm accounting file.

    ``timezone`` is the IANA name of the cluster's zone. ``processors`` defines a processor: ``cpus``, or ``nodes`` for
    machines that allocate whole nodes; if the file has only one of the two, that is used. With ``cpus_per_node`` each
    node counts as that many processors, whatever the job requested of it. Second 0 is the earliest submission. A job
    that has not started, or not ended, has no runtime. The account is the group, the job name the executable, the QOS
    the queue; names are hashed if the site sets a key. Raises InputError with file, line, column and what is wrong.
    """
    if processors not in PROCESSORS:
        raise InputError(f"unknown kind of processors {processors!r}; known: {', '.join(PROCESSORS)}")
    place = zone("UTC" if is_json(source) else timezone or "UTC")
    table = AccountingTable(as_table(source), _KNOWN, free=FREE_TEXT)
    job = table.column(*RAW, title="JobID")
    submitted = table.column(*SUBMIT, title="Submit")
    notes: list[str] = []
    if table.repeated:
        notes.append(f"Header lines of further exports are not read: {len(table.repeated):,}.")
    if table.before_header:
        notes.append(f"Lines of sacct's messages before the header are not read: {len(table.before_header):,}.")
    if table.latin1:
        notes.append(f"Lines with bytes that are not UTF-8 are read as Latin-1: {len(table.latin1):,} ({some(table.latin1)}).")

    steps = job_steps(table)
    jobs = ~steps
    if not jobs.any():
        raise InputError(f"{source.path}: holds no job, only {int(steps.sum())} job steps")
    refuse_several_clusters(table, jobs)
    if timezone is None and not is_json(source):
        table.times(submitted)  # report a bad time before the missing zone
        raise InputError(f"{source.path}: Slurm writes local times: name their time zone, as in --time-zone America/Denver")
    if steps.any():
        notes.append(f"Job steps are not read: {int(steps.sum()):,} of {table.rows:,} lines.")
    unread = _unread(table, job, notes)

    name = table.find(*RUNTIME)
    elapsed = None if name is None else table.numbers(name, RUNTIME[name])[jobs]
    times = job_times(table, submitted, jobs, place, elapsed, notes)
    contradictions = times.contradictions(elapsed)
    unread += _contradictory(table, job, jobs, contradictions, notes)
    sound = ~np.any(list(contradictions.values()), axis=0)
    jobs[jobs] = sound
    times = times.where(sound)
    if not jobs.any():
        counts = ", ".join(f"{rule} {int(where.sum()):,}" for rule, where in contradictions.items())
        raise InputError(f"{source.path}: holds no job whose times agree: {counts}")
    submit, start = times.submit, times.start
    note_kinds(table, jobs, times.ended, notes)
    ids = job_ids(table, job, jobs, notes)
    columns: dict[str, object] = {"job_id": ids, "written_id": written_ids(table, ids, jobs)}
    origin = int(submit.min())
    columns["submit_s"] = submit - origin
    wait = start - submit
    counted(notes, "Starts before the submission are taken as missing waits", (start != MISSING_TIME) & (wait < 0))
    columns["wait_s"] = masked(wait, (start != MISSING_TIME) & (wait >= 0))
    unfinished, columns["status"] = _states(table, jobs, times, notes)
    columns["runtime_s"] = _runtime(table, jobs, times, unfinished, notes)
    columns["requested_s"] = _requested(table, jobs, notes)
    columns |= _procs(table, jobs, "nodes" if cpus_per_node else processors, cpus_per_node or 1, notes)
    columns |= asked(table, jobs, notes)
    for name, candidates in _IDENTITIES.items():
        if column := table.find(*candidates):
            columns[name] = table.category(column, jobs)
    trace = Trace(
        name=source.name,
        jobs=conform(columns, int(jobs.sum()), copy=False),
        origin_unix_s=origin,
        timezone=timezone,
        source=source.path,
        sha256=source.sha256,
        header={"Columns": ", ".join(filter(None, table.titles))},
        notes=tuple(notes),
        unread=unread,
    )
    return with_hashed_names(trace)


def refuse_several_clusters(table: AccountingTable, jobs: np.ndarray) -> None:
    """Raise InputError if the ``jobs`` (bool [rows]) are of several clusters."""
    names = sorted(set(table.strings("cluster")[jobs])) if "cluster" in table else []
    if len(names) > 1:
        named = ", ".join(name or "one without a name" for name in names)
        raise InputError(f"{table.path}: holds jobs of several clusters, {named}: export one of them (sacct --clusters=NAME)")


def _unread(table: AccountingTable, job: str, notes: list[str]) -> tuple[UnreadLine, ...]:
    """Return the lines set aside, with their job ids if these precede all free text, and note their numbers."""
    place = table.place(job)
    id_precedes_text = all(place < table.place(name) for name in FREE_TEXT if name in table)
    unread = []
    for line, text in table.set_aside:
        fields = text.split(table.delimiter)
        job_id = fields[place].strip() if id_precedes_text and place < len(fields) else ""
        if is_id(job_id) and "." in job_id:
            continue  # steps are never read
        unread.append(UnreadLine(line, _number(job_id), text))
    if unread:
        numbers = some([line.line for line in unread])
        notes.append(
            f"Lines that cannot be split into the header's columns are dropped, as unreadable-line: {len(unread):,} ({numbers})."
        )
    return tuple(unread)


def _contradictory(
    table: AccountingTable, job: str, jobs: np.ndarray, contradictions: dict[str, np.ndarray], notes: list[str]
) -> tuple[UnreadLine, ...]:
    """Return the lines of jobs that contradict themselves, by rule (bool [jobs]), and note their numbers."""
    rows = np.flatnonzero(jobs)
    shown = [name for name in (table.find(*START), table.find(*END), table.find(*RUNTIME)) if name is not None]
    odd: list[UnreadLine] = []
    for rule, where in contradictions.items():
        lines = [
            UnreadLine(table.line(row), _number(table.text(job, row)), table.describe(row, shown), rule) for row in rows[where]
        ]
        if lines:
            numbers = some([line.line for line in lines])
            notes.append(f"Lines that contradict themselves are dropped, as {rule}: {len(lines):,} ({numbers}).")
        odd += lines
    return tuple(odd)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= 18 else None


def states(table: AccountingTable, jobs: np.ndarray) -> np.ndarray:
    """Return the first word of each line's state in upper case, object [rows].

    It is UNKNOWN where a line states none. Raises InputError if that of one of the ``jobs`` (bool [rows]) is not a
    state of Slurm.
    """

    def words(texts: list[str]) -> np.ndarray:
        return np.array([UNKNOWN if text.lower() in MISSING else text.upper().split(" ")[0] for text in texts], object)

    state = table.mapped("state", words)
    of_slurm = pd.Series(state).isin([*STATUS, *UNFINISHED, UNKNOWN]).to_numpy()
    table.refuse("state", jobs & ~of_slurm, f"is not a state of Slurm's, such as {', '.join([*STATUS][:4])} or {UNFINISHED[1]}")
    return state


def _states(table: AccountingTable, jobs: np.ndarray, times: JobTimes, notes: list[str]) -> tuple[np.ndarray, object]:
    """Return which jobs are unfinished by their state, bool [jobs], and the SWF status."""
    if "state" not in table:
        return np.zeros(int(jobs.sum()), bool), None
    words = pd.Series(states(table, jobs)[jobs])
    status, over = (words.map(codes).fillna(-1).to_numpy(np.int64) for codes in (STATUS, ENDED_RUN))
    run = (over >= 0) & times.ended
    counted(notes, "Ended runs of jobs that were requeued or resized are read as jobs of their own", run)
    unknown = (words == UNKNOWN).to_numpy()
    counted(notes, "Jobs without a state are read as jobs of unknown status", unknown)
    status = np.where(run, over, status)
    return (status < 0) & ~unknown, masked(status, status >= 0, "Int8")


def _runtime(table: AccountingTable, jobs: np.ndarray, times: JobTimes, unfinished: np.ndarray, notes: list[str]) -> object:
    name = table.find(*RUNTIME)
    has_start, has_end = table.find(*START) is not None, table.find(*END) is not None
    between = times.between
    if name is not None:
        runtime = _rounded(table, name, RUNTIME[name], jobs, notes)
    elif has_start and has_end:
        runtime = between
    else:
        raise InputError(f"{table.path}: the header line has no column Elapsed, nor Start and End")
    open_ = unfinished | (has_end & (times.end == MISSING_TIME))
    never = has_start & (times.start == MISSING_TIME)
    has_runtime = (runtime >= 0) & ~open_ & ~never
    shorter = has_runtime & (between - runtime > 1)
    counted(notes, "Jobs that ran shorter than from start to end, as suspended ones do", shorter)
    counted(notes, "Jobs that never started, so that they have no runtime", never)
    counted(notes, "Jobs that had started and not ended, so that they have no runtime", open_ & ~never)
    return masked(runtime, has_runtime)


def _requested(table: AccountingTable, jobs: np.ndarray, notes: list[str]) -> object:
    name = table.find(*REQUESTED)
    if name is None:
        return None
    endless = table.matches(name, lambda text: text.lower() in UNBOUNDED)[jobs]
    counted(notes, "Time limits UNLIMITED or Partition_Limit are taken as missing", endless)
    requested = _rounded(table, name, REQUESTED[name], jobs, notes)
    return masked(requested, requested >= 0)


def _rounded(table: AccountingTable, name: str, parse: Callable[[str], float], jobs: np.ndarray, notes: list[str]) -> np.ndarray:
    """Return whole seconds, halves up, -1 for missing values."""
    values = table.numbers(name, parse)[jobs]
    if count := int((values % 1 > 0).sum()):
        notes.append(f"Fractional times are rounded to the second: {table.title(name)} ({count:,}).")
    return np.where(np.isnan(values), -1, np.floor(np.nan_to_num(values) + 0.5)).astype(np.int64)


def _procs(table: AccountingTable, jobs: np.ndarray, processors: str, per_node: int, notes: list[str]) -> dict[str, object]:
    """Return requested and allocated processors, or nodes that count as ``per_node`` processors."""
    kinds = {kind: {column: table.find(*names) for column, names in _PROCESSORS[kind].items()} for kind in PROCESSORS}
    present = [kind for kind in PROCESSORS if any(kinds[kind].values())]
    if not present:
        raise InputError(
            f"{table.path}: the header line has no column of processors or nodes: ReqCPUS, AllocCPUS, ReqNodes or AllocNodes"
        )
    if per_node > 1 and "nodes" not in present:
        raise InputError(
            f"{table.path}: the header line has no column ReqNodes or AllocNodes, so --cpus-per-node has nothing to count"
        )
    kind = processors if processors in present else present[0]
    if kind != processors:
        notes.append(f"The file states no {processors}: {kind} are taken as processors.")
    counts = {column: table.numbers(name, whole)[jobs] for column, name in kinds[kind].items() if name is not None}
    if kind == "cpus":
        _fill_from_resources(table, jobs, counts, notes)
    return {
        column: masked(np.minimum(per_node * np.nan_to_num(count), BEYOND), ~np.isnan(count)) for column, count in counts.items()
    }


def _fill_from_resources(table: AccountingTable, jobs: np.ndarray, counts: dict[str, np.ndarray], notes: list[str]) -> None:
    """Take processors from AllocTRES and ReqTRES for jobs whose columns state none."""
    for column, tres, title in (("allocated_procs", ALLOCATED_TRES, "AllocTRES"), ("procs", TRES, "ReqTRES")):
        if tres not in table:
            continue
        positive = np.any([np.nan_to_num(count) > 0 for count in counts.values()], axis=0)
        cpus = table.numbers(tres, lambda text: resources(text).get("cpu", np.nan))[jobs]
        missing = ~positive & (cpus > 0)
        if missing.any():
            counted(notes, f"Processors that no column states are taken from {title}", missing)
            counts[column] = np.where(missing, cpus, counts.get(column, np.nan))
