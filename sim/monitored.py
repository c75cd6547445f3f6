"""Start decisions of a replay that read recorded counters at the simulated moment.

For a real machine it is unknown what counters and runtimes would have been under other decisions. A replay takes both as
recorded: congestion then does not depend on the decision. Which jobs run is the replay's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np
import pandas as pd


@dataclass
class Recorded:
    """A start decision by what was recorded up to the simulated moment.

    ``chance(row, second, running)`` returns a probability for the job in a row of the table while the jobs in other rows run. The
    job waits if it is at least ``cutoff``, and starts if it is NaN (nothing was recorded) or the row is not in ``asked``.
    ``answers`` are (row, second, probability). To know which jobs run, the object is the predictor ``requested``, too.
    """

    chance: Callable[[int, int, Collection[int]], float]
    asked: Collection[int]
    cutoff: float
    name: str = "requested"
    answers: list[tuple[int, int, float]] = field(default_factory=list)

    def skip(self, row: int, now_s: int) -> bool:
        """Tell whether the job in ``row`` must wait."""
        if row in self.asked:
            self.answers.append((row, now_s, self.chance(row, now_s, self._running)))
            return self.answers[-1][2] >= self.cutoff
        return False

    def begin(self, jobs: pd.DataFrame) -> None:
        """Begin with an empty machine."""
        self._running, self._requested = set[int](), jobs["requested_s"].to_numpy(np.float64)

    def submitted(self, job: int, now_s: int) -> None:
        """Do nothing."""

    def started(self, job: int, now_s: int) -> None:
        """Note that ``job`` runs."""
        self._running.add(job)

    def ended(self, job: int, now_s: int) -> None:
        """Note that ``job`` no longer runs."""
        self._running.remove(job)

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        """Return the job's request."""
        return float(self._requested[job])


def beside(start_s: np.ndarray, end_s: np.ndarray, row: int) -> np.ndarray:
    """Return the rows of jobs that run when the one in ``row`` starts.

    Of jobs that start in the same second, those in earlier rows count.
    """
    at = start_s[row]
    begun = (start_s < at) | ((start_s == at) & (np.arange(len(start_s)) < row))
    return np.flatnonzero(begun & (end_s > at))
