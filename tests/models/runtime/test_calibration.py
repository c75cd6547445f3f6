"""Calibration on samples whose distribution is known: the true one passes, a biased one is caught, clusters widen what chance allows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from models.runtime.calibration import calibration_curve, chance_band

LEVELS = np.array([0.05, 0.25, 0.5, 0.8, 0.95])


def lognormal(rng: np.random.Generator, jobs: int, bias: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The quantiles of lognormal runtimes of jobs that all differ, times ``bias``, their levels, and a draw from each."""
    mean, spread = rng.normal(6, 2, jobs), rng.uniform(0.5, 2, jobs)
    runtime = np.exp(mean + spread * rng.normal(size=jobs))
    return bias * np.exp(mean[:, None] + spread[:, None] * stats.norm.ppf(LEVELS)), LEVELS, runtime


def test_true_quantiles_hold_the_share_they_promise_and_biased_ones_do_not():
    rng = np.random.default_rng(1)
    jobs = 20_000
    error = 4 * np.sqrt(LEVELS * (1 - LEVELS) / jobs)
    true = calibration_curve(*lognormal(rng, jobs))
    assert (np.abs(true["at_most"] - LEVELS) < error).all()
    short = calibration_curve(*lognormal(rng, jobs, bias=0.8))
    assert (short["at_most"] < LEVELS - error).all()
    assert (true["at_most"] + true["above"]).to_numpy() == pytest.approx(1.0)


def test_twice_the_loss_averaged_over_even_levels_is_the_continuous_ranked_probability_score():
    levels = (np.arange(199) + 0.5) / 199
    runtime = np.random.default_rng(3).uniform(0, 1, 20_000)
    curve = calibration_curve(np.tile(levels, (len(runtime), 1)), levels, runtime)
    assert 2 * curve["pinball_s"].mean() == pytest.approx(1 / 6, rel=0.02)  # of a uniform forecast of a uniform outcome


@pytest.mark.parametrize(
    ("quantiles", "levels", "says"),
    [
        (np.ones((2, 1)), [0.5], "not that of 3 jobs at 1 levels"),
        (np.ones((3, 1)), [1.0], "not all between 0 and 1"),
        (np.array([[1.0], [np.nan], [1.0]]), [0.5], "row 1: a quantile is not a finite number"),
    ],
)
def test_quantiles_that_make_no_sense_are_refused(quantiles, levels, says):
    with pytest.raises(ValueError, match=says):
        calibration_curve(quantiles, np.array(levels), np.ones(3))


def test_the_band_is_the_one_worked_out_by_hand():
    band = chance_band(
        under=np.array([True, True, False, False, True]),
        target=0.25,
        window=np.array([7, 7, 7, 7, 9]),
        cluster=np.array([5, 5, 5, 2, 5]),
    )
    reach = 2.5758293035489004 * np.sqrt((0.75 + 0.75 - 0.25) ** 2 + 0.25**2) / 4
    assert band["window"].tolist() == [7, 9]
    assert band["jobs"].tolist() == [4, 1]
    assert band["clusters"].tolist() == [2, 1]
    assert band["rate"].tolist() == [0.5, 1.0]
    assert band["low"][0] == pytest.approx(0.25 - reach)
    assert band["high"][0] == pytest.approx(0.25 + reach)


WINDOWS, CLUSTERS = 150, 150


def clustered(rng: np.random.Generator, rate: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Windows of clusters of 1 to 20 jobs that go wrong together: under, window and cluster of each job."""
    size = rng.integers(1, 21, WINDOWS * CLUSTERS)
    wrong = rng.random(len(size)) < rate
    window = np.repeat(np.arange(WINDOWS), CLUSTERS)
    return np.repeat(wrong, size), np.repeat(window, size), np.repeat(np.arange(len(size)), size)


def test_of_a_calibrated_sample_99_windows_in_100_are_inside_though_its_jobs_go_wrong_together():
    under, window, cluster = clustered(np.random.default_rng(4), 0.2)
    inside = chance_band(under, 0.2, window, cluster)["inside"].mean()
    assert 0.975 <= inside <= 1.0
    alone = chance_band(under, 0.2, window, np.arange(len(under)))["inside"].mean()
    assert alone < 0.8, "without clusters the band is far too narrow"


def test_a_biased_sample_is_flagged():
    under, window, cluster = clustered(np.random.default_rng(5), 0.4)
    assert chance_band(under, 0.2, window, cluster)["inside"].mean() < 0.1
