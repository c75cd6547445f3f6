"""Intervals of means against a plain bootstrap over repeated jobs; those of ratios are held to the same in test_comparison."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from features.statistics import FEWEST_BLOCKS, Ratio, drawn, interval, mean_intervals, of_replicates, remark, tail


def sample(rng: np.random.Generator, blocks: int, jobs: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Two columns of values that differ by block, float64 [jobs, 2], and each job's block."""
    block = rng.permutation(np.concatenate([np.arange(blocks), rng.integers(0, blocks, jobs - blocks)]))
    level = rng.normal(10.0, 3.0, blocks)[block]
    return np.column_stack([level + rng.normal(size=jobs), level + 0.5 + rng.normal(size=jobs)]), block


@pytest.mark.parametrize("blocks", [5, 30])
def test_intervals_of_means_are_those_of_a_plain_bootstrap_over_repeated_jobs(blocks):
    values, block = sample(np.random.default_rng(1), blocks)
    found = mean_intervals(values, block, resamples=80, confidence=0.9, seed=3)
    means = []
    for counts in np.random.default_rng(3).multinomial(blocks, np.full(blocks, 1 / blocks), size=80):
        means.append(values[np.repeat(np.arange(len(block)), counts[block])].mean(axis=0))
    tail = stats.norm.sf(stats.t.ppf(0.95, blocks - 1) * np.sqrt(blocks / (blocks - 1)))
    assert found == pytest.approx(np.quantile(means, [tail, 1 - tail], axis=0), rel=1e-12)


def test_a_paired_difference_is_much_narrower_than_what_it_is_the_difference_of():
    values, block = sample(np.random.default_rng(2), 30)
    both = np.column_stack([values, values[:, 1] - values[:, 0]])
    width = np.diff(mean_intervals(both, block, 500, 0.95, 0), axis=0)[0]
    assert width[2] < width[:2].min() / 3


def test_too_few_blocks_have_no_interval_and_it_is_said_why():
    values, block = sample(np.random.default_rng(3), FEWEST_BLOCKS - 1)
    assert np.isnan(mean_intervals(values, block, 10, 0.95, 0)).all()
    assert mean_intervals(np.zeros((0, 2)), np.zeros(0, int), 10, 0.95, 0).shape == (2, 2)
    assert [remark(number) for number in (0, 1, 4)] == [
        "no interval: 0 weeks are too few",
        "no interval: 1 week is too few",
        "no interval: 4 weeks are too few",
    ]
    assert remark(6, "window") == "rough interval: only 6 windows"
    assert remark(8) == ""


def test_draws_are_those_of_the_seed_and_cannot_be_changed():
    draws = drawn(9, 50, 4)
    assert (draws.sum(axis=1) == 9).all()
    assert (draws == np.random.default_rng(4).multinomial(9, np.full(9, 1 / 9), size=50)).all()
    assert (drawn(9, 50, 5) != draws).any()
    with pytest.raises(ValueError, match="read-only"):
        draws[0, 0] = 1.0


def chaotic(rng: np.random.Generator, replicates: int, chaos: float, gain: float = 1.1, weeks: int = 40) -> tuple[Ratio, Ratio]:
    """Replays of a policy and a baseline over the same weeks: weeks differ in load and in what they gain, ``gain`` on average; every replay of either
    turns out larger or smaller as a whole, and every week of it by itself."""
    load, gains = rng.lognormal(0.0, 0.5, weeks), rng.normal(gain, 0.15, weeks)

    def replays(what: np.ndarray) -> Ratio:
        whole = rng.lognormal(-(chaos**2) / 2, chaos, (replicates, 1))
        own = rng.lognormal(-(chaos**2) / 2, chaos, (replicates, weeks))
        return Ratio(what * whole * own, np.ones((replicates, weeks)))

    return replays(load * gains), replays(load)


@pytest.mark.parametrize(("replicates", "chaos"), [(20, 0.1), (20, 0.0), (3, 0.1)])
def test_the_interval_over_weeks_and_replicates_covers_the_expected_change_and_that_of_one_replay_does_not(replicates, chaos):
    rng, draws, trials = np.random.default_rng(8), drawn(40, 500, 0), 300
    covered, today = 0, 0
    for _ in range(trials):
        policy, base = chaotic(rng, replicates, chaos)
        low, high = of_replicates(draws, policy, base, 0.95)
        covered += low <= 0.1 <= high
        first = [Ratio(*(part[0] for part in each)) for each in (policy, base)]
        low, high = interval(draws, *first, tail(0.95, 40))
        today += low <= 0.1 <= high
    assert 0.91 <= covered / trials <= 0.99
    assert today / trials < 0.6 if chaos else today == covered


def test_one_replicate_has_the_interval_over_blocks_itself():
    policy, base = chaotic(np.random.default_rng(1), 1, 0.3)
    draws = drawn(40, 500, 0)
    flat = [Ratio(*(part[0] for part in each)) for each in (policy, base)]
    assert of_replicates(draws, policy, base, 0.9) == interval(draws, *flat, tail(0.9, 40))


def test_replicates_that_say_the_same_add_nothing_and_a_metric_that_is_zero_has_an_interval():
    policy, base = chaotic(np.random.default_rng(2), 1, 0.3)
    draws = drawn(40, 500, 0)
    twice = [Ratio(*(np.repeat(part, 4, axis=0) for part in each)) for each in (policy, base)]
    assert of_replicates(draws, *twice, 0.95) == pytest.approx(of_replicates(draws, policy, base, 0.95), rel=1e-9)
    nothing = Ratio(np.zeros((3, 40)), np.ones((3, 40)))
    ones = Ratio(np.ones((3, 40)), np.ones((3, 40)))
    assert of_replicates(draws, nothing, ones, 0.95) == (-1.0, -1.0)
