"""Scores of distributions against scores worked out otherwise, coverage counted by hand, and a baseline that looks at nothing ahead."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import mean_pinball_loss

from models.runtime.distribution import LEVELS, at_levels, coverage, crps, losses, point, runtimes_so_far


def test_losses_agree_with_scikit_learn_level_by_level():
    rng = np.random.default_rng(1)
    quantiles, runtime = rng.uniform(1, 100, (500, len(LEVELS))), rng.uniform(1, 100, 500)
    loss = losses(quantiles, LEVELS, runtime).mean(axis=0)
    expected = [mean_pinball_loss(runtime, column, alpha=level) for column, level in zip(quantiles.T, LEVELS, strict=True)]
    assert loss == pytest.approx(expected)


@pytest.mark.parametrize("levels", [LEVELS, np.array([0.05, 0.3, 0.9]), np.array([0.5])])
def test_the_score_of_a_point_is_its_absolute_error_at_symmetric_levels(levels):
    rng = np.random.default_rng(2)
    predicted, runtime = rng.uniform(1, 100, 200), rng.uniform(1, 100, 200)
    score = crps(point(predicted, levels), levels, runtime)
    # each level stands for those nearest to it: the mean level is 1/2 only if they lie evenly on both sides
    weight = np.diff(np.concatenate([[0], (levels[1:] + levels[:-1]) / 2, [1]]))
    mean = float(weight @ levels)
    expected = 2 * np.where(runtime > predicted, mean, 1 - mean) * np.abs(runtime - predicted)
    assert score == pytest.approx(expected)
    if len(levels) != 3:
        assert score == pytest.approx(np.abs(runtime - predicted))


def test_the_score_is_that_of_the_closed_form_and_least_for_the_truth():
    rng = np.random.default_rng(3)
    mean, spread = rng.normal(500, 100, 20_000), rng.uniform(10, 100, 20_000)
    runtime = rng.normal(mean, spread)
    z = (runtime - mean) / spread
    closed = spread * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    true = mean[:, None] + spread[:, None] * stats.norm.ppf(LEVELS)
    score = crps(true, LEVELS, runtime).mean()
    assert score == pytest.approx(closed.mean(), rel=0.02)
    everyone = np.tile(np.quantile(runtime, LEVELS), (len(runtime), 1))  # as well calibrated, and of no use for any one job
    assert (runtime[:, None] <= everyone).mean(axis=0) == pytest.approx(LEVELS, abs=1e-3)
    assert crps(everyone, LEVELS, runtime).mean() > 1.5 * score
    assert crps(1.3 * true, LEVELS, runtime).mean() > score


def test_levels_are_read_as_they_stand_between_them_on_a_line_and_beyond_them_the_outermost():
    table = pd.DataFrame([[10.0, 20.0, 60.0], [1.0, 1.0, 5.0]], columns=[0.2, 0.4, 0.8])
    times = at_levels(table, np.array([0.1, 0.2, 0.4, 0.5, 0.8, 0.9]))
    assert times.tolist() == [[10.0, 10.0, 20.0, pytest.approx(30.0), 60.0, 60.0], [1.0, 1.0, 1.0, pytest.approx(2.0), 5.0, 5.0]]
    assert at_levels(table[[0.4]], np.array([0.1, 0.9])).tolist() == [[20.0, 20.0], [1.0, 1.0]]


def runs(rng: np.random.Generator, size: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    submit = np.sort(rng.integers(0, 5_000, size))
    runtime = rng.integers(1, 400, size)
    return submit, submit + rng.integers(0, 300, size) + runtime, runtime, runtime + rng.integers(0, 400, size)


def test_the_baseline_without_features_is_the_plain_quantile_of_what_had_ended():
    submit, end, runtime, requested = runs(np.random.default_rng(4))
    quantiles = runtimes_so_far(submit, end, runtime, requested, LEVELS)
    for job in range(len(submit)):
        ended = runtime[end <= submit[job]]
        plain = np.quantile(ended, LEVELS, method="inverted_cdf") if len(ended) else np.full(len(LEVELS), requested[job])
        assert quantiles[job].tolist() == np.minimum(plain, requested[job]).tolist()


def test_coverage_is_counted_by_jobs_and_by_work_and_tells_the_atom():
    quantiles = np.array([[10.0], [10.0], [10.0], [99.0]])
    table = coverage(
        quantiles,
        np.array([0.8]),
        np.array([5.0, 10.0, 20.0, 99.0]),
        np.array([1, 1, 1, 4]),
        np.array([1.0, 2.0, 7.0, 5.0]),
    )
    assert table["group"].tolist() == [1, 4]
    assert table["jobs"].tolist() == [3, 1]
    shares = table[["at_most", "below", "work_at_most", "work_below"]].to_numpy().tolist()
    assert shares == [pytest.approx([2 / 3, 1 / 3, 0.3, 0.1]), [1.0, 0.0, 1.0, 0.0]]
