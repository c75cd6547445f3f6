"""The jobs that judge a model: the last to end, counted back from the last submission.

There is always at least one.
"""

from dataclasses import dataclass

import numpy as np

from features.clock import DAY_S
from models.registry.promotion import FEWEST_JOBS, JUDGED_DAYS

STRAGGLERS = 7
"""Max days between a judging job's submission and the judged window; the few jobs that waited and ran longer do not judge."""


@dataclass(frozen=True)
class JudgedWindow:
    """The judging jobs ended after ``since_s`` and were submitted from ``first_s`` on.

    Each is predicted as of the night before it. ``last_s`` is the last submission; all are seconds from the trace's origin.
    """

    since_s: int
    first_s: int
    last_s: int

    @property
    def nights(self) -> list[int]:
        """Return instants a day apart, from at or before ``first_s`` to a day before ``last_s``.

        They are counted back from the last submission, in ascending order.
        """
        days = max(-(-(self.last_s - self.first_s) // DAY_S), 1)
        return [self.last_s - DAY_S * number for number in range(days, 0, -1)]

    def jobs(self, end_s: np.ndarray) -> np.ndarray:
        """Return the mask of the jobs that end in the window, bool [jobs]."""
        return end_s > self.since_s


def judged_window(submit_s: np.ndarray, end_s: np.ndarray) -> JudgedWindow:
    """Return the judged window of jobs submitted at ``submit_s`` and ended at ``end_s``.

    Both int64 [jobs]. It begins ``JUDGED_DAYS`` days before the last submission, or earlier if fewer than ``FEWEST_JOBS`` jobs
    have ended since. It is not counted from the last end, because one long job after the last submission could leave no others in
    it.
    """
    last, fewest = int(submit_s.max()), min(FEWEST_JOBS, len(submit_s))
    since = min(last - JUDGED_DAYS * DAY_S, int(np.partition(end_s, -fewest)[-fewest]) - 1)
    submitted = submit_s[end_s > since]
    first = min(since - STRAGGLERS * DAY_S, int(np.partition(submitted, -fewest)[-fewest]))
    return JudgedWindow(since, first, last)
