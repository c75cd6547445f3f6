"""The adaptive update alone makes nonsense calibrated; and the band for windows is that of the process with its feedback."""

from __future__ import annotations

import numpy as np
import pytest

from models.runtime.adaptive import adapted, feedback_band, order_of_events
from models.runtime.calibration import chance_band
from models.runtime.distribution import LEVELS, crps

RATE = 0.005


def at_once(jobs: int) -> np.ndarray:
    """Events of jobs that end before the next is submitted."""
    return order_of_events(np.arange(jobs) * 10, np.arange(jobs) * 10 + 1)


def test_ends_come_before_submissions_of_the_same_second():
    assert order_of_events(np.array([0, 5, 9]), np.array([9, 9, 20])).tolist() == [0, 1, -1, -2, 2, -3]


def test_the_update_is_the_one_written_down_plainly():
    rng = np.random.default_rng(1)
    submit = np.sort(rng.integers(0, 500, 200))
    runtime = rng.integers(1, 100, 200)
    requested, points = 2 * runtime, rng.uniform(1, 150, 200)
    events = order_of_events(submit, submit + runtime)
    levels, rate = np.array([0.2, 0.8]), 0.3
    moved, answers = levels.copy(), {}
    for event in events.tolist():
        if event >= 0:
            point = min(points[event], requested[event])
            first, second = (requested[event] if level > 1 else point if level > 0 else 1.0 for level in moved)
            answers[event] = [first, max(first, second)]
        else:
            moved += rate * ((runtime[-1 - event] > np.array(answers[-1 - event])) - (1 - levels))
    quantiles = adapted(points, events, runtime, requested, levels, rate)
    assert quantiles.tolist() == [answers[job] for job in range(200)]
    assert {1.0}.issubset(quantiles.ravel()), "a level has fallen to 0, or little was tried"


def test_a_constant_and_random_numbers_come_out_calibrated_and_useless():
    rng = np.random.default_rng(2)
    jobs = 20_000
    centre = rng.uniform(5, 9, jobs)
    runtime = np.exp(centre + 0.3 * rng.normal(size=jobs))
    requested = runtime * rng.uniform(1, 5, jobs)
    truth = crps(np.exp(centre[:, None] + 0.3 * np.quantile(rng.normal(size=50_000), LEVELS)), LEVELS, runtime).mean()
    for points in (np.full(jobs, 3600.0), np.exp(rng.random(jobs) * np.log(requested))):
        quantiles = adapted(points, at_once(jobs), runtime, requested, LEVELS, RATE)
        assert (runtime[:, None] <= quantiles).mean(axis=0) == pytest.approx(LEVELS, abs=0.015)
        assert crps(quantiles, LEVELS, runtime).mean() > 3 * truth


def drawn(rng: np.random.Generator, jobs: int, clusters: int, shared: float, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Jobs of a right distribution whose level is moved: which outlive the 80 % quantile, and their clusters."""
    cluster = rng.integers(0, clusters, jobs)
    place = np.where(rng.random(jobs) < np.sqrt(shared), rng.random(clusters)[cluster], rng.random(jobs))
    under, moved = np.zeros(jobs, bool), 0.8
    for job in range(jobs):
        under[job] = place[job] > moved
        moved += rate * (under[job] - 0.2)
    return under, cluster


def test_without_clusters_the_band_is_the_closed_form_of_the_recursion():
    jobs, size = 10_000, 2_000
    under, _ = drawn(np.random.default_rng(3), jobs, 1, 0.0, RATE)
    window = np.arange(jobs) // size
    band = feedback_band(under, 0.2, window, np.arange(jobs), at_once(jobs), RATE, np.random.default_rng(4), replicates=2000)
    # the errors of a window add up to how far the level has moved over the rate; the level is an autoregression of coefficient 1 - rate
    deviation = np.sqrt(0.2 * 0.8 * (1 - (1 - RATE) ** size) / RATE) / size
    middle = band.iloc[1:-1]
    assert ((middle["high"] - middle["low"]) / 2).to_numpy() == pytest.approx(2.576 * deviation, rel=0.12)
    wide = chance_band(under, 0.2, window, np.arange(jobs))
    assert (band["high"] - band["low"]).max() < 0.5 * (wide["high"] - wide["low"]).min(), "chance without feedback allows far more"


@pytest.mark.slow
def test_of_the_process_itself_99_windows_in_100_are_inside_and_a_stretch_that_went_wrong_is_flagged():
    rng = np.random.default_rng(5)
    jobs, size = 8_000, 1_000
    window, events = np.arange(jobs) // size, at_once(jobs)
    inside = []
    for _ in range(12):
        under, cluster = drawn(rng, jobs, 1_500, 0.3, RATE)
        inside += feedback_band(under, 0.2, window, cluster, events, RATE, rng, replicates=300)["inside"].tolist()
    assert np.mean(inside) > 0.94
    under, cluster = drawn(rng, jobs, jobs, 0.0, RATE)
    under[3_000:4_000] = rng.random(1_000) < 0.3
    flagged = ~feedback_band(under, 0.2, window, cluster, events, RATE, rng, replicates=300)["inside"]
    assert flagged[3]
