"""Ids and times of Slurm's jobs: submission, start and end as Unix times.

Ids are ``7``, steps ``7.batch``, array tasks ``7_3``. Pending array tasks share a line such as ``7_[8-20%4]``; ``7+1``
is a component of a heterogeneous job. Times are right also around clock changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from pipelines.readers.delimited import BEYOND, AccountingTable
from pipelines.readers.localtime import MISSING_TIME, UnixTimes, to_unix
from pipelines.readers.text import counted

_PENDING = re.compile(r"\d+_\[([^\]]*)\](?:\+\d+)?")
TASKS = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?::(\d{1,18}))?)?", re.ASCII)
_COMPONENT = re.compile(r"(\d+(?:_\d+)?)\+\d+")
_ID = re.compile(r"\d+(?:_(?:\d+|\[[^\]]*\]))?(?:\+\d+)?(?:\.\S+)?", re.ASCII)
RAW = ("jobidraw", "jobid", "job_id")
"""Columns of the job's id, in lower case: the first present one is read."""
_WRITTEN = ("jobid", "job_id", "jobidraw")
"""The same, the most detailed first."""


def is_id(text: str) -> bool:
    """Tell whether ``text`` can be a job's or a step's id."""
    return _ID.fullmatch(text) is not None


def job_steps(table: AccountingTable) -> np.ndarray:
    """Return which lines are steps of jobs, bool [rows]."""
    steps = np.zeros(table.rows, bool)
    for name in ("jobid", "jobidraw"):
        if name in table:
            steps |= table.matches(name, lambda text: "." in text.rpartition("]")[2])
    return steps


def job_ids(table: AccountingTable, name: str, jobs: np.ndarray, notes: list[str]) -> np.ndarray:
    """Return int64 ids of the ``jobs`` (bool [rows]) by the column ``name``.

    They number the distinct ids from 1 if not all are whole numbers; for JobIDRaw that raises InputError.
    """
    numbered = table.matches(name, _is_number)
    if not numbered[jobs].all():
        if name == "jobidraw":
            table.refuse(name, jobs & ~numbered, "is not a whole number")
        notes.append(
            "Job ids are not all whole numbers (array or heterogeneous jobs, and no JobIDRaw): jobs are numbered from 1 instead."
        )
        return 1 + pd.factorize(table.texts(name)[0][jobs])[0]
    ids = table.mapped(name, lambda texts: np.array([_number(text) for text in texts], np.int64))[jobs]
    counted(notes, "Job ids that an earlier line has too", len(ids) - len(np.unique(ids)))
    return ids


def written_ids(table: AccountingTable, ids: np.ndarray, jobs: np.ndarray) -> object:
    """Return the ids of the ``jobs`` as the file writes them, null where equal to ``ids``."""
    codes, distinct = table.texts(table.column(*_WRITTEN))
    texts = pd.Series(np.array(distinct, object)[codes[jobs]])
    return pd.Categorical(texts.where(texts != pd.Series(ids).astype(str)).astype("str"))


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii()


def _number(text: str) -> int:
    return -1 if not _is_number(text) else int(text) if len(text) <= 18 else BEYOND


def tasks_in(text: str) -> tuple[list[range], bool] | None:
    """Return the array tasks in an id such as ``7_[1-9:2,12%4]``, and whether it names all.

    Slurm cuts long lists with ``...``. Returns None for an id of any other kind.
    """
    match = _PENDING.fullmatch(text)
    if match is None:
        return None
    numbers, all_told = list[range](), True
    for piece in match[1].partition("%")[0].split(","):
        tasks = TASKS.fullmatch(piece.strip())
        if tasks is None:
            all_told = False
            continue
        first, last, step = int(tasks[1]), int(tasks[2] or tasks[1]), int(tasks[3] or 1)
        numbers.append(range(first, max(last, first) + 1, max(step, 1)))
    return numbers, all_told


def count_tasks(numbers: list[range]) -> int:
    """Return how many tasks the ranges of :func:`tasks_in` have."""
    return sum(map(len, numbers))


def note_kinds(table: AccountingTable, jobs: np.ndarray, ended: np.ndarray, notes: list[str]) -> None:
    """Note how many array tasks share lines, and how many components jobs have.

    ``ended`` tells which of the ``jobs`` (bool [rows]) have ended, bool [jobs].
    """
    name = table.find(*_WRITTEN)
    if name is None:
        return
    codes, distinct = table.texts(name)
    codes = codes[jobs]
    shared = {code: tasks for code, text in enumerate(distinct) if (tasks := tasks_in(text))}
    for over, what in ((False, "had not started"), (True, "ended together")):
        sharing = [shared[code] for code in codes[(ended == over) & np.isin(codes, [*shared])].tolist()]
        if sharing:
            least = "" if all(all_told for _, all_told in sharing) else "at least "
            tasks = sum(count_tasks(numbers) for numbers, _ in sharing)
            notes.append(
                f"Array tasks that {what} share a line, which is read as one job: {len(sharing):,} for {least}{tasks:,} tasks."
            )
    components = np.array([_COMPONENT.fullmatch(text) is not None for text in distinct], bool)[codes]
    counted(notes, "Components of heterogeneous jobs are read as jobs of their own", components)


