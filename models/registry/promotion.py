"""The rule by which a challenger replaces the champion, from numbers alone.

The challenger is a method, trained anew every night. A job's predictions are those of the night before its submission:
the champion's by its model and the challenger's by its method trained that night, both from that night's snapshot. No
job judges a model that was trained on it. Every job that was submitted after the champion was trained judges once: on
the day on which it ended. The challenger is promoted if

* the evidence that it is better by more than ``TIE`` reaches candidates / ``LEVEL``;
* at least ``FEWEST_JOBS`` of the jobs that ended in the last ``JUDGED_DAYS`` days judge, and over these its mean
  accuracy is higher by more than ``TIE``;
* its share of under-predicted jobs is at most ``UNDERPREDICTION_MARGIN`` above the champion's;
* if both have quantiles, the challenger's are no worse by more than margins (:func:`of_quantiles`).

The unit of evidence is the mean difference of accuracy over the jobs of one user that ended on one day, less ``TIE``: a
user's jobs resemble each other, so a burst of a thousand counts as one observation. Assumptions for an equal
challenger: given the past, and given which users' jobs end on a day, the expectation of the units is at most 0 on
average since each starting time, and users of one day err independently. Then the chance that an equal challenger, or
one of several (Bonferroni), is ever promoted over a champion is at most ``LEVEL``, whatever the number of nights. The
evidence starts anew with every champion.

The mean difference over the last days is also shown with an interval, which decides nothing: jobs of one user and day
of submission count as one observation (cluster-robust variance, Liang & Zeger 1986), with Student's t; with several
candidates its level is Bonferroni's. The last two conditions can only keep the champion, so they add nothing to the
chance of a wrong promotion, and their intervals need no validity over all nights.

The evidence is anytime-valid: it bets that a mean is above 0, and may be read every night. A gambler starts with 1 and
stakes on every unit x in [-1, 1] a constant share s of the wealth. The wealth, the product of 1 + s x, is the evidence
that x is above 0 in the mean (Waudby-Smith & Ramdas, "Estimating means of bounded random variables by betting", JRSS B
86(1), 2024; Ramdas, Grünwald, Vovk & Shafer, "Game-theoretic statistics and safe anytime-valid inference", Statistical
Science 38(4), 2023). If each x is at most 0 in expectation given all before it, the wealth is a nonnegative
supermartingale, and the chance that it ever reaches 1 / level is at most the level (Ville 1939), however often it is
read. The same holds for a mean of such products with fixed weights. Here it is over the :data:`STAKES`, as the best is
unknown, and over starts every :data:`EPOCH_DAYS` days, as a mean may rise after a long time below 0 (Shin, Ramdas &
Rinaldo, "E-detectors", 2024).

Since stakes are constant, not every expectation need be at most 0. With expectations m given the past, the wealth is at
most a martingale times exp(s sum m): the bound holds for all times at which the sum since the start is at most 0,
whatever its terms (time-varying means as in Howard, Ramdas, McAuliffe & Sekhon, "Time-uniform, nonparametric,
nonasymptotic confidence sequences", Annals of Statistics 49(2), 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp, stdtrit

from features.clock import DAY_S
from models.runtime.evaluation import accuracy, pinball

STAKES = (0.05, 0.15, 0.45, 0.9)
"""The best of four sets: shortest detection of gains of 3 and 5 points in simulated years
(docs/studies/promotion.md)."""
EPOCH_DAYS = 14
"""As long as the window of days that nights show. In simulations 28 did as well, and never restarting did worse."""


def log_growth(units: np.ndarray, day: np.ndarray, days: int) -> np.ndarray:
    """Return the log growth of each stake's wealth by day, float64 [days, stakes].

    ``units`` float64 [units] above -1 / max(STAKES), ``day`` int [units] in 0..days-1. The order of units does not
    matter.
    """
    return np.column_stack([np.bincount(day, np.log1p(stake * units), days) for stake in STAKES])


def log_evidence(growth: np.ndarray, known_from: int = 0) -> np.ndarray:
    """Return the log evidence after each day, float64 [..., days].

    ``growth`` comes from :func:`log_growth`, float64 [..., days, stakes]. The k-th starting time, from 0, has the
    weight 1 / ((k+1)(k+2)); the weight of later starts is kept as wealth 1. If the days before ``known_from`` are
    unknown, earlier starts are dropped: the result is below the whole evidence, and as valid.
    """
    days = growth.shape[-2]
    wealth = np.cumsum(growth, axis=-2)
    total = np.full(growth.shape[:-1], -np.inf)
    for number, first in enumerate(range(0, days, EPOCH_DAYS)):
        if first < known_from:
            continue
        before = wealth[..., first - 1 : first, :] if first else 0.0
        grown = logsumexp(wealth[..., first:, :] - before, axis=-1) - np.log(growth.shape[-1])
        total[..., first:] = np.logaddexp(total[..., first:], grown - np.log((number + 1) * (number + 2)))
    begun = np.arange(days) // EPOCH_DAYS + 1
    return np.logaddexp(total, -np.log(begun + 1.0))


JUDGED_DAYS = 14
FEWEST_JOBS = 200
TIE = 0.001
"""Accuracies closer than this count as equal."""
UNDERPREDICTION_MARGIN = 0.10
CONFIDENCE = 0.95
LEVEL = 0.05
"""Max chance that a champion is ever replaced by a challenger that is no better, shared by the candidates."""
SETTLING_DAYS = 1
"""Days after the champion's training whose ends do not judge, because the short jobs submitted since then end first."""
FEWEST_CLUSTERS = 10
PINBALL_MARGIN = 0.10
CALIBRATION_MARGIN = 0.05
_LARGEST = 700.0
"""Logarithm of the largest evidence reported."""


