"""The price of low slowdown: choose a policy on a trace's first half, test on the second.

Policies differ in scheduler, predictor and correction. The chosen one has the min mean bounded slowdown among those whose packing
(AWF) and fairness (P2SF, both of Goponenko et al. 2022) exceed a baseline's by at most an allowance. Everything works on weekly
sums, so that hundreds of schedules need not be held at once; intervals are those of :mod:`sim.metrics.comparison`, over weeks, where a
policy was replayed several times over its replicates, and where sums by user are given over users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from features.clock import WEEK_S
from features.errors import InputError
from features.statistics import CONFIDENCE, FEWEST_BLOCKS, Interval, Ratio, interval_of_change
from sim.metrics.comparison import by_week, stacked
from sim.metrics.schedule_metrics import TAU_S, ratios
from sim.policy import Policy
from sim.schedule import Schedule

AIM = "mean_bounded_slowdown"
GUARDED = ("awf_s", "p2sf_s")
"""The metric to lower, and the metrics that may grow by at most the allowance."""
LADDER = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Allowed growth of the guarded metrics, relative to the baseline's."""


Sums: TypeAlias = Mapping[str, Ratio]
"""Weekly sums of one schedule, float64 [weeks], or of several replicates, [replicates, weeks], by metric."""


def halves(jobs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which of ``jobs`` jobs are in the first and second half, bool [jobs].

    In order of submission; an odd one is in the second.
    """
    second = np.arange(jobs) >= jobs // 2
    return ~second, second


def part(schedule: Schedule, rows: np.ndarray) -> Schedule:
    """Return the schedule with only the jobs of the mask ``rows``, bool [jobs].

    They were scheduled among all the others.
    """
    return replace(schedule, jobs=schedule.jobs[rows].reset_index(drop=True))


def weeks_of(submit_s: np.ndarray) -> np.ndarray:
    """Return the week of each submission, int64 [jobs], numbered without empty weeks."""
    return np.unique((submit_s - submit_s.min()) // WEEK_S, return_inverse=True)[1]


def weekly(schedule: Schedule, tau_s: float = TAU_S, week: np.ndarray | None = None) -> dict[str, Ratio]:
    """Return weekly sums of every metric that is a ratio of sums over jobs.

    ``week`` numbers the week of each job, by default that of its submission in ``schedule``. Replicates need the same for all,
    which is that of the recorded submissions.
    """
    week = weeks_of(schedule.jobs["submit_s"].to_numpy(np.int64)) if week is None else week
    return {name: by_week(ratio, week) for name, ratio in ratios(schedule, tau_s).items()}


def replicated(replicates: Sequence[Sums]) -> dict[str, Ratio]:
    """Join the weekly sums of several replays of one policy; the replay comes first."""
    return {metric: stacked([sums[metric] for sums in replicates]) for metric in replicates[0]}


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


def pick(candidates: Mapping[Policy, Sums], baseline: Sums, allowed: float = 0.0) -> Policy | None:
    """Return the first candidate of min mean bounded slowdown within the allowance, None where there is none.

    AWF and P2SF must be at most 1 + ``allowed`` times the baseline's. A candidate is compared with the same replicates of the
    baseline.
    """
    relative = {policy: [_relative(sums, baseline, metric) for metric in (AIM, *GUARDED)] for policy, sums in candidates.items()}
    within = {policy: aim for policy, (aim, *guarded) in relative.items() if max(guarded) <= 1.0 + allowed}
    return min(within, key=lambda policy: within[policy]) if within else None


def _relative(sums: Sums, baseline: Sums, metric: str) -> float:
    """Return a metric over the baseline's, of as many replicates as there are of both."""
    mine, theirs = (Ratio(*(np.atleast_2d(part) for part in each[metric])) for each in (sums, baseline))
    reference = Ratio(*(part[: len(mine.numerator)] for part in theirs)).value()
    value = mine.value()
    return value / reference if reference else 1.0 if value == 0 else np.inf
