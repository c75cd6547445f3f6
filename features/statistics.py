"""Confidence intervals of means and ratios over jobs, with weeks as blocks.

Jobs of a week share its load and its users. An interval leaves out one week at a time (the jackknife; Efron & Tibshirani, "An
Introduction to the Bootstrap", 1993, chapter 11) and is a t interval on the logarithm of a ratio. In real logs one to three weeks
decide most comparisons, so the degrees of freedom are not those of all weeks but of the effective ones, (sum d^2)^2 / sum d^4 over
the weeks' deviations d. A week is left out of both compared policies, so that differences between weeks cancel. Where the same
blocks were simulated several times (:mod:`features.jobs.shaking`), the variance between replicates is added.
docs/studies/intervals.md measures how often such intervals cover on real traces, beside the bootstraps that they replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import pandas as pd

CONFIDENCE = 0.95
FEWEST_BLOCKS = 5
"""Below this many blocks there is no interval: the variance of so few says next to nothing."""
ENOUGH_BLOCKS = 8
"""Below this many blocks an interval is noted as rough."""
COVERS = 0.92
"""An interval at 95 % that covers less often than this, measured, is shown with its coverage."""
_KEPT = 16
"""Size of the cache of draws by number of blocks; groups of jobs of one trace mostly have about the same number."""
_MEASURED = 400
"""Resamples that measure a coverage: its standard error is about one point."""


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


class Interval(NamedTuple):
    """The interval of a change, how often it covers, and the p-value of no change.

    ``coverage`` is measured by resampling the blocks at hand: the share of resamples whose interval holds the change of all blocks.
    All are None where there is no interval.
    """

    low: float | None = None
    high: float | None = None
    coverage: float | None = None
    p: float | None = None


def interval_of_change(terms: Ratio, base: Ratio, confidence: float = CONFIDENCE) -> Interval:
    """Return the interval of the expected change ``terms`` over ``base``, less 1.

    Both are [replicates, blocks]; row i of both is the same replicate. Over blocks the replicates' sums are pooled. The variance
    of the mean of the replicates' own changes, s^2 / R, is added, with the degrees of freedom of Satterthwaite (Biometrics
    Bulletin 2, 1946). One replicate gives an interval without chaos. Chaos within each block is in both variances, so the interval is
    rather too wide than too narrow. It is about the mean of all replicates, not about the next one. The scale is the logarithm of
    the ratio, or the ratio where a week or replicate left out makes it 0. No interval where the baseline then is 0.

    ``coverage`` is that of the part over blocks, as resamples of blocks say nothing of replicates.
    """
    replicates, blocks = terms.numerator.shape
    each = replicate_changes(terms, base) + 1.0
    pooled = [part.sum(axis=0) for part in (*terms, *base)]
    changes, without = _left_out(pooled, np.ones((1, blocks)))
    if not (np.isfinite(without).all() and np.isfinite(each).all()):
        return Interval()
    logarithms = min(without.min(), each.min(), changes.min()) > 0
    if logarithms:
        changes, without, each = np.log(changes), np.log(without), np.log(each)
    variance, freedom = _spread(without, np.ones((1, blocks)))
    centre, coverage = changes[0], _coverage(pooled, changes[0], logarithms, confidence)
    of_replicates = each.var(ddof=1) / replicates if replicates > 1 else 0.0
    both = variance[0] + of_replicates
    if both == 0:
        low = high = centre
        p = float(centre == (0.0 if logarithms else 1.0))
    else:
        degrees = both**2 / (variance[0] ** 2 / freedom[0] + (of_replicates**2 / (replicates - 1) if replicates > 1 else 0.0))
        reach = _quantile(confidence, degrees) * both**0.5
        low, high = centre - reach, centre + reach
        p = _two_sided((centre if logarithms else centre - 1.0) / both**0.5, degrees)
    if logarithms:
        low, high = np.exp(low), np.exp(high)
    return Interval(max(float(low) - 1.0, -1.0), float(high) - 1.0, coverage, p)


def replicate_changes(terms: Ratio, base: Ratio) -> np.ndarray:
    """Return each replicate's change ``terms`` over ``base``, less 1, float64 [replicates].

    Both arguments are [replicates, blocks]; infinite or NaN where the baseline is 0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(terms.by_row() / base.by_row() - 1.0)


def mean_intervals(values: np.ndarray, block: np.ndarray, confidence: float = CONFIDENCE) -> np.ndarray:
    """Return intervals of column means: float64 [2, columns], low and high.

    ``values`` is float64 [jobs, columns]. ``block`` numbers the block of each job, int [jobs], from 0 without gaps. A paired
    difference of two means over the same jobs is the mean of the differences. NaN below ``FEWEST_BLOCKS`` blocks.
    """
    blocks = int(block.max(initial=-1)) + 1
    if blocks < FEWEST_BLOCKS:
        return np.full((2, values.shape[1]), np.nan)
    sums = np.stack([np.bincount(block, column, blocks) for column in values.T])
    jobs = np.bincount(block, minlength=blocks)
    without = (sums.sum(axis=1, keepdims=True) - sums) / (jobs.sum() - jobs)
    variance, freedom = _spread(without, np.ones_like(without))
    reach = _quantile(confidence, freedom) * np.sqrt(variance)
    return values.mean(axis=0) + np.stack([-reach, reach])


