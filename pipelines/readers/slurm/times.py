"""Submission, start and end of Slurm's jobs as Unix times, also around clock changes."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np

from pipelines.readers.delimited import AccountingTable
from pipelines.readers.localtime import MISSING_TIME, UnixTimes, to_unix

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

        ``elapsed`` is float64 [jobs], NaN if unknown. A job may have run shorter than from start to end, if it was suspended.
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

    ``elapsed`` is float64 [jobs], NaN if unknown. In the hour that autumn repeats, End - Elapsed decides which of the two
    instants a start or an end is; if it cannot, a start is the first instant not before the submission, an end the first not
    before the start. In the hour that spring skips, a start is End - Elapsed or, without an end or an elapsed time, the moment of
    the change. ``submitted`` may be None: then no submission bounds a start. Raises InputError for a missing submission.
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
    start_s, end_s, settled = start.unix_s, end.unix_s, np.zeros((3, len(start.unix_s)), bool)
    if elapsed is not None:
        start_s, end_s, settled = _settle(submit.unix_s, start, end, elapsed)
    for which, how in (
        ("repeated", "twice, and are told apart by order"),
        ("skipped", "never, and are taken as the moment of the change"),
    ):
        marks = np.array([getattr(times, which) for times in instants])
        for shown, wording in (
            (marks & settled, f"{how.partition(',')[0]}, and are settled by the elapsed time"),
            (marks & ~settled, how),
        ):
            if shown.any():
                notes.append(
                    f"Local times that the clocks showed {wording}: {int(shown.sum()):,} in {int(shown.any(axis=0).sum()):,} jobs."
                )
    return JobTimes(submit.unix_s, start_s, end_s)


def _settle(submit: np.ndarray, start: UnixTimes, end: UnixTimes, elapsed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return starts and ends that agree with elapsed times, and which were settled by them.

    The latter is bool [3, jobs], of (submission, start, end).
    """
    start_s, end_s = start.unix_s.copy(), end.unix_s.copy()
    settled = np.zeros((3, len(start_s)), bool)
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
        settled[1] |= fits & start.repeated
        settled[2] |= fits & end.repeated
    jumped = ran & start.skipped & ~end.skipped & ~end.repeated
    start_s[jumped] = (end_s - lasted)[jumped]
    settled[1] |= jumped
    return start_s, end_s, settled
