"""A year of nights with equal challengers, and how many nights a better one needs: the tables and the figure of docs/promotion.md.

``python -m benchmarks.promotion`` simulates and prints, ``--write`` puts tables and figure into the page. A simulated job is only its difference of
accuracy; how large these are and how jobs spread over users and nights is as on KTH-SP2 (:data:`LEARNERS`, :func:`measured`, which needs the traces).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from models.evidence import STAKES, log_evidence
from models.promotion import CONFIDENCE, FEWEST_CLUSTERS, FEWEST_JOBS, JUDGED_DAYS, LEVEL, SETTLING_DAYS, TIE

NIGHTS = 365


USERS, MEDIAN_MORE, SPREAD_MORE, MOST = 15.6, 1.0, 1.6, 400
"""Users a night of KTH-SP2 whose jobs end; of jobs beyond the first of each the median and the spread of the logarithm, and where they are cut."""


@dataclass(frozen=True)
class Learner:
    """How a challenger and a champion differ that are equally good: the mean difference of accuracy over a user's jobs of a night.

    With the probability ``same`` it is 0; else its magnitude is lognormal with this ``median`` and ``spread`` (standard deviation of the logarithm), cut
    at 1, and either sign is as likely.
    """

    same: float
    median: float
    spread: float


LEARNERS = {
    "another learner": Learner(0.0, 0.058, 1.48),
    "the same learner, trained anew": Learner(0.55, 0.027, 1.43),
}
"""Fitted by quantiles to 80 nights of KTH-SP2 from day 250 on: ``lightgbm`` and ``quantile`` of every night against the ``quantile`` of the first."""


@dataclass(frozen=True)
class Years:
    """Simulated years of paired differences, sums over the users of a night, float64.

    ``growth`` [candidates, years, nights, stakes] is of users' mean differences less the tie. Of candidates, too, are ``total``, the sum over jobs,
    ``square``, of the squares of users' totals, and ``cross``, of users' totals times their jobs. ``jobs``, ``jobs_square`` and ``users`` are
    [years, nights].
    """

    growth: np.ndarray
    total: np.ndarray
    square: np.ndarray
    cross: np.ndarray
    jobs: np.ndarray
    jobs_square: np.ndarray
    users: np.ndarray


def simulated(
    rng: np.random.Generator, learner: Learner, years: int, better: float = 0.0, candidates: int = 2, nights: int = NIGHTS
) -> Years:
    """``years`` of ``candidates`` against a champion, all equally good but for the first, which is ``better`` by so much accuracy.

    Where the champion errs, others may do better together: half of the differences are the same for all candidates.
    """
    count = rng.poisson(USERS, years * nights)
    night = np.repeat(np.arange(years * nights), count)
    more = MEDIAN_MORE * np.exp(SPREAD_MORE * rng.standard_normal(len(night)))
    jobs = np.minimum(1.0 + np.floor(more), MOST)

    def differences() -> np.ndarray:
        size = np.minimum(learner.median * np.exp(learner.spread * rng.standard_normal(len(night))), 1.0)
        return np.where(rng.random(len(night)) < learner.same, 0.0, rng.choice([-1.0, 1.0], len(night)) * size)

    def sums(values: np.ndarray) -> np.ndarray:
        return np.bincount(night, values, years * nights).reshape(years, nights)

    common = differences()
    found = []
    for number in range(candidates):
        equal = np.where(rng.random(len(night)) < 0.5, common, differences())
        difference = np.clip(equal + (better if number == 0 else 0.0), -1.0, 1.0)
        growth = np.stack([sums(np.log1p(stake * (difference - TIE))) for stake in STAKES], axis=-1)
        found.append((growth, sums(difference * jobs), sums((difference * jobs) ** 2), sums(difference * jobs**2)))
    by_candidate = [np.stack(each) for each in zip(*found, strict=True)]
    return Years(*by_candidate, sums(jobs), sums(jobs**2), count.reshape(years, nights).astype(np.float64))


def window(values: np.ndarray) -> np.ndarray:
    """Sums over the last ``JUDGED_DAYS`` nights, along the last axis."""
    total = np.cumsum(values, axis=-1)
    total[..., JUDGED_DAYS:] -= total[..., :-JUDGED_DAYS].copy()
    return total


def promoted(made: Years) -> np.ndarray:
    """Whether the rule would promote some candidate, bool [years, nights]; what happens after the first promotion says nothing."""
    growth = made.growth.copy()
    growth[:, :, :SETTLING_DAYS] = 0.0
    evidence = log_evidence(growth[:, :, SETTLING_DAYS:])
    none = np.zeros((*evidence.shape[:2], SETTLING_DAYS))
    enough = np.concatenate([none, evidence], axis=-1) >= np.log(len(growth) / LEVEL)
    jobs = window(made.jobs)
    better = window(made.total) / np.maximum(jobs, 1.0) > TIE
    return (enough & better & (jobs >= FEWEST_JOBS)).any(axis=0)


def promoted_by_interval(made: Years) -> np.ndarray:
    """The same by the rule of before: every night a fresh interval of the last days' difference, of the candidate that is best in them."""
    total, jobs, users = window(made.total), window(made.jobs), window(made.users)
    best = total.argmax(axis=0)[None]
    total, square, cross = (np.take_along_axis(each, best, axis=0)[0] for each in (total, window(made.square), window(made.cross)))
    mean = total / np.maximum(jobs, 1.0)
    variance = (square - 2 * mean * cross + mean**2 * window(made.jobs_square)) * users / np.maximum(users - 1, 1)
    level = (1.0 - CONFIDENCE) / len(made.growth) / 2
    low = mean + stdtrit(np.maximum(users - 1, 1), level) * np.sqrt(np.maximum(variance, 0.0)) / np.maximum(jobs, 1.0)
    return (low > 0) & (mean > TIE) & (jobs >= FEWEST_JOBS) & (users >= FEWEST_CLUSTERS)


def first(promotions: np.ndarray) -> np.ndarray:
    """The first night, from 1, on which each year promotes, infinity for never: float64 [years]."""
    return np.where(promotions.any(axis=1), promotions.argmax(axis=1) + 1.0, np.inf)
