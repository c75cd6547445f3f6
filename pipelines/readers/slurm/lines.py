"""Lines of accounting for a replay: jobs that ran, or waited until they were cancelled.

A column that a file lacks is replaced, and a note says by what.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.errors import InputError
from pipelines.readers.delimited import NOWHERE, AccountingTable, whole
from pipelines.readers.localtime import MISSING_TIME, to_unix, zone
from pipelines.readers.slurm.requests import CPUS, GPUS, NODES, READ, resources
from pipelines.readers.slurm.sacct import REQUESTED, RUNTIME, refuse_several_clusters
from pipelines.readers.slurm.times import END, RAW, START, SUBMIT, JobTimes, count_tasks, job_ids, job_steps, job_times, tasks_in
from pipelines.readers.text import counted

NAMES = {
    **{name: (name,) for name in ("user", "account", "partition", "qos", "state", "eligible", "reqmem", "reqtres", "nodelist")},
    **{name: (name,) for name in ("constraints", "flags", "reservation", "priority", "reason")},
    **{"jobid": ("jobid", "job_id"), "submit": SUBMIT, "start": START, "end": END, "submitline": ("submitline", "submit_line")},
    **{"reqcpus": CPUS, "reqnodes": NODES, "gpus": GPUS},
    **{"elapsed": tuple(RUNTIME), "limit": tuple(REQUESTED)},
}
"""Names of each column: sacct's, then those of exports; the first present one is read."""
NEEDED = {
    **{"jobid": "JobID", "user": "User", "account": "Account", "partition": "Partition", "qos": "QOS", "submit": "Submit"},
    **{"start": "Start", "end": "End", "elapsed": "ElapsedRaw", "limit": "TimelimitRaw", "reqcpus": "ReqCPUS"},
}


class Absent(NamedTuple):
    """What a replay takes in place of a missing column, and how far that moved recorded runs.

    Of ``runs``, the mean wait moved by ``median_percent`` in the median and ``most_percent`` at most; of the recorded
    starts, up to ``most_points`` points fewer were decided as recorded. ``docs/studies/data/slurm-columns.csv`` has the
    figures.
    """

    taken: str
    runs: int
    median_percent: float
    most_percent: int
    most_points: int

    def note(self, name: str) -> str:
        """Return the sentences on the missing column ``name``."""
        return (
            f"The file has no column {name}: {self.taken}. Without it the mean wait of {self.runs} recorded runs moves by "
            f"{self.median_percent:g} % in the median and {self.most_percent} % at most, and up to {self.most_points} of 100 starts are "
            "no longer decided as recorded."
        )


ABSENT = {
    "State": Absent("all jobs have completed", 8, 0.0, 4, 0),
    "Eligible": Absent("jobs are eligible at their submission, and holds and begin times are not seen", 8, 0.3, 21, 20),
    "ReqMem": Absent("memory is what ReqTRES says, or the partition's default", 8, 0.0, 0, 0),
    "ReqTRES": Absent(
        "nodes, memory and GPUs are what other columns say, or one node, the partition's default and none", 8, 0.0, 3, 0
    ),
    "NodeList": Absent(
        "a running job holds all nodes, so that decisions from recorded states mean nothing, nor do drains", 8, 0.0, 11, 52
    ),
    "Priority": Absent("starts of one second are followed in order of submission", 8, 0.0, 0, 1),
    "Flags": Absent("which scheduler started a job is unknown", 8, 0.0, 0, 0),
    "Reservation": Absent("no job runs in a reservation", 7, 0.0, 0, 0),
    "Reason": Absent("only the holds in SubmitLine are seen", 7, 0.0, 2, 0),
    "Constraints": Absent("all nodes suit each job", 8, 0.0, 0, 0),
    "SubmitLine": Absent(
        "dependencies and throttles are taken from when jobs became eligible, and its other options are not seen", 7, 3.3, 11, 14
    ),
}
"""Columns that a file may lack; the eight runs are the first of each pair that has a log."""


_LONGEST_S = 100 * 365 * 86_400
_MOST_TASKS = 10_000
"""Max array tasks of a line that become jobs that wait."""


class JobColumns(NamedTuple):
    """The lines of jobs, arrays [lines]: texts by name, Unix seconds, and which ran or waited.

    ``columns`` are the titles by name, ``line`` the places in ``table``.
    """

    table: AccountingTable
    columns: dict[str, str]
    line: np.ndarray
    number: np.ndarray
    texts: dict[str, np.ndarray]
    times: JobTimes
    eligible: np.ndarray
    elapsed: np.ndarray
    limit: np.ndarray
    cpus: np.ndarray
    ran: np.ndarray
    waited: np.ndarray


