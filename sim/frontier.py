"""What slowdown costs: choose a policy on the first half of a trace, measure what it gives on the second.

A policy is a scheduler with a predictor and a correction. Chosen is the one with the least mean bounded slowdown among those whose packing (AWF)
and fairness (P2SF, both of Goponenko et al. 2022) are no worse than a baseline's by more than is allowed; a ladder of allowances maps the frontier.
Everything works on weekly sums, so that hundreds of schedules need not be held at once; intervals are those of :mod:`sim.comparison`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from features.clock import WEEK_S
from features.errors import InputError
from models.bootstrap import FEWEST_BLOCKS, Ratio, interval, tail
from sim.metrics import TAU_S, ratios
from sim.schedule import Schedule

AIM = "mean_bounded_slowdown"
GUARDED = ("awf_s", "p2sf_s")
"""What is to be lowered, and what must not grow by more than is allowed."""
LADDER = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Allowed growth of the guarded metrics, relative to the baseline's."""


class Policy(NamedTuple):
    """What a comparison is between."""

    scheduler: str
    predictor: str
    correction: str = "requested"

    def __str__(self) -> str:
        return " / ".join(self)


Sums: TypeAlias = Mapping[str, Ratio]
"""Weekly sums of one schedule, float64 [weeks], by metric."""


def halves(jobs: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of ``jobs`` jobs, in order of submission, are in the first half and which in the second, bool [jobs]; an odd one is in the second."""
    second = np.arange(jobs) >= jobs // 2
    return ~second, second


def part(schedule: Schedule, rows: np.ndarray) -> Schedule:
    """The same schedule with only the jobs of the mask ``rows``, bool [jobs]: metrics of jobs that were scheduled among all the others."""
    return replace(schedule, jobs=schedule.jobs[rows].reset_index(drop=True))


def weekly(schedule: Schedule, tau_s: float = TAU_S) -> dict[str, Ratio]:
    """Sums by week of submission, from the first, of every metric that is a ratio of sums over jobs; weeks without jobs are left out."""
    submit = schedule.jobs["submit_s"].to_numpy(np.int64)
    _, week = np.unique((submit - submit.min()) // WEEK_S, return_inverse=True)
    return {
        name: Ratio(np.bincount(week, ratio.numerator), np.bincount(week, ratio.denominator))
        for name, ratio in ratios(schedule, tau_s).items()
    }


class Change(NamedTuple):
    """A metric relative to a baseline's, less 1, with its interval; None where the baseline is 0, the interval also below 5 weeks."""

    value: float
    baseline: float
    relative: float | None
    low: float | None
    high: float | None
    weeks: int


def change(sums: Sums, base: Sums, metric: str, resamples: int = 2000, confidence: float = 0.95, seed: int = 0) -> Change:
    """``metric`` of one schedule against another's of the same jobs, with the paired block bootstrap over weeks of :func:`sim.comparison.compare`."""
    for known in (sums, base):
        if metric not in known:
            raise InputError(f"unknown metric {metric!r}: known are {', '.join(known)}")
    mine, theirs = sums[metric], base[metric]
    weeks = len(theirs.numerator)
    if len(mine.numerator) != weeks:
        raise InputError(f"sums over {len(mine.numerator)} and over {weeks} weeks are not of the same jobs")
    value, reference = mine.value(), theirs.value()
    if reference == 0:
        return Change(value, reference, None, None, None, weeks)
    low, high = None, None
    if weeks >= FEWEST_BLOCKS:
        low, high = interval(_draws(weeks, resamples, seed), mine, theirs, tail(confidence, weeks))
    return Change(value, reference, value / reference - 1.0, low, high, weeks)


@lru_cache(maxsize=16)
def _draws(weeks: int, resamples: int, seed: int) -> np.ndarray:
    """How often each week is drawn, float64 [resamples, weeks]: the same for every pair, so that intervals compare."""
    return np.random.default_rng(seed).multinomial(weeks, np.full(weeks, 1.0 / weeks), size=resamples).astype(np.float64)


def pick(candidates: Mapping[Policy, Sums], baseline: Sums, allowed: float = 0.0) -> Policy | None:
    """The candidate with the least mean bounded slowdown among those whose AWF and P2SF are at most 1 + ``allowed`` times the baseline's.

    The first of equals; None where no candidate stays within what is allowed.
    """
    most = {metric: (1.0 + allowed) * baseline[metric].value() for metric in GUARDED}
    within = [policy for policy, sums in candidates.items() if all(sums[metric].value() <= most[metric] for metric in GUARDED)]
    return min(within, key=lambda policy: candidates[policy][AIM].value(), default=None)


def climb(
    first: Mapping[Policy, Sums],
    second: Mapping[Policy, Sums],
    candidates: Sequence[Policy],
    baseline: Policy,
    ladder: Sequence[float] = LADDER,
    metrics: Sequence[str] = (AIM, *GUARDED, "mean_wait_s"),
) -> pd.DataFrame:
    """The frontier: for each step of ``ladder`` the candidate picked on the ``first`` half, and what it gave there and on the ``second``.

    One row a step and metric: ``allowed scheduler predictor correction metric first value baseline second low high weeks``; ``first`` and
    ``second`` are changes relative to the baseline on each half, the other numbers are of the second. A step that nobody meets keeps the baseline.
    """
    rows = []
    for allowed in ladder:
        chosen = pick({policy: first[policy] for policy in candidates}, first[baseline], allowed) or baseline
        for metric in metrics:
            seen = change(first[chosen], first[baseline], metric)
            given = change(second[chosen], second[baseline], metric)
            record = {"allowed": allowed, **chosen._asdict(), "metric": metric, "first": seen.relative}
            rows.append(
                record
                | {"value": given.value, "baseline": given.baseline, "second": given.relative}
                | {"low": given.low, "high": given.high, "weeks": given.weeks}
            )
    numbers = ["first", "value", "baseline", "second", "low", "high"]
    return pd.DataFrame(rows).astype(dict.fromkeys(numbers, "float64"))
