"""Quality of predicted starts: pinball loss, coverage, chances, ranked scores.

Waits and quantiles are seconds from the question on. Jobs that still wait are judged by nothing but how long they have waited.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from models.packed.start_distribution import CHANCES_S, EDGES_S, LEVELS, at_levels, at_waits, given_waiting
from models.runtime.distribution import losses

INTERVALS = {0.5: (0.25, 0.75), 0.8: (0.1, 0.9), 0.9: (0.05, 0.95)}
"""Shares that intervals are told to cover, and their levels."""
WAITED_S = 60.0
"""A job that waits for longer found no room."""
MONTH_S = 30 * 86_400


def ranked_scores(chances: np.ndarray, waited_s: np.ndarray) -> np.ndarray:
    """Return one minus the ranked probability score of each answer, in [0, 1], float64 [jobs].

    The mean over the edges of the squared difference between the chance to have started and whether the job had (Epstein 1969);
    proper, and bounded whatever the waits.
    """
    return 1.0 - ((chances - (waited_s[:, None] <= EDGES_S)) ** 2).mean(axis=1)


def covered(chances: np.ndarray, waited_s: np.ndarray, at_s: np.ndarray, first_s: int) -> pd.DataFrame:
    """Return the coverage of intervals among the jobs that wait, a row a share and month.

    Columns ``month share jobs covered``; month -1 is all. Intervals are those of a job that does not start at once, which is what is
    told to one that finds no room. Months count from ``first_s``.
    """
    waits = waited_s > WAITED_S
    place = at_waits(given_waiting(chances[waits]), waited_s[waits])
    month, rows = (at_s[waits] - first_s) // MONTH_S, []
    for share in INTERVALS:
        inside = np.abs(place - 0.5) <= share / 2.0
        for number in (-1, *np.unique(month)):
            chosen = inside[month == number] if number >= 0 else inside
            rows.append({"month": int(number), "share": share, "jobs": len(chosen), "covered": float(chosen.mean())})
    return pd.DataFrame(rows, columns=["month", "share", "jobs", "covered"])


def pinball(chances: np.ndarray, waited_s: np.ndarray) -> np.ndarray:
    """Return the quantile loss of answers at ``LEVELS``, seconds, float64 [jobs, levels]."""
    return losses(at_levels(chances, np.array(LEVELS)), np.array(LEVELS), waited_s)


def chance_table(chances: np.ndarray, waited_s: np.ndarray, bins: int = 10) -> pd.DataFrame:
    """Return how often told chances came true, a row a wait and bin.

    Columns ``by bin jobs told came``.
    """
    rows = []
    for name, wait in CHANCES_S.items():
        told = chances[:, int(np.searchsorted(EDGES_S, wait))]
        place, came = np.minimum((told * bins).astype(np.int64), bins - 1), waited_s <= wait
        for number in np.unique(place):
            chosen = place == number
            rows.append(
                {
                    "by": name,
                    "bin": int(number),
                    "jobs": int(chosen.sum()),
                    "told": float(told[chosen].mean()),
                    "came": float(came[chosen].mean()),
                }
            )
    return pd.DataFrame(rows, columns=["by", "bin", "jobs", "told", "came"])


def brier_skill(chances: np.ndarray, waited_s: np.ndarray, base: np.ndarray, wait_s: float) -> float:
    """Return the Brier skill of the chance to start by ``wait_s`` against ``base``.

    float64 [jobs]. One minus the ratio of the two mean squared errors.
    """
    came = (waited_s <= wait_s).astype(np.float64)
    told = chances[:, int(np.searchsorted(EDGES_S, wait_s))]
    return float(1.0 - ((told - came) ** 2).mean() / max(((base - came) ** 2).mean(), 1e-12))
