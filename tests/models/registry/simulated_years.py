"""Years of simulated nights, to see how often the rule of promotion is wrong, and how soon it sees what is better.

A simulated night has 15.6 users with 4 jobs each on average, some with a hundred; a job is only its difference of accuracy, and how
large these are and how jobs spread over users and nights is as on KTH-SP2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.registry.promotion import FEWEST_JOBS, JUDGED_DAYS, LEVEL, SETTLING_DAYS, STAKES, TIE, log_evidence

NIGHTS = 365
USERS, MEDIAN_MORE, SPREAD_MORE, MOST = 15.6, 1.0, 1.6, 400
"""Users a night of KTH-SP2 whose jobs end; of jobs beyond the first of each the median and the spread of the logarithm, and where they are cut."""


SPREAD_OF_DIFFERENCES, MEDIAN_DIFFERENCE = 1.48, 0.058
"""Of the mean difference of accuracy over a user's jobs of a night between two learners that are equally good, lognormal and cut at 1.

Fitted by quantiles to 80 nights of KTH-SP2 from day 250 on, against the ``quantile`` of the first.
"""


@dataclass(frozen=True)
class Years:
    """Simulated years of paired differences, sums over the users of a night, float64.

    ``growth`` [candidates, years, nights, stakes] is of users' mean differences less the tie. ``total`` [candidates, years, nights] is the
    sum over jobs, and ``jobs`` [years, nights] their number.
    """

    growth: np.ndarray
    total: np.ndarray
    jobs: np.ndarray


def simulated(rng: np.random.Generator, years: int, better: float = 0.0, candidates: int = 2, nights: int = NIGHTS) -> Years:
    """Draw ``years`` of ``candidates`` against a champion, all equally good but the first, which is ``better`` by so much accuracy.

    Where the champion errs, others may do better together: half of the differences are the same for all candidates.
    """
    users = rng.poisson(USERS, years * nights)
    night = np.repeat(np.arange(years * nights), users)
    more = MEDIAN_MORE * np.exp(SPREAD_MORE * rng.standard_normal(len(night)))
    jobs = np.minimum(1.0 + np.floor(more), MOST)

    def differences() -> np.ndarray:
        size = np.minimum(MEDIAN_DIFFERENCE * np.exp(SPREAD_OF_DIFFERENCES * rng.standard_normal(len(night))), 1.0)
        return rng.choice([-1.0, 1.0], len(night)) * size

    def sums(values: np.ndarray) -> np.ndarray:
        return np.bincount(night, values, years * nights).reshape(years, nights)

    common = differences()
    growth, total = [], []
    for candidate in range(candidates):
        equal = np.where(rng.random(len(night)) < 0.5, common, differences())
        difference = np.clip(equal + (better if candidate == 0 else 0.0), -1.0, 1.0)
        growth.append(np.stack([sums(np.log1p(stake * (difference - TIE))) for stake in STAKES], axis=-1))
        total.append(sums(difference * jobs))
    return Years(np.stack(growth), np.stack(total), sums(jobs))


def window(values: np.ndarray) -> np.ndarray:
    """Sums over the last ``JUDGED_DAYS`` nights, along the last axis."""
    total = np.cumsum(values, axis=-1)
    total[..., JUDGED_DAYS:] -= total[..., :-JUDGED_DAYS].copy()
    return total


def promoted(sums_of_years: Years) -> np.ndarray:
    """Tell whether the rule would promote some candidate, bool [years, nights].

    What happens after the first promotion says nothing.
    """
    growth = sums_of_years.growth.copy()
    growth[:, :, :SETTLING_DAYS] = 0.0
    evidence = log_evidence(growth[:, :, SETTLING_DAYS:])
    none = np.zeros((*evidence.shape[:2], SETTLING_DAYS))
    enough = np.concatenate([none, evidence], axis=-1) >= np.log(len(growth) / LEVEL)
    jobs = window(sums_of_years.jobs)
    better = window(sums_of_years.total) / np.maximum(jobs, 1.0) > TIE
    return (enough & better & (jobs >= FEWEST_JOBS)).any(axis=0)
