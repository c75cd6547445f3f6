"""The rule by which a challenger takes the champion's place, from numbers alone.

Judged are the jobs that *ended* in the last ``JUDGED_DAYS`` days (so that long jobs count as often as short ones) and were submitted after
the champion was trained, each answered as it was served: by the champion's model, and by the challenger's method trained the night
before the submission, both from that night's snapshot. No job judges a model that was trained on it. The challenger is promoted if

* at least ``FEWEST_JOBS`` jobs judge;
* its mean accuracy is higher by more than ``TIE``, and the interval of the paired difference lies above 0;
* it under-predicts no more than ``UNDERPREDICTION_MARGIN`` of the jobs more than the champion; and
* every other check of it holds.

Jobs of one user on one day resemble each other, so the interval takes them as one observation (cluster-robust variance, Liang & Zeger
1986) with Student's t; with several candidates its level is Bonferroni's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from models.evaluation import accuracy

JUDGED_DAYS = 14
FEWEST_JOBS = 200
TIE = 0.001
"""Accuracies closer than this count as equal."""
UNDERPREDICTION_MARGIN = 0.10
CONFIDENCE = 0.95
FEWEST_CLUSTERS = 10


@dataclass(frozen=True)
class Mean:
    """A mean over jobs with its clustered standard error and the number of clusters."""

    value: float
    error: float
    clusters: int

    def interval(self, confidence: float) -> tuple[float, float]:
        """Student's t interval; unbounded with fewer than ``FEWEST_CLUSTERS`` clusters."""
        if self.clusters < FEWEST_CLUSTERS:
            return -np.inf, np.inf
        half = -float(stdtrit(self.clusters - 1, (1.0 - confidence) / 2.0)) * self.error
        return self.value - half, self.value + half


def clustered_mean(values: np.ndarray, cluster: np.ndarray) -> Mean:
    """Mean of ``values`` float64 [jobs] whose errors are shared within ``cluster`` int [jobs]. NaN over no jobs."""
    if len(values) == 0:
        return Mean(float("nan"), float("nan"), 0)
    mean = float(values.mean())
    sums = np.bincount(np.unique(cluster, return_inverse=True)[1], values - mean)
    count = len(sums)
    scale = count / (count - 1) if count > 1 else np.inf
    return Mean(mean, float(np.sqrt((sums**2).sum() * scale) / len(values)) if count > 1 else np.inf, count)


def user_days(user: np.ndarray, submit_s: np.ndarray) -> np.ndarray:
    """One number for each user (code, -1 for none) and day of submission: int64 [jobs]."""
    day = submit_s // 86_400
    return (user - user.min(initial=0)) * (day.max(initial=0) + 1) + day


@dataclass(frozen=True)
class Comparison:
    """Challenger against champion on the same jobs: mean scores, and their paired difference with the interval from ``low`` to ``high``."""

    jobs: int
    champion: Mean
    challenger: Mean
    difference: Mean
    low: float
    high: float


@dataclass(frozen=True)
class Duel(Comparison):
    """A comparison of predicted runtimes, scored by accuracy, and how often each was below the runtime."""

    champion_underpredicts: float
    challenger_underpredicts: float


def compare(challenger: np.ndarray, champion: np.ndarray, cluster: np.ndarray, candidates: int = 1) -> Comparison:
    """Compare two lists of scores, float64 [jobs], of the same jobs; ``candidates`` were there to choose the challenger from."""
    difference = clustered_mean(challenger - champion, cluster)
    low, high = difference.interval(1.0 - (1.0 - CONFIDENCE) / max(candidates, 1))
    return Comparison(len(champion), clustered_mean(champion, cluster), clustered_mean(challenger, cluster), difference, low, high)


def duel(challenger_s: np.ndarray, champion_s: np.ndarray, runtime_s: np.ndarray, cluster: np.ndarray, candidates: int = 1) -> Duel:
    """:func:`compare` two lists of predictions, float64 seconds [jobs]."""
    found = compare(accuracy(challenger_s, runtime_s), accuracy(champion_s, runtime_s), cluster, candidates)
    return Duel(
        **vars(found),
        champion_underpredicts=float((champion_s < runtime_s).mean()) if len(runtime_s) else float("nan"),
        challenger_underpredicts=float((challenger_s < runtime_s).mean()) if len(runtime_s) else float("nan"),
    )


def decide(found: Duel, checks: Mapping[str, bool]) -> tuple[bool, str]:
    """Whether the challenger is promoted, and why, in one sentence with the numbers."""
    if found.jobs < FEWEST_JOBS:
        return False, (
            f"only {found.jobs:,} jobs that ended in the last {JUDGED_DAYS} days were submitted after the champion was trained; {FEWEST_JOBS} must judge"
        )
    numbers = (
        f"{said(found, 'accuracy as served', 'jobs')}, under-predicted "
        f"{found.challenger_underpredicts:.1%} against {found.champion_underpredicts:.1%}"
    )
    worse = found.challenger_underpredicts > found.champion_underpredicts + UNDERPREDICTION_MARGIN
    return verdict(
        found, checks, numbers, [f"it under-predicts over {100 * UNDERPREDICTION_MARGIN:g} points more"] if worse else []
    )


def said(found: Comparison, measure: str, things: str) -> str:
    """The numbers in words."""
    return (
        f"{measure} {found.challenger.value:.4f} against {found.champion.value:.4f} on {found.jobs:,} {things}, "
        f"difference {found.difference.value:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
    )


def verdict(found: Comparison, checks: Mapping[str, bool], numbers: str, against: Sequence[str] = ()) -> tuple[bool, str]:
    """Promoted if it is surely better, every check holds and nothing else speaks ``against`` it; and why, after the ``numbers``."""
    reasons = []
    if not found.difference.value > TIE:
        reasons.append(f"it is not better by more than {TIE}")
    elif not found.low > 0:
        reasons.append("the interval of the difference does not leave out 0")
    reasons += [*against, *(f"its check failed: {name}" for name, passed in checks.items() if not passed)]
    return not reasons, numbers + (f"; {' and '.join(reasons)}" if reasons else "; every check holds")
