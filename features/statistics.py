"""Confidence intervals of means and ratios over jobs, with weeks as blocks.

Jobs of a week share its load and its users. An interval leaves out one week at a time (the jackknife; Efron &
Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11) and is a t interval on the logarithm of a ratio. In
real logs one to three weeks decide most comparisons. The degrees of freedom are therefore those of the effective weeks,
(sum d^2)^2 / sum d^4 over the weeks' deviations d. A week is left out of both compared policies, so that differences
between weeks cancel. If the users of jobs are known, the variance of leaving out one user at a time is added, because
other weeks have other users. If the same blocks were simulated several times (:mod:`features.jobs.workload_changes`),
so is the variance between replicates. docs/studies/intervals.md measures how often such intervals cover on real traces,
beside the bootstraps that they replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from features.deferred import pd

CONFIDENCE = 0.95
FEWEST_BLOCKS = 5
"""With fewer blocks there is no interval: a variance of so few says almost nothing."""
ENOUGH_BLOCKS = 8
"""With fewer blocks an interval is marked as rough."""
COVERS = 0.92
"""A 95 % interval whose measured coverage is lower is shown with its coverage."""
_KEPT = 16
"""Cache size of :func:`drawn`, mostly by number of blocks; groups of jobs of one trace have similar numbers."""
_MEASURED, _PARTS = 400, 8
"""Number of resamples that measure a coverage (to a standard error of about a point), and of parts they are computed
in."""


class Ratio(NamedTuple):
    """A metric sum(numerator) / sum(denominator) over jobs or blocks of jobs.

    Both are float64 [jobs] or [replicates, blocks]. In this form, sums alone give the metric of any part of the jobs,
    or of a resample of weeks.
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

    ``coverage`` is measured by resampling the given blocks: the share of resamples whose interval holds the change of
    all blocks. Resamples without an interval, in which the baseline is 0, do not count. All fields are None if there is
    no interval.
    """

    low: float | None = None
    high: float | None = None
    coverage: float | None = None
    p: float | None = None


def interval_of_change(
    terms: Ratio, base: Ratio, confidence: float = CONFIDENCE, users: tuple[Ratio, Ratio] | None = None
) -> Interval:
    """Return the interval of the expected change ``terms`` over ``base``, less 1.

    Both are [replicates, blocks]; row i of both is the same replicate. The blocks' variance uses sums pooled over
    replicates. ``users`` are the same pooled sums of both by block and user, [blocks, users]; fewer users than
    ``FEWEST_BLOCKS`` are ignored. Three variances are added: over blocks, over users, and s^2 / R of the replicates'
    own changes, with the degrees of freedom of Satterthwaite (Biometrics Bulletin 2, 1946). One replicate gives an
    interval without chaos. The parts overlap, so the interval is rather too wide than too narrow. It is about the mean
    of all replicates, not the next one. The scale is the logarithm of the ratio, or the ratio if leaving out a block,
    user or replicate makes it 0. No interval if that makes the baseline 0. ``p`` is None if nothing varies.
    ``coverage`` is that of the blocks and users, because resamples of blocks say nothing about replicates.
    """
    replicates, blocks = terms.numerator.shape
    ratios = replicate_changes(terms, base) + 1.0
    pooled = [part.sum(axis=0)[:, None] for part in (*terms, *base)]
    several = users is not None and int(users[0].denominator.any(axis=0).sum()) >= FEWEST_BLOCKS
    sample = _Sample.of(pooled, [*users[0], *users[1]] if users is not None and several else None, np.ones((1, blocks)))
    if not (sample.whole.all() and np.isfinite(ratios).all()):
        return Interval()
    logarithms = bool(sample.positive.all()) and ratios.min() > 0
    if logarithms:
        ratios = np.log(ratios)
    centre, variances, degrees = (part[0] for part in sample.spread(logarithms))
    if replicates > 1:
        variances = np.append(variances, ratios.var(ddof=1) / replicates)
        degrees = np.append(degrees, replicates - 1.0)
    error = variances.sum() ** 0.5
    freedom = float(_satterthwaite(variances, degrees))
    return _around(centre, error, freedom, logarithms, confidence, _coverage(sample, centre, logarithms, confidence))


def interval_of_replicates(terms: Ratio, base: Ratio) -> Interval:
    """Return the interval of the change ``terms`` over ``base`` on these very blocks, less 1.

    Arguments are as in :func:`interval_of_change`, with any number of blocks. Student's t of the replicates' changes,
    or of their logarithms. It covers a schedule's chaos and says nothing about other weeks. None from one replicate.
    """
    return interval_of_mean(replicate_changes(terms, base) + 1.0)


def interval_of_mean(ratios: np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """Return Student's t interval of the mean of independent ``ratios``, float64 [n], less 1.

    On their logarithms, if all are above 0. None from one ratio.
    """
    if len(ratios) < 2 or not np.isfinite(ratios).all():
        return Interval()
    logarithms = bool(ratios.min() > 0)
    values = np.log(ratios) if logarithms else ratios
    return _around(values.mean(), values.std(ddof=1) / len(values) ** 0.5, len(values) - 1.0, logarithms, confidence, None)


def range_of_next(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Student's 95 % range, not below 0, of one more of independent ``values``.

    ``values`` are float64 [n, ...], the ends float64 [...]. The same quantiles of the values are narrower: those of 40
    values hold one more with 90 %, and those of 8 with 78 %.
    """
    reach = _quantile(CONFIDENCE, len(values) - 1.0) * values.std(axis=0, ddof=1) * (1 + 1 / len(values)) ** 0.5
    return np.maximum(values.mean(axis=0) - reach, 0.0), values.mean(axis=0) + reach


