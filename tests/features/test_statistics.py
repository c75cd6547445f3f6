"""Intervals against a plain jackknife and against what they promise; those of schedules are held to the same in test_comparison."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from features.statistics import (
    COVERS,
    FEWEST_BLOCKS,
    Ratio,
    covers,
    interval_of_change,
    mean_intervals,
    range_of_next,
    remark,
    surely,
)


def sample(rng: np.random.Generator, blocks: int, jobs: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Two columns of values that differ by block, float64 [jobs, 2], and each job's block."""
    block = rng.permutation(np.concatenate([np.arange(blocks), rng.integers(0, blocks, jobs - blocks)]))
    level = rng.normal(10.0, 3.0, blocks)[block]
    return np.column_stack([level + rng.normal(size=jobs), level + 0.5 + rng.normal(size=jobs)]), block


def plainly(without: list[float]) -> tuple[float, float]:
    """The variance of a jackknife and its degrees of freedom, from the statistic without each block in turn."""
    blocks = len(without)
    deviations = [each - sum(without) / blocks for each in without]
    variance = (blocks - 1) / blocks * sum(each**2 for each in deviations)
    return variance, sum(each**2 for each in deviations) ** 2 / sum(each**4 for each in deviations)


def reach(confidence: float, *parts: tuple[float, float]) -> float:
    """Of an interval whose variance is the sum of these, each with its degrees of freedom."""
    variance = sum(part for part, _ in parts)
    degrees = variance**2 / sum(part**2 / freedom for part, freedom in parts)
    return float(stats.t.ppf((1 + confidence) / 2, degrees) * variance**0.5)


def logarithm(policy: Ratio, base: Ratio, chosen: tuple[object, object]) -> float:
    """Of the change, over the chosen rows and columns."""
    parts = [part[chosen].sum() for part in (*policy, *base)]
    return float(np.log(parts[0] / parts[1] / (parts[2] / parts[3])))


@pytest.mark.parametrize("blocks", [5, 30])
def test_intervals_of_means_leave_out_one_block_at_a_time(blocks):
    values, block = sample(np.random.default_rng(1), blocks)
    low, high = mean_intervals(values, block, 0.9)
    for column in range(2):
        by, mean = reach(0.9, plainly([values[block != each, column].mean() for each in range(blocks)])), values[:, column].mean()
        assert (low[column], high[column]) == pytest.approx((mean - by, mean + by), rel=1e-9)


def test_too_few_blocks_have_no_interval_and_it_is_said_why():
    values, block = sample(np.random.default_rng(3), FEWEST_BLOCKS - 1)
    assert np.isnan(mean_intervals(values, block)).all()
    assert mean_intervals(np.zeros((0, 2)), np.zeros(0, int)).shape == (2, 2)
    assert [remark(number) for number in (0, 1, 4)] == [
        "no interval: 0 weeks are too few",
        "no interval: 1 week is too few",
        "no interval: 4 weeks are too few",
    ]
    assert remark(6, "window") == "rough interval: only 6 windows"
    assert remark(8) == ""


def chaotic(rng: np.random.Generator, replicates: int, chaos: float, gain: float = 1.1, weeks: int = 40) -> tuple[Ratio, Ratio]:
    """Replays of a policy and a baseline over the same weeks: weeks differ in load and in what they gain, ``gain`` on average; every replay of either
    turns out larger or smaller as a whole, and every week of it by itself."""
    load, gains = rng.lognormal(0.0, 0.5, weeks), rng.normal(gain, 0.15, weeks)

    def replays(what: np.ndarray) -> Ratio:
        whole = rng.lognormal(-(chaos**2) / 2, chaos, (replicates, 1))
        own = rng.lognormal(-(chaos**2) / 2, chaos, (replicates, weeks))
        return Ratio(what * whole * own, np.ones((replicates, weeks)))

    return replays(load * gains), replays(load)


@pytest.mark.parametrize("replicates", [1, 4])
def test_the_interval_of_a_change_is_a_plain_jackknife_of_its_logarithm_with_chaos_added(replicates):
    policy, base = chaotic(np.random.default_rng(1), replicates, 0.3, weeks=12)
    whole = slice(None)
    parts = [plainly([logarithm(policy, base, (whole, np.arange(12) != each)) for each in range(12)])]
    if replicates > 1:
        own = np.array([logarithm(policy, base, ([each], whole)) for each in range(replicates)])
        parts.append((own.var(ddof=1) / replicates, replicates - 1))
    centre, by = logarithm(policy, base, (whole, whole)), reach(0.9, *parts)
    low, high, coverage, p = interval_of_change(policy, base, 0.9)
    assert (low, high) == pytest.approx((np.exp(centre - by) - 1, np.exp(centre + by) - 1), rel=1e-9)
    assert 0.8 < coverage <= 1
    assert (p < 0.1) == (low > 0 or high < 0)