@dataclass(frozen=True)
class Mean:
    """A mean over jobs with its clustered standard error and the number of clusters."""

    value: float
    error: float
    clusters: int

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return Student's t interval; unbounded with fewer than ``FEWEST_CLUSTERS`` clusters."""
        if self.clusters < FEWEST_CLUSTERS:
            return -np.inf, np.inf
        half = -float(stdtrit(self.clusters - 1, (1.0 - confidence) / 2.0)) * self.error
        return self.value - half, self.value + half


def clustered_mean(values: np.ndarray, cluster: np.ndarray) -> Mean:
    """Return the mean of ``values`` float64 [jobs] with errors shared within ``cluster``.

    ``cluster`` is int [jobs]. NaN over no jobs.
    """
    if len(values) == 0:
        return Mean(float("nan"), float("nan"), 0)
    mean = float(values.mean())
    sums = np.bincount(np.unique(cluster, return_inverse=True)[1], values - mean)
    count = len(sums)
    scale = count / (count - 1) if count > 1 else np.inf
    return Mean(mean, float(np.sqrt((sums**2).sum() * scale) / len(values)) if count > 1 else np.inf, count)


def user_days(user: np.ndarray, submit_s: np.ndarray) -> np.ndarray:
    """Return one number for each user (code, -1 for none) and day of submission: int64 [jobs]."""
    day = submit_s // 86_400
    return (user - user.min(initial=0)) * (day.max(initial=0) + 1) + day


@dataclass(frozen=True)
class Evidence:
    """Evidence that a challenger is better: ``value`` grows from 1 and must reach ``needed``.

    ``units`` were judged on ``days`` days.
    """

    value: float = 1.0
    needed: float = 1.0 / LEVEL
    units: int = 0
    days: int = 0

    @property
    def enough(self) -> bool:
        return self.value >= self.needed

    def __str__(self) -> str:
        return f"evidence {self.value:.3g} of the {self.needed:g} needed"


