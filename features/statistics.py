"""Confidence intervals of means and ratios over jobs from a block bootstrap: jobs of a week share its load and its users, so whole weeks are resampled.

What is compared is resampled together, so that what the weeks themselves differ by cancels. Intervals are percentile intervals, widened for few blocks by
the t distribution as in Hesterberg, "What teachers should know about the bootstrap" (The American Statistician 69(4), 2015). Where the same blocks were
simulated several times (:mod:`features.jobs.shaking`), what the replicates differ by is added (:func:`of_replicates`).
"""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

FEWEST_BLOCKS = 5
"""Below this many blocks there is no interval: at 95 %, the tail that the widening asks for is rarer than the rarest resample of n blocks,
which is one block n times (n**-n), so the ends would be the least and the largest block and cover nothing in particular."""
ENOUGH_BLOCKS = 8
"""Below this many blocks an interval is noted as rough."""
_KEPT = 16
"""Numbers of blocks whose draws are kept for the next question; groups of jobs of one trace mostly have about the same."""


class Ratio(NamedTuple):
    """A metric that is sum(numerator) / sum(denominator) over jobs, or over blocks of them; both float64 [jobs], or [replicates, blocks].

    In this form a metric of any part of the jobs, or of a resample of weeks, comes from sums alone.
    """

    numerator: np.ndarray
    denominator: np.ndarray

    def value(self) -> float:
        return float(self.numerator.sum() / self.denominator.sum())


@lru_cache(_KEPT)
def drawn(blocks: int, resamples: int, seed: int) -> np.ndarray:
    """How often each block is drawn in each resample, float64 [resamples, blocks], read-only: ``blocks`` draws with replacement."""
    draws = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1.0 / blocks), size=resamples).astype(np.float64)
    draws.flags.writeable = False
    return draws


def tail(confidence: float, blocks: int) -> float:
    """Probability to cut off at each side, so that percentiles of n = ``blocks`` blocks cover as a t interval would."""
    from scipy.special import stdtrit  # slow to import, and metrics import this module without asking for intervals

    t = -float(stdtrit(blocks - 1, (1.0 - confidence) / 2.0))
    return NormalDist().cdf(-t * (blocks / (blocks - 1)) ** 0.5)


def interval(draws: np.ndarray, terms: Ratio, base: Ratio, tail: float) -> tuple[float | None, float | None]:
    """Percentile interval of ``terms`` over ``base``, less 1, both by block, with ``tail`` cut off at each side; ``draws`` [resamples, blocks] says
    how often each block is drawn. None where the baseline is 0 in some resample."""
    above = (draws @ terms.numerator) * (draws @ base.denominator)
    below = (draws @ terms.denominator) * (draws @ base.numerator)
    if (below == 0).any():
        return None, None
    low, high = np.quantile(above / below - 1.0, [tail, 1.0 - tail])
    return float(low), float(high)


def of_replicates(draws: np.ndarray, terms: Ratio, base: Ratio, confidence: float) -> tuple[float | None, float | None]:
    """Interval of the expected change ``terms`` over ``base``, less 1, both [replicates, blocks]: other blocks, and other replicates.

    Row i of both is the same replicate. Two sources of variance are added. What blocks differ by: the percentile interval of the replicates' sums
    over resampled blocks, as :func:`interval`. What replicates differ by: the standard error s / sqrt(R) of the mean of the replicates' own changes,
    in logarithms where none is 0. Each end is t sqrt(v_blocks + v_replicates) from the pooled change, with the degrees of freedom of Satterthwaite
    (Biometrics Bulletin 2, 1946), and v_blocks taken from the end of its percentile interval, so that skewness stays and one replicate gives
    that interval itself.

    Taken for granted: blocks are independent, replicates are independent draws, and both add up. Chaos that is each block's own is in
    both variances, so the interval is then too wide rather than too narrow. It is about the mean of all replicates, not about the next one.
    None where the baseline is 0 in some resample.
    """
    replicates, blocks = terms.numerator.shape
    mine, theirs = (Ratio(*(part.sum(axis=0) for part in each)) for each in (terms, base))
    ends = interval(draws, mine, theirs, tail(confidence, blocks))
    if replicates == 1 or ends[0] is None or ends[1] is None:
        return ends
    each = replicate_changes(terms, base) + 1.0
    marks = np.array([mine.value() / theirs.value(), ends[0] + 1.0, ends[1] + 1.0])
    logarithms = min(each.min(), marks.min()) > 0
    if logarithms:
        each, marks = np.log(each), np.log(marks)
    of_means = each.var(ddof=1) / replicates
    low, high = (
        marks[0] + side * _reach(end - marks[0], of_means, terms, confidence) for side, end in zip((-1, 1), marks[1:], strict=True)
    )
    if logarithms:
        low, high = np.exp(low), np.exp(high)
    return max(float(low) - 1.0, -1.0), float(high) - 1.0


def replicate_changes(terms: Ratio, base: Ratio) -> np.ndarray:
    """Change of each replicate by itself, less 1, float64 [replicates]; both [replicates, blocks]."""
    mine, theirs = (each.numerator.sum(axis=1) / each.denominator.sum(axis=1) for each in (terms, base))
    return mine / theirs - 1.0


def _reach(over_blocks: float, of_means: float, terms: Ratio, confidence: float) -> float:
    """How far an interval reaches to one side: ``over_blocks`` over blocks alone, with the variance ``of_means`` of replicates further."""
    from scipy.special import stdtrit

    replicates, blocks = terms.numerator.shape
    level = (1.0 + confidence) / 2.0
    of_blocks = (over_blocks / stdtrit(blocks - 1, level)) ** 2
    both = of_blocks + of_means
    if both == 0:
        return 0.0
    freedom = both**2 / (of_blocks**2 / (blocks - 1) + of_means**2 / (replicates - 1))
    return float(stdtrit(freedom, level) * both**0.5)


def mean_intervals(values: np.ndarray, block: np.ndarray, resamples: int, confidence: float, seed: int) -> np.ndarray:
    """Percentile intervals of the means of the columns of ``values``, float64 [jobs, columns]: float64 [2, columns], low and high.

    ``block`` numbers the block of each job, int [jobs], from 0 with none left out. A paired difference of two means over the same jobs is the mean of
    the differences. NaN below ``FEWEST_BLOCKS`` blocks.
    """
    blocks = int(block.max(initial=-1)) + 1
    if blocks < FEWEST_BLOCKS:
        return np.full((2, values.shape[1]), np.nan)
    draws, cut = drawn(blocks, resamples, seed), tail(confidence, blocks)
    sums = np.column_stack([np.bincount(block, column, blocks) for column in values.T])
    means = (draws @ sums) / (draws @ np.bincount(block, minlength=blocks))[:, None]
    return np.quantile(means, [cut, 1.0 - cut], axis=0)


def remark(blocks: int, unit: str = "week") -> str:
    """Why there is no interval with so few blocks, or how rough it is; nothing where there are enough."""
    if blocks < FEWEST_BLOCKS:
        return f"no interval: {blocks} {f'{unit} is' if blocks == 1 else f'{unit}s are'} too few"
    return f"rough interval: only {blocks} {unit}s" if blocks < ENOUGH_BLOCKS else ""