def test_where_users_are_known_the_variance_of_leaving_out_one_at_a_time_is_added():
    rng = np.random.default_rng(6)
    mine, theirs = (Ratio(rng.gamma(0.3, 1.0, (12, 7)) * gain, np.ones((12, 7))) for gain in (0.8, 1.0))
    policy, base = (Ratio(*(part.sum(axis=1)[None] for part in each)) for each in (mine, theirs))

    whole = slice(None)
    of_weeks = plainly([logarithm(mine, theirs, (np.arange(12) != each, whole)) for each in range(12)])
    of_users = plainly([logarithm(mine, theirs, (whole, np.arange(7) != each)) for each in range(7)])
    by, centre = reach(0.95, of_weeks, of_users), logarithm(mine, theirs, (whole, whole))
    interval = interval_of_change(policy, base, users=(mine, theirs))
    assert interval[:2] == pytest.approx((np.exp(centre - by) - 1, np.exp(centre + by) - 1), rel=1e-9)
    without = interval_of_change(policy, base)
    assert interval.high - interval.low > without.high - without.low
    assert interval.coverage > without.coverage


@pytest.mark.slow
@pytest.mark.parametrize(("replicates", "chaos"), [pytest.param(20, 0.1, marks=pytest.mark.thorough), (20, 0.0), (3, 0.1)])
def test_the_interval_over_weeks_and_replicates_covers_the_expected_change_and_that_of_one_replay_does_not(replicates, chaos):
    rng, trials = np.random.default_rng(8), 200
    covered, today = 0, 0
    for _ in range(trials):
        policy, base = chaotic(rng, replicates, chaos)
        interval = interval_of_change(policy, base)
        covered += interval.low <= 0.1 <= interval.high
        one = interval_of_change(*(Ratio(*(part[:1] for part in each)) for each in (policy, base)))
        today += one.low <= 0.1 <= one.high
    assert 0.91 <= covered / trials <= 0.99
    assert today / trials < 0.65 if chaos else today == covered


def test_replicates_that_say_the_same_add_nothing_and_a_metric_that_is_zero_has_an_interval():
    policy, base = chaotic(np.random.default_rng(2), 1, 0.3)
    twice = [Ratio(*(np.repeat(part, 4, axis=0) for part in each)) for each in (policy, base)]
    assert interval_of_change(*twice) == pytest.approx(interval_of_change(policy, base), rel=1e-9)
    nothing, ones = Ratio(np.zeros((3, 40)), np.ones((3, 40))), Ratio(np.ones((3, 40)), np.ones((3, 40)))
    assert interval_of_change(nothing, ones)[:2] == (-1.0, -1.0)
    assert interval_of_change(nothing, ones).p is None  # nothing varies, so nothing says how sure it is
    assert interval_of_change(ones, ones) == (0.0, 0.0, 1.0, 1.0)
    assert interval_of_change(ones, nothing) == (None, None, None, None)


def test_a_metric_that_is_zero_without_one_week_has_an_interval_on_the_ratio_itself():
    once = Ratio(np.array([[1.0, *[0.0] * 9]]), np.ones((1, 10)))
    interval = interval_of_change(once, Ratio(np.ones((1, 10)), np.ones((1, 10))))
    assert interval.low == -1.0
    assert interval.high > -0.9


def test_where_one_week_decides_the_coverage_that_is_measured_is_low_and_is_said():
    rng = np.random.default_rng(3)
    load = np.ones((1, 50))
    gains = rng.normal(1.0, 0.02, (1, 50))
    even = interval_of_change(Ratio(gains, load), Ratio(load, load))
    gains[0, 7] = 30.0
    decided = interval_of_change(Ratio(gains, load), Ratio(load, load))
    assert decided.coverage < 0.75 < COVERS < even.coverage
    assert covers(even.coverage) == ""
    assert covers(decided.coverage) == f" (covers {decided.coverage:.0%})"
    assert decided.high - decided.low > 10 * (even.high - even.low)


@pytest.mark.parametrize(
    ("p", "sure"),
    [
        ([0.01, 0.04, 0.03, 0.005], [True, False, False, True]),  # 0.03 is held against 0.05 / 2, and stops 0.04
        ([0.04], [True]),
        ([0.04, np.nan], [True, False]),
        ([0.026, 0.9], [False, False]),
        ([], []),
    ],
)
def test_a_change_is_sure_where_it_survives_the_correction_for_all_that_are_tested(p, sure):
    assert surely(p).tolist() == sure


@pytest.mark.parametrize("count", [4, 8, 40])
def test_the_range_of_the_next_value_holds_one_more_as_often_as_it_says_and_quantiles_do_not(count):
    values = np.random.default_rng(count).normal(100.0, 10.0, (count + 1, 20_000))
    low, high = range_of_next(values[:count])
    assert ((low <= values[count]) & (values[count] <= high)).mean() == pytest.approx(0.95, abs=0.006)
    low, high = np.quantile(values[:count], (0.025, 0.975), axis=0)
    assert ((low <= values[count]) & (values[count] <= high)).mean() < 0.91
    assert range_of_next(np.array([0.0, 0.0, 10.0, 0.0]))[0] == 0.0