def surely(p: Sequence[float] | np.ndarray | pd.Series, confidence: float = CONFIDENCE) -> np.ndarray:
    """Return which changes survive Holm's correction over their family, bool [changes].

    ``p`` are p-values [changes]; NaN, without an interval, is not in the family and never sure. S. Holm, "A simple sequentially
    rejective multiple test procedure", Scandinavian Journal of Statistics 6(2), 1979.
    """
    values = np.asarray(p, np.float64)
    order = np.argsort(values)[: np.isfinite(values).sum()]  # NaN comes last
    adjusted = np.maximum.accumulate(values[order] * np.arange(len(order), 0, -1))
    sure = np.zeros(len(values), bool)
    sure[order] = adjusted <= 1.0 - confidence
    return sure


def remark(blocks: int, unit: str = "week", coverage: float | None = None) -> str:
    """Return why there is no interval, how rough it is, or how seldom it covers; else ""."""
    if blocks < FEWEST_BLOCKS:
        return f"no interval: {blocks} {f'{unit} is' if blocks == 1 else f'{unit}s are'} too few"
    if blocks < ENOUGH_BLOCKS:
        return f"rough interval: only {blocks} {unit}s"
    if coverage is not None and coverage < COVERS:
        return f"rough interval: covers {coverage:.0%}, as few {unit}s decide"
    return ""


def _left_out(sums: Sequence[np.ndarray], counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ratio of each sample, float64 [samples], and that without one copy of each block.

    ``sums`` are numerator and denominator of the policy and of the baseline, [blocks] each; ``counts`` [samples, blocks] says how
    often each block is in a sample. The second is [samples, blocks], that of the sample itself where a block is not in it.
    """
    present = counts > 0
    totals = [counts @ each for each in sums]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (totals[0] * totals[3]) / (totals[1] * totals[2])
        rest = [np.where(present, total[:, None] - each, total[:, None]) for total, each in zip(totals, sums, strict=True)]
        return ratio, (rest[0] * rest[3]) / (rest[1] * rest[2])


def _spread(without: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the jackknife's variance and the degrees of freedom of each sample, float64 [samples].

    ``without`` [samples, blocks] is the statistic without one copy of a block, which is there ``counts`` times.
    """
    blocks = counts.sum(axis=1)
    mean = (counts * without).sum(axis=1) / blocks
    squares = (without - mean[:, None]) ** 2
    sum_of_squares = (counts * squares).sum(axis=1)
    fourths = (counts * squares**2).sum(axis=1)
    effective = np.divide(sum_of_squares**2, fourths, out=np.ones(len(blocks)), where=fourths > 0)
    return (blocks - 1.0) / blocks * sum_of_squares, effective


def _coverage(sums: Sequence[np.ndarray], truth: float, logarithms: bool, confidence: float) -> float | None:
    """Return in what share of resampled blocks the interval over blocks holds ``truth``.

    None where no resample has an interval.
    """
    counts = drawn(len(sums[0]), _MEASURED, 0)
    changes, without = _left_out(sums, counts)
    there = counts > 0
    usable = np.isfinite(changes) & np.where(there, np.isfinite(without), True).all(axis=1)
    if logarithms:
        usable &= (changes > 0) & np.where(there, without > 0, True).all(axis=1)
    if not usable.any():
        return None
    counts, changes, without = counts[usable], changes[usable], np.where(there, without, 1.0)[usable]
    if logarithms:
        changes, without = np.log(changes), np.log(without)
    variance, freedom = _spread(without, counts)
    reach = _quantile(confidence, freedom) * np.sqrt(variance)
    return float((np.abs(changes - truth) <= reach + 1e-12).mean())


def _quantile(confidence: float, freedom: np.ndarray | float) -> np.ndarray:
    from scipy.special import stdtrit  # slow to import, and metrics import this module without asking for intervals

    return np.asarray(stdtrit(freedom, (1.0 + confidence) / 2.0))


def _two_sided(t: float, freedom: float) -> float:
    from scipy.special import stdtr

    return float(2.0 * stdtr(freedom, -abs(t)))


@lru_cache(_KEPT)
def drawn(blocks: int, resamples: int, seed: int) -> np.ndarray:
    """Return how often each block is drawn in each resample, float64 [resamples, blocks].

    ``blocks`` draws with replacement; the array is read-only.
    """
    draws = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1.0 / blocks), size=resamples).astype(np.float64)
    draws.flags.writeable = False
    return draws


def tail(confidence: float, blocks: int) -> float:
    """Return the probability to cut off at each side of a percentile interval.

    For statistics that are no ratios of sums, whose resamples are drawn: percentiles of n = ``blocks`` blocks then cover as a t
    interval would (Hesterberg, "What teachers should know about the bootstrap", The American Statistician 69(4), 2015).
    """
    t = float(_quantile(confidence, blocks - 1.0))
    return NormalDist().cdf(-t * (blocks / (blocks - 1)) ** 0.5)