SUBMIT, START, END = ("submit", "submit_time"), ("start", "start_time"), ("end", "end_time")
"""Names of the columns, in lower case: the first present one is read."""
_TOLERANCE_S = 1
"""Tolerance, since elapsed times and times of day are rounded separately."""


@dataclass(frozen=True)
class JobTimes:
    """Unix seconds of submission, start and end, int64 [jobs], MISSING_TIME where missing."""

    submit: np.ndarray
    start: np.ndarray
    end: np.ndarray

    @property
    def ended(self) -> np.ndarray:
        """Return which jobs have both a start and an end, bool [jobs]."""
        return (self.start != MISSING_TIME) & (self.end != MISSING_TIME)

    @property
    def between(self) -> np.ndarray:
        """Return seconds from start to end, int64 [jobs], -1 where one of them is missing."""
        return np.where(self.ended, self.end - self.start, -1)

    def where(self, chosen: np.ndarray) -> JobTimes:
        """Return the times of the jobs that a mask chooses."""
        return JobTimes(self.submit[chosen], self.start[chosen], self.end[chosen])

    def contradictions(self, elapsed: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return by the name of a rule which jobs break it, bool [jobs].

        ``elapsed`` is float64 [jobs], NaN if unknown. A job may have run shorter than from start to end, if it was
        suspended.
        """
        backwards = self.ended & (self.end - self.start < -_TOLERANCE_S)
        rules = {"end-before-start": backwards}
        if elapsed is not None:
            rules["elapsed-beyond-end"] = self.ended & ~backwards & (elapsed - self.between > _TOLERANCE_S)
        return rules


def job_times(
    table: AccountingTable, submitted: str | None, jobs: np.ndarray, place: ZoneInfo, elapsed: np.ndarray | None, notes: list[str]
) -> JobTimes:
    """Return times of the ``jobs`` (bool [rows]); ``submitted`` is the submission's column.

    ``elapsed`` is float64 [jobs], NaN if unknown. In the hour that autumn repeats, End - Elapsed decides which of the
    two instants a start or an end is; if it cannot, a start is the first instant not before the submission, an end the
    first not before the start. In the hour that spring skips, a start is End - Elapsed or, without an end or an elapsed
    time, the moment of the change. ``submitted`` may be None: then no submission bounds a start. Raises InputError for
    a missing submission.
    """
    local = np.full(table.rows, "NaT", "datetime64[s]") if submitted is None else table.times(submitted)
    if submitted is not None:
        table.refuse(submitted, jobs & np.isnat(local), "states no time of submission")
    instants = [to_unix(local[jobs], place)]
    for names in (START, END):
        name = table.find(*names)
        local = np.full(table.rows, "NaT", "datetime64[s]") if name is None else table.times(name)
        instants.append(to_unix(local[jobs], place, instants[-1].unix_s))
    submit, start, end = instants
    start_s, end_s = start.unix_s, end.unix_s
    if elapsed is not None:
        start_s, end_s = _settle(submit.unix_s, start, end, elapsed)
    repeated = np.any([times.repeated for times in instants], axis=0)
    counted(notes, "Jobs with a local time that the clocks showed twice, told apart by elapsed times or by order", repeated)
    skipped = np.any([times.skipped for times in instants], axis=0)
    counted(notes, "Jobs with a local time that the clocks never showed, taken as the moment of the change", skipped)
    return JobTimes(submit.unix_s, start_s, end_s)


def _settle(submit: np.ndarray, start: UnixTimes, end: UnixTimes, elapsed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return starts and ends that agree with elapsed times."""
    start_s, end_s = start.unix_s.copy(), end.unix_s.copy()
    ran = (start_s != MISSING_TIME) & (end_s != MISSING_TIME) & ~np.isnan(elapsed)
    lasted = np.where(ran, np.nan_to_num(elapsed), 0).astype(np.int64)
    open_ = ran & (start.repeated | end.repeated) & ~start.skipped & ~end.skipped
    for first, second in (
        (start.earlier, end.earlier),
        (start.earlier, end.later),
        (start.later, end.later),
        (start.later, end.earlier),
    ):
        fits = open_ & (np.abs(second - first - lasted) <= _TOLERANCE_S) & (first >= submit)
        start_s[fits], end_s[fits] = first[fits], second[fits]
        open_ &= ~fits
    jumped = ran & start.skipped & ~end.skipped & ~end.repeated
    start_s[jumped] = (end_s - lasted)[jumped]
    return start_s, end_s