def _around(centre: float, error: float, freedom: float, logarithms: bool, confidence: float, coverage: float | None) -> Interval:
    """Return the interval around ``centre``, given on its scale, as a change."""
    from scipy.special import stdtr  # slow to import; metrics import this module and need no intervals

    reach = _quantile(confidence, freedom) * error
    ends = [centre - reach, centre + reach]
    away = centre if logarithms else centre - 1.0
    p = (
        float(2.0 * stdtr(freedom, -abs(away / error))) if error > 0 else 1.0 if away == 0 else None
    )  # nothing varies: unknown how sure
    with np.errstate(over="ignore"):  # a few very different replicates give an open end: infinity
        low, high = np.exp(ends) if logarithms else ends
    return Interval(max(float(low) - 1.0, -1.0), float(high) - 1.0, coverage, p)


def replicate_changes(terms: Ratio, base: Ratio) -> np.ndarray:
    """Return each replicate's change ``terms`` over ``base``, less 1, float64 [replicates].

    Both arguments are [replicates, blocks]; infinite or NaN where the baseline is 0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(terms.by_row() / base.by_row() - 1.0)


def mean_intervals(values: np.ndarray, block: np.ndarray, confidence: float = CONFIDENCE) -> np.ndarray:
    """Return intervals of column means: float64 [2, columns], low and high.

    ``values`` is float64 [jobs, columns]. ``block`` numbers the block of each job, int [jobs], from 0 without gaps. A
    paired difference of two means over the same jobs is the mean of the differences. NaN below ``FEWEST_BLOCKS``
    blocks.
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

    ``p`` are p-values [changes]. NaN means no interval: not in the family and never sure. S. Holm, "A simple
    sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6(2), 1979.
    """
    values = np.asarray(p, np.float64)
    order = np.argsort(values)[: np.isfinite(values).sum()]  # NaN comes last
    adjusted = np.maximum.accumulate(values[order] * np.arange(len(order), 0, -1))
    sure = np.zeros(len(values), bool)
    sure[order] = adjusted <= 1.0 - confidence
    return sure


def covers(coverage: float | None) -> str:
    """Return the text after an interval that covers less often than ``COVERS``, else ""."""
    return f" (covers {coverage:.0%})" if coverage is not None and coverage < COVERS else ""


def remark(blocks: int, unit: str = "week") -> str:
    """Return why there is no interval, or that it is rough; "" with enough blocks."""
    if blocks < FEWEST_BLOCKS:
        return f"no interval: {blocks} {f'{unit} is' if blocks == 1 else f'{unit}s are'} too few"
    return f"rough interval: only {blocks} {unit}s" if blocks < ENOUGH_BLOCKS else ""


def _spread(without: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the jackknife's variance and the effective degrees of freedom, float64 [samples].

    ``without`` [samples, blocks] is the statistic without one copy of a block, of which the sample has ``counts``.
    """
    blocks = counts.sum(axis=1)
    mean = (counts * without).sum(axis=1) / blocks
    squares = (without - mean[:, None]) ** 2
    sum_of_squares = (counts * squares).sum(axis=1)
    fourths = (counts * squares**2).sum(axis=1)
    effective = np.divide(sum_of_squares**2, fourths, out=np.ones(len(blocks)), where=fourths > 0)
    return (blocks - 1.0) / blocks * sum_of_squares, effective