def evidence(units: np.ndarray, day: np.ndarray, days: int, candidates: int = 1, known_from: int = 0) -> Evidence:
    """Return the evidence of ``units``, float64 [units] in [-1 - TIE, 1].

    ``day`` int [units] are their days, of which the first ``days`` are over. ``candidates`` share the level. Units of
    days that are not over do not count yet; ``known_from`` as in :func:`models.registry.promotion.log_evidence`.
    """
    over = day < days
    needed = max(candidates, 1) / LEVEL
    if days <= 0:
        return Evidence(needed=needed)
    reached = log_evidence(log_growth(units[over], day[over], days), known_from)[-1]
    return Evidence(float(np.exp(min(reached, _LARGEST))), needed, int(over.sum()), days)


def served_evidence(
    difference: np.ndarray,
    user: np.ndarray,
    end_s: np.ndarray,
    trained_until_s: int,
    until_s: int,
    candidates: int,
    known_from_s: int,
) -> Evidence:
    """Return the evidence of paired differences of accuracy, float64 [jobs], at ``until_s``.

    Jobs were submitted after ``trained_until_s``. ``user`` int [jobs] (code, -1 for unknown) and ``end_s`` int [jobs].
    Days count from the champion's training, so that the units of a day that is over are the same on every later night.
    ``known_from_s`` is the instant from which on all ends are given, if it is later than the training.
    """
    first_s = trained_until_s + SETTLING_DAYS * DAY_S
    day = (end_s - first_s - 1) // DAY_S
    chosen = day >= 0
    _, row, unit = np.unique(user_days(user[chosen], day[chosen] * DAY_S), return_index=True, return_inverse=True)
    means = np.bincount(unit, difference[chosen]) / np.bincount(unit) if len(row) else np.empty(0)
    known_from = max(-((first_s - known_from_s) // DAY_S), 0)
    return evidence(means - TIE, day[chosen][row], (until_s - first_s) // DAY_S, candidates, known_from)


@dataclass(frozen=True)
class Comparison:
    """Challenger against champion on the same ``jobs`` jobs or runs.

    Their mean scores, and the paired difference with the interval from ``low`` to ``high``. A kind of model adds
    further comparisons as text: ``too_few`` (why nothing can be decided, empty if it can), ``numbers`` and ``against``
    (reasons against the challenger).
    """

    jobs: int
    champion: Mean
    challenger: Mean
    difference: Mean
    low: float
    high: float
    evidence: Evidence

    measure: ClassVar[str] = "score"
    things: ClassVar[str] = "jobs"

    @property
    def too_few(self) -> str:
        return ""

    @property
    def numbers(self) -> str:
        return (
            f"{self.evidence}; {self.measure} {self.challenger.value:.4f} against {self.champion.value:.4f} on {self.jobs:,} {self.things}, "
            f"difference {self.difference.value:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"
        )

    @property
    def against(self) -> list[str]:
        return []


@dataclass(frozen=True)
class Duel(Comparison):
    """A comparison of predicted runtimes: accuracy, and shares of under-predictions."""

    champion_underpredicts: float
    challenger_underpredicts: float

    measure: ClassVar[str] = "accuracy as served"

    @property
    def too_few(self) -> str:
        if self.jobs >= FEWEST_JOBS:
            return ""
        return (
            f"only {self.jobs:,} jobs that ended in the last {JUDGED_DAYS} days were submitted after the champion was trained; "
            f"{FEWEST_JOBS} are needed"
        )

    @property
    def numbers(self) -> str:
        shares = f"{self.challenger_underpredicts:.1%} against {self.champion_underpredicts:.1%}"
        return f"{super().numbers}, under-predicted {shares}"

    @property
    def against(self) -> list[str]:
        worse = self.challenger_underpredicts > self.champion_underpredicts + UNDERPREDICTION_MARGIN
        return [f"it under-predicts over {100 * UNDERPREDICTION_MARGIN:g} points more"] if worse else []


def compare(
    challenger: np.ndarray, champion: np.ndarray, cluster: np.ndarray, evidence: Evidence, candidates: int = 1
) -> Comparison:
    """Compare two arrays of scores, float64 [jobs], of the same jobs.

    The challenger was chosen from ``candidates``.
    """
    difference = clustered_mean(challenger - champion, cluster)
    low, high = difference.interval(1.0 - (1.0 - CONFIDENCE) / max(candidates, 1))
    means = clustered_mean(champion, cluster), clustered_mean(challenger, cluster)
    return Comparison(len(champion), *means, difference, low, high, evidence)


def duel(
    challenger_s: np.ndarray,
    champion_s: np.ndarray,
    runtime_s: np.ndarray,
    cluster: np.ndarray,
    evidence: Evidence,
    candidates: int = 1,
) -> Duel:
    """Compare two arrays of predictions, float64 seconds [jobs], as :func:`compare` does."""
    comparison = compare(accuracy(challenger_s, runtime_s), accuracy(champion_s, runtime_s), cluster, evidence, candidates)
    return Duel(
        **vars(comparison),
        champion_underpredicts=float((champion_s < runtime_s).mean()) if len(runtime_s) else float("nan"),
        challenger_underpredicts=float((challenger_s < runtime_s).mean()) if len(runtime_s) else float("nan"),
    )


def decide(comparison: Comparison, vetoes: Sequence[str] = ()) -> tuple[bool, str]:
    """Decide whether the challenger is promoted; return that and the reason with its numbers.

    It is promoted if the evidence suffices, and neither the comparison nor the ``vetoes`` give a reason against it.
    """
    if comparison.too_few:
        return False, comparison.too_few
    reasons = []
    if not comparison.difference.value > TIE:
        reasons.append(f"it is not better by more than {TIE}")
    elif not comparison.evidence.enough:
        reasons.append("the evidence that it is better does not suffice")
    reasons += [*comparison.against, *vetoes]
    return not reasons, comparison.numbers + (f"; {' and '.join(reasons)}" if reasons else "")


def of_quantiles(
    challenger: Mapping[float, np.ndarray], champion: Mapping[float, np.ndarray], runtime_s: np.ndarray, cluster: np.ndarray
) -> list[str]:
    """Return reasons against the challenger's quantiles; empty without common levels.

    Quantiles are float64 seconds [jobs] by level; only jobs with all quantiles count. The upper limit of the paired
    difference must lie below a margin. It is one-sided at ``CONFIDENCE``, with jobs of one user and day as one
    observation. For the pinball loss, averaged over the levels, the margin is ``PINBALL_MARGIN`` of the champion's. For
    calibration it is ``CALIBRATION_MARGIN`` at each level, on the share of jobs that run at most as long, towards the
    side of the level on which the challenger's share lies.
    """
    levels = [level for level in champion if level in challenger]
    if not levels:
        return []
    finite = np.isfinite([*(champion[level] for level in levels), *(challenger[level] for level in levels)]).all(axis=0)
    runtime, cluster = runtime_s[finite], cluster[finite]
    if not len(runtime):
        return []
    ours, theirs = (
        np.mean([pinball(quantiles[level][finite], runtime, level) for level in levels], axis=0)
        for quantiles in (challenger, champion)
    )
    reasons = []

    def upper_limit(values: np.ndarray) -> float:
        return clustered_mean(values, cluster).interval(2.0 * CONFIDENCE - 1.0)[1]

    if not upper_limit(ours - (1.0 + PINBALL_MARGIN) * theirs) <= 0:
        reasons.append(
            f"the pinball loss of its quantiles, {ours.mean():,.0f} s against {theirs.mean():,.0f} s, may be worse by over {PINBALL_MARGIN:.0%}"
        )
    for level in levels:
        held = [(runtime <= quantiles[level][finite]).astype(np.float64) for quantiles in (challenger, champion)]
        away = np.sign(held[0].mean() - level) * (held[0] - held[1])
        if not upper_limit(away) <= CALIBRATION_MARGIN:
            shares = " against ".join(f"{jobs_held.mean():.1%}" for jobs_held in held)
            reasons.append(
                f"its {level:.0%} quantiles hold for {shares} of jobs and may be off by over {100 * CALIBRATION_MARGIN:g} points more"
            )
    return reasons