def read_lines(table: AccountingTable, timezone: str, notes: list[str]) -> JobColumns:
    """Read the columns of jobs; leave out what contradicts itself or never waited."""
    for name, title in NEEDED.items():
        table.column(*NAMES[name], title=title)
    columns = {name: column for name, names in NAMES.items() if (column := table.find(*names))}
    jobs = ~job_steps(table)
    refuse_several_clusters(table, jobs)
    number = np.zeros(table.rows, np.int64)
    number[jobs] = job_ids(table, str(table.find(*RAW)), jobs, [])
    jobs &= _single(table, columns["jobid"], jobs, notes)
    for name in {"reqtres", "reqmem"} & columns.keys():
        table.numbers(name, READ[name])  # for errors that name the line
    place = zone(timezone)
    elapsed = table.numbers(columns["elapsed"], RUNTIME[columns["elapsed"]])
    table.refuse(columns["elapsed"], jobs & (elapsed > _LONGEST_S), "is a runtime of more than a hundred years")
    elapsed = elapsed[jobs]
    times = job_times(table, columns["submit"], jobs, place, elapsed, notes)
    texts = {name: table.strings(column)[jobs] for name, column in columns.items()}
    texts.setdefault("state", np.full(len(elapsed), "COMPLETED", object))
    ran, contradictory = _which_ran(texts, times, elapsed, notes)
    if not ran.any():
        raise InputError(f"{table.path}: holds no job that has run")
    eligible = to_unix(table.times("eligible")[jobs], place, times.submit).unix_s if "eligible" in columns else times.submit
    waited = ~ran & ~contradictory & (eligible != MISSING_TIME)
    counted(notes, "Jobs that never became eligible are left out", ~ran & ~contradictory & ~waited)
    lines = JobColumns(
        table=table,
        columns=columns,
        line=np.flatnonzero(jobs),
        number=number[jobs],
        texts=texts,
        times=times,
        eligible=eligible,
        elapsed=elapsed,
        limit=table.numbers(columns["limit"], REQUESTED[columns["limit"]])[jobs],
        cpus=_cpus(table, columns, jobs),
        ran=ran,
        waited=waited,
    )
    if (lost := (ran | waited) & np.isnan(lines.cpus)).any():
        raise table.error(columns["reqcpus"], int(lines.line[np.argmax(lost)]), "states no number of processors")
    return lines


def _which_ran(
    texts: dict[str, np.ndarray], times: JobTimes, elapsed: np.ndarray, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Tell which jobs ran, and which lines contradict themselves, bool [lines]."""
    cancelled = np.array([state.startswith("CANCELLED") for state in texts["state"]], bool) & (np.nan_to_num(elapsed) == 0)
    nowhere = np.array([nodes.lower() in NOWHERE for nodes in texts["nodelist"]], bool) if "nodelist" in texts else True
    contradictory = np.zeros(len(elapsed), bool)
    for rule, odd in times.contradictions(elapsed).items():
        counted(notes, f"Lines that contradict themselves are left out, as {rule}", odd)
        contradictory |= odd
    # a job cancelled while it waited has a start too: when it was cancelled
    return (times.start != MISSING_TIME) & ~np.isnan(elapsed) & ~(cancelled & nowhere) & ~contradictory, contradictory


def _cpus(table: AccountingTable, columns: dict[str, str], jobs: np.ndarray) -> np.ndarray:
    """Return requested processors, float64 [lines], from ReqTRES where ReqCPUS has none."""
    cpus = table.numbers(columns["reqcpus"], whole)[jobs]
    if "reqtres" not in columns:
        return cpus
    in_tres = table.numbers("reqtres", lambda text: resources(text).get("cpu", np.nan))[jobs]
    return np.where(np.nan_to_num(cpus) > 0, cpus, np.fmax(cpus, in_tres))


def _single(table: AccountingTable, name: str, jobs: np.ndarray, notes: list[str]) -> np.ndarray:
    """Tell which lines are of one job, or of array tasks that had not started (``12_[4-9]``) and are all named, bool
    [rows]."""
    codes, distinct = table.texts(name)
    shared = [tasks_in(text) for text in distinct]
    named = np.array([tasks is None or (tasks[1] and count_tasks(tasks[0]) <= _MOST_TASKS) for tasks in shared], bool)[codes]
    several = np.array([tasks is not None for tasks in shared], bool)[codes]
    started = ~np.isnat(table.times(table.column(*START)))
    left_out = several & (started | ~named)
    for which, what in ((~started, "had not started, and are over 10,000 or not all named,"), (started, "share a line")):
        lines = left_out & jobs & which
        if lines.any():
            tasks = sum(count_tasks(shared[code][0]) for code in codes[lines])
            notes.append(f"Array tasks that {what} are left out: {tasks:,} in {int(lines.sum()):,} lines.")
    return ~left_out
