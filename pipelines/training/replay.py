"""A trace as it arrives day by day: at each midnight, accounting has the ended jobs."""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

import numpy as np

from features.clock import DAY_S
from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.identity import among
from features.jobs.schema import IDENTITIES, masked, recorded_end_s
from sim.starts.history_starts import RECORDED, history_starts

BEGINS = timedelta(hours=2)
"""Time after midnight (UTC) at which the night of a day begins."""


@dataclass(frozen=True)
class ReplayedTrace:
    """A cleaned trace with starts for every job; ``starts`` names their origin."""

    clean: CleanTrace
    start_s: np.ndarray
    starts: str

    @property
    def midnights(self) -> list[int]:
        """Return every midnight from the first submission to the one after the last end.

        They are seconds from the origin, of midnights in UTC if the trace has dates.
        """
        phase = (self.clean.origin_unix_s or 0) % DAY_S
        first, last = int(self.clean.jobs["submit_s"].iloc[0]), self.last_end_s
        days = range((first + phase) // DAY_S + 1, (last + phase) // DAY_S + 2)
        return [day * DAY_S - phase for day in days]

    @property
    def last_end_s(self) -> int:
        """Return the end of the last job in seconds from the origin."""
        return int(self._end_s().max())

    def up_to_the_last_submission(self) -> int:
        """Count the midnights up to the one after the last submission.

        Later midnights have no new submissions, only ends of late jobs.
        """
        last = int(self.clean.jobs["submit_s"].iloc[-1])
        return int(np.searchsorted(self.midnights, last, side="right")) + 1

    def label(self, midnight_s: int) -> str:
        """Return the date that begins at a midnight; without dates, the number of the day."""
        if self.clean.origin_unix_s is None:
            return f"day-{midnight_s // DAY_S:05d}"
        return (datetime.fromtimestamp(0, UTC) + timedelta(seconds=self.clean.origin_unix_s + midnight_s)).strftime("%Y-%m-%d")

    def accounting(self, midnight_s: int) -> CleanTrace:
        """Return the jobs ended by a midnight, with waits; raise InputError if there are none."""
        ended = self._end_s() <= midnight_s
        if not ended.any():
            raise InputError(f"{self.clean.name}: no job had ended by {self.label(midnight_s)}")
        jobs = self.clean.jobs[ended].reset_index(drop=True)
        jobs = jobs.assign(wait_s=masked(self.start_s[ended] - jobs["submit_s"].to_numpy(), np.ones(len(jobs), bool)))
        jobs = jobs.assign(**{name: jobs[name].cat.remove_unused_categories() for name in IDENTITIES})
        rejected = self.clean.rejected_jobs
        # an altered job is listed when it has ended, a dropped one when it was submitted
        listed = np.where(
            rejected["action"] == "dropped", rejected["submit_s"].fillna(0) <= midnight_s, among(rejected, jobs)
        ).astype(bool)
        rejected = rejected[listed].reset_index(drop=True)
        notes = self.clean.notes
        if self.starts != RECORDED:
            notes = (*notes, f"Not all waits are recorded; starts are {self.starts}.")
        read = len(jobs) + int((rejected["action"] == "dropped").sum())
        return replace(self.clean, jobs=jobs, rejected_jobs=rejected, jobs_read=read, notes=notes)

    def _end_s(self) -> np.ndarray:
        return recorded_end_s(self.clean.jobs, self.start_s)


def replay(clean: CleanTrace) -> ReplayedTrace:
    """Prepare a trace for replay; starts are recorded, or EASY's if waits are missing."""
    start, source = history_starts(clean.jobs, clean.procs)
    return ReplayedTrace(clean, start, source)


def arrived(clean: CleanTrace, to_come: int) -> CleanTrace:
    """Return the jobs of a log that had ended when ``to_come`` of its days were still to come.

    Raises InputError if the log has fewer days.
    """
    if not to_come:
        return clean
    source = replay(clean)
    if to_come >= len(source.midnights):
        raise InputError(
            f"{clean.name}: arrives_days is {to_come}, and the log has only {len(source.midnights) - 1} days that can still arrive"
        )
    midnight_s = source.midnights[-1 - to_come]
    seen = source.accounting(midnight_s)
    note = (
        f"The log arrives day by day: here are the jobs that had ended by {source.label(midnight_s)}; {to_come} days are to come."
    )
    return replace(seen, notes=(*seen.notes, note))


def accounting_of(clean: CleanTrace, night: str) -> CleanTrace:
    """Return the jobs that had ended when the night of a day (2026-03-01) began.

    It does not matter when the night runs. Without ``night``, return the whole trace. Raises InputError if no job had ended by
    then, and for a past day of a trace without dates.
    """
    if not night:
        return clean
    begins = datetime.combine(date.fromisoformat(night), datetime.min.time(), UTC) + BEGINS
    if clean.origin_unix_s is None:
        if begins < datetime.now(UTC) - timedelta(days=1):
            raise InputError(f"{clean.name}: has no dates, so what had ended by {night} is not known: only tonight's night can run")
        return clean
    source, cut_s = replay(clean), int(begins.timestamp()) - clean.origin_unix_s
    return clean if source.last_end_s <= cut_s else source.accounting(cut_s)
