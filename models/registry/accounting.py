"""Accounting: the ended jobs of a trace with their features."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.jobs.like_jobs import columns_of
from features.jobs.runtime_features import States, distinct, runtime_features, states_at
from features.jobs.schema import recorded_end_s


@dataclass(frozen=True)
class Accounting:
    """Ended jobs: a cleaned canonical table, starts int64 [jobs], and their features.

    The table is in order of submission. Ends are those recorded, although the runtimes that models learn are cut at the request.
    ``features`` is the table ``runtime_features`` (:mod:`features.jobs.runtime_features`), a row a job: models are trained from
    it. ``origin_unix_s`` and ``timezone`` as in ``features.clock``. ``source`` says whether the starts were recorded or simulated.
    """

    jobs: pd.DataFrame
    start_s: np.ndarray
    features: pd.DataFrame
    origin_unix_s: int | None = None
    timezone: str | None = None
    source: str = ""
    end_s: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "end_s", recorded_end_s(self.jobs, self.start_s))

    @property
    def until_s(self) -> int:
        """Return the last end."""
        return int(self.end_s.max())

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the features that learners read: of the levels that the jobs tell apart."""
        return columns_of(tuple(distinct(self.jobs)))

    def ended(self, at_s: int) -> np.ndarray:
        """Return rows of the jobs that had ended by ``at_s``."""
        return np.flatnonzero(self.end_s <= at_s)

    def by_end(self, after_s: int, until_s: int) -> np.ndarray:
        """Return rows of jobs that ended after ``after_s`` and by ``until_s``, by end."""
        order = np.lexsort((self.start_s, self.end_s))
        first, last = np.searchsorted(self.end_s[order], [after_s, until_s], side="right")
        return order[first:last]

    def snapshot(self, at_s: int) -> States:
        """Return users and groups as of a night at ``at_s``."""
        return states_at(self.jobs, self.start_s, at_s, self.end_s, running=False)

    def served(self, rows: np.ndarray, at_s: np.ndarray | int) -> pd.DataFrame:
        """Return features of jobs from the accounting of the nights ``at_s``.

        ``rows`` of the jobs ascend, and so do the nights, int64 [rows] or one for all.
        """
        local = self._local(self.jobs["submit_s"].to_numpy(np.int64))
        nights = np.broadcast_to(np.asarray(at_s, np.int64), len(rows))
        return runtime_features(self.jobs, self.start_s, local, self.end_s, rows=rows, known_s=nights)

    def _local(self, submit_s: np.ndarray) -> np.ndarray:
        return local_clock_s(submit_s, self.origin_unix_s, self.timezone)


def accounting(
    jobs: pd.DataFrame, start_s: np.ndarray, origin_unix_s: int | None = None, timezone: str | None = None, source: str = ""
) -> Accounting:
    """Return :class:`Accounting` of ended jobs, whose features are made now.

    Errors are those of ``features.jobs.history.events_of``.
    """
    local = local_clock_s(jobs["submit_s"].to_numpy(np.int64), origin_unix_s, timezone)
    table = runtime_features(jobs, start_s, local, recorded_end_s(jobs, start_s))
    return Accounting(jobs, start_s, table, origin_unix_s, timezone, source)