class _Sample(NamedTuple):
    """Ratios of samples of blocks, and the same ratios without one block and without one user.

    ``sums`` are numerator and denominator of the policy and of the baseline, [blocks, 1]; ``by_user`` the same by user,
    [blocks, users], if any. ``counts`` [samples, blocks] says how often each block is in a sample. ``without`` and
    ``times`` hold, for blocks and for users, the ratio without one of them, float64 [samples, left out], and its weight
    in the sample.
    """

    sums: Sequence[np.ndarray]
    by_user: Sequence[np.ndarray] | None
    ratio: np.ndarray
    without: list[np.ndarray]
    times: list[np.ndarray]

    @classmethod
    def of(cls, sums: Sequence[np.ndarray], by_user: Sequence[np.ndarray] | None, counts: np.ndarray) -> _Sample:
        """Return the samples in which each block occurs ``counts`` times."""
        totals = [counts @ blocks for blocks in sums]  # [samples, 1]
        left = [[total - blocks[:, 0] for total, blocks in zip(totals, sums, strict=True)]]
        times = [counts]
        if by_user is not None:
            of_users = [counts @ blocks for blocks in by_user]
            left.append([total - own for total, own in zip(totals, of_users, strict=True)])
            times.append(np.any([total != 0 for total in of_users], axis=0).astype(np.float64))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, *without = ((a * d) / (b * c) for a, b, c, d in (totals, *left))
        return cls(sums, by_user, ratio[:, 0], without, times)

    @property
    def whole(self) -> np.ndarray:
        """Tell for each sample whether all its ratios are finite."""
        parts = [np.isfinite(ratios) | (times == 0) for ratios, times in zip(self.without, self.times, strict=True)]
        return np.asarray(np.isfinite(self.ratio) & np.concatenate(parts, axis=1).all(axis=1))

    @property
    def positive(self) -> np.ndarray:
        """Tell for each sample whether all its ratios are above 0."""
        parts = [(ratios > 0) | (times == 0) for ratios, times in zip(self.without, self.times, strict=True)]
        return np.asarray((self.ratio > 0) & np.concatenate(parts, axis=1).all(axis=1))

    def spread(self, logarithms: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the centre [samples], and variances and degrees of freedom [samples, parts].

        Parts are blocks and, if known, users. NaN where :attr:`whole`, or with ``logarithms`` :attr:`positive`, is
        false.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            centre, *without = (np.log(ratios) if logarithms else ratios for ratios in (self.ratio, *self.without))
            parts = [_spread(np.where(times > 0, ratios, 0.0), times) for ratios, times in zip(without, self.times, strict=True)]
        variances, degrees = (np.stack(part, axis=1) for part in zip(*parts, strict=True))
        return centre, variances, degrees


def _coverage(sample: _Sample, truth: float, logarithms: bool, confidence: float) -> float | None:
    """Return the share of resampled blocks whose interval holds ``truth``; None without one."""
    covered: list[np.ndarray] = []
    for counts in np.array_split(drawn(len(sample.sums[0]), _MEASURED, 0), _PARTS):  # in parts, because many users take much memory
        again = _Sample.of(sample.sums, sample.by_user, counts)
        usable = again.whole & (again.positive | (not logarithms))
        if usable.any():
            centre, variances, degrees = (part[usable] for part in again.spread(logarithms))
            reach = _quantile(confidence, _satterthwaite(variances, degrees)) * np.sqrt(variances.sum(axis=1))
            covered.append(np.abs(centre - truth) <= reach + 1e-12)
    return float(np.concatenate(covered).mean()) if covered else None


def _satterthwaite(variances: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Return the degrees of freedom of sums of variances over the last axis; 1 if all are 0."""
    below = (variances**2 / degrees).sum(axis=-1)
    return np.divide(variances.sum(axis=-1) ** 2, below, out=np.ones_like(below), where=below > 0)


def _quantile(confidence: float, freedom: np.ndarray | float) -> np.ndarray:
    from scipy.special import stdtrit

    return np.asarray(stdtrit(freedom, (1.0 + confidence) / 2.0))


@lru_cache(_KEPT)
def drawn(blocks: int, resamples: int, seed: int) -> np.ndarray:
    """Return how often each block is drawn in each resample, float64 [resamples, blocks].

    Each resample draws ``blocks`` times with replacement. The array is read-only, because it is cached.
    """
    draws = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1.0 / blocks), size=resamples).astype(np.float64)
    draws.flags.writeable = False
    return draws
