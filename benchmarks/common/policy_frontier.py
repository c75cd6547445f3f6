"""Compare policies by weekly sums of their metrics, so that hundreds of schedules need not be held at once.

Intervals are those of :mod:`sim.metrics.comparison`: over weeks, over replicates where a policy was replayed several times, and over
users where sums by user are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from features.clock import WEEK_S
from features.errors import InputError
from features.statistics import CONFIDENCE, FEWEST_BLOCKS, Interval, Ratio, interval_of_change

AIM = "mean_bounded_slowdown"
"""The metric to lower."""

Sums: TypeAlias = Mapping[str, Ratio]
"""Weekly sums of one schedule, float64 [weeks], or of several replicates, [replicates, weeks], by metric."""


def weeks_of(submit_s: np.ndarray) -> np.ndarray:
    """Return the week of each submission, int64 [jobs], numbered without empty weeks."""
    return np.unique((submit_s - submit_s.min()) // WEEK_S, return_inverse=True)[1]


class Change(NamedTuple):
    """A metric relative to a baseline's, less 1, with its interval.

    None where the baseline is 0, the interval also below 5 weeks.  ``coverage`` and ``p`` are of :class:`features.statistics.Interval`.
    """

    value: float
    baseline: float
    relative: float | None
    low: float | None
    high: float | None
    weeks: int
    replicates: int = 1
    coverage: float | None = None
    p: float | None = None


def change(sums: Sums, base: Sums, metric: str, confidence: float = CONFIDENCE, users: tuple[Ratio, Ratio] | None = None) -> Change:
    """Compare ``metric`` of one policy with another's on the same jobs.

    ``users`` are the sums of both by week and user, if known, pooled over replicates.

    The interval is that of :func:`sim.metrics.comparison.compare`. Replicate i of both must be the same shake; where the baseline
    has more replicates, its first are taken.
    """
    for policy_sums in (sums, base):
        if metric not in policy_sums:
            raise InputError(f"unknown metric {metric!r}; known: {', '.join(policy_sums)}")
    mine, theirs = (Ratio(*(np.atleast_2d(part) for part in policy_sums[metric])) for policy_sums in (sums, base))
    replicates, weeks = mine.numerator.shape
    if theirs.numerator.shape[1] != weeks:
        raise InputError(f"sums over {weeks} and over {theirs.numerator.shape[1]} weeks are not of the same jobs")
    if len(theirs.numerator) < replicates:
        raise InputError(f"{replicates} replicates have only {len(theirs.numerator)} of the baseline to compare with")
    theirs = Ratio(*(part[:replicates] for part in theirs))
    value, reference = mine.value(), theirs.value()
    if reference == 0:
        return Change(value, reference, None, None, None, weeks, replicates)
    low, high, coverage, p = interval_of_change(mine, theirs, confidence, users) if weeks >= FEWEST_BLOCKS else Interval()
    return Change(value, reference, value / reference - 1.0, low, high, weeks, replicates, coverage, p)
