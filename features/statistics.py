"""Block bootstrap: confidence intervals of means and ratios over jobs.

Jobs of a week share its load and its users, so whole weeks are resampled. Compared policies are resampled together, so that
differences between weeks cancel. Intervals are percentile intervals, widened for few blocks by the t distribution as in
Hesterberg, "What teachers should know about the bootstrap" (The American Statistician 69(4), 2015). Where the same blocks were
simulated several times (:mod:`features.jobs.shaking`), the variance between replicates is added (:func:`of_replicates`).
"""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

FEWEST_BLOCKS = 5
"""Below this many blocks there is no interval: at 95 %, the tail that the widening asks for is rarer than the rarest resample of n blocks,
which is one block n times (n**-n), so the ends would only be the smallest and the largest block."""
ENOUGH_BLOCKS = 8
"""Below this many blocks an interval is noted as rough."""
_KEPT = 16
"""Size of the cache of draws by number of blocks; groups of jobs of one trace mostly have about the same number."""


class Ratio(NamedTuple):
    """A metric sum(numerator) / sum(denominator) over jobs or blocks of jobs.

    Both are float64 [jobs] or [replicates, blocks]. In this form a metric of any part of the jobs, or of a resample of weeks,
    comes from sums alone.
    """

    numerator: np.ndarray
    denominator: np.ndarray

    def value(self) -> float:
        return float(self.numerator.sum() / self.denominator.sum())

    def by_row(self) -> np.ndarray:
        """Return the value of each row, float64 [...]."""
        return np.asarray(self.numerator.sum(axis=-1) / self.denominator.sum(axis=-1))


@lru_cache(_KEPT)
def drawn(blocks: int, resamples: int, seed: int) -> np.ndarray:
    """Return how often each block is drawn in each resample, float64 [resamples, blocks].

    ``blocks`` draws with replacement; the array is read-only.
    """
    draws = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1.0 / blocks), size=resamples).astype(np.float64)
    draws.flags.writeable = False
    return draws


def tail(confidence: float, blocks: int) -> float:
    """Return the probability to cut off at each side for the coverage of a t interval.

    Percentiles of n = ``blocks`` blocks then cover as a t interval would.
    """
    from scipy.special import stdtrit  # slow to import, and metrics import this module without asking for intervals

    t = -float(stdtrit(blocks - 1, (1.0 - confidence) / 2.0))
    return NormalDist().cdf(-t * (blocks / (blocks - 1)) ** 0.5)


def interval(draws: np.ndarray, terms: Ratio, base: Ratio, tail: float) -> tuple[float | None, float | None]:
    """Return the percentile interval of ``terms`` over ``base``, less 1, both by block.

    ``draws`` [resamples, blocks] says how often each block is drawn; ``tail`` is cut off at each side. None where the baseline is
    0 in some resample.
    """
    above = (draws @ terms.numerator) * (draws @ base.denominator)
    below = (draws @ terms.denominator) * (draws @ base.numerator)
    if (below == 0).any():
        return None, None
    low, high = np.quantile(above / below - 1.0, [tail, 1.0 - tail])
    return float(low), float(high)


def of_replicates(draws: np.ndarray, terms: Ratio, base: Ratio, confidence: float) -> tuple[float | None, float | None]:
    """Return the interval of the expected change ``terms`` over ``base``, less 1.

    Both are [replicates, blocks]; row i of both is the same replicate. Two sources of variance are added. Between blocks: the
    percentile interval of the replicates' sums over resampled blocks, as :func:`interval`. Between replicates: the standard error
    s / sqrt(R) of the mean of the replicates' own changes, in logarithms where none is 0. Each end is t sqrt(v_blocks +
    v_replicates) from the pooled change, with the degrees of freedom of Satterthwaite (Biometrics Bulletin 2, 1946), and v_blocks
    taken from the end of its percentile interval, so that skewness stays and one replicate gives that interval itself.

    Assumptions: blocks are independent, replicates are independent draws, and both add up. Chaos within each block is in both
    variances, so the interval is rather too wide than too narrow. It is about the mean of all replicates, not about the next one.
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
    """Return each replicate's change ``terms`` over ``base``, less 1, float64 [replicates].

    Both arguments are [replicates, blocks].
    """
    mine, theirs = (each.numerator.sum(axis=1) / each.denominator.sum(axis=1) for each in (terms, base))
    return mine / theirs - 1.0


def _reach(over_blocks: float, of_means: float, terms: Ratio, confidence: float) -> float:
    """Return how far an interval reaches to one side of the pooled change.

    ``over_blocks`` is the reach over blocks alone, ``of_means`` the added variance of replicates.
    """
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
    """Return percentile intervals of column means: float64 [2, columns], low and high.

    ``values`` is float64 [jobs, columns]. ``block`` numbers the block of each job, int [jobs], from 0 without gaps. A paired
    difference of two means over the same jobs is the mean of the differences. NaN below ``FEWEST_BLOCKS`` blocks.
    """
    blocks = int(block.max(initial=-1)) + 1
    if blocks < FEWEST_BLOCKS:
        return np.full((2, values.shape[1]), np.nan)
    draws, cut = drawn(blocks, resamples, seed), tail(confidence, blocks)
    sums = np.column_stack([np.bincount(block, column, blocks) for column in values.T])
    means = (draws @ sums) / (draws @ np.bincount(block, minlength=blocks))[:, None]
    return np.quantile(means, [cut, 1.0 - cut], axis=0)


def remark(blocks: int, unit: str = "week") -> str:
    """Return why there is no interval, or how rough it is; "" with enough blocks."""
    if blocks < FEWEST_BLOCKS:
        return f"no interval: {blocks} {f'{unit} is' if blocks == 1 else f'{unit}s are'} too few"
    return f"rough interval: only {blocks} {unit}s" if blocks < ENOUGH_BLOCKS else ""
