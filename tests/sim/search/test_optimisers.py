"""Optimisers find good directions, within their budget, and always the same with the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from features.errors import InputError
from sim.campaigns.maps import threads
from sim.campaigns.sweep import PreparedSweep
from sim.search.optimisers import METHODS, Found, Search, optimise, optimise_weeks, slowdown
from tests.support.workloads import crowd

AIM = np.array([0.2, -0.5, 0.3])


def away(weights: np.ndarray) -> np.ndarray:
    """The sine of half the angle between weights and the aim, as scale-free as a schedule."""
    lengths = np.linalg.norm(weights, axis=1) * np.linalg.norm(AIM)
    return np.sqrt((1 - weights @ AIM / lengths) / 2)


@pytest.mark.parametrize("method", METHODS)
def test_a_search_closes_in_on_the_best_direction(method: str) -> None:
    called: list[int] = []

    def counted(weights: np.ndarray) -> np.ndarray:
        called.append(len(weights))
        return away(weights)

    found = optimise(counted, 3, Search(method, budget=500), seed=1)
    assert sum(called) == len(found.values) == 500
    assert found.value == found.values.min() == pytest.approx(away(found.weights[None])[0])
    assert np.abs(found.weights).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found.weights, AIM, atol=0.1 if method == "random" else 0.01)
    assert found.starts == 1 if method == "random" else found.starts > 1
    again = optimise(away, 3, Search(method, budget=500), seed=1)
    np.testing.assert_array_equal(found.values, again.values)
    assert not np.array_equal(found.values, optimise(away, 3, Search(method, budget=500), seed=2).values)


def test_start_step_and_scale_say_where_the_search_begins() -> None:
    near: list[np.ndarray] = []

    def noted(weights: np.ndarray) -> np.ndarray:
        near.append(weights)
        return away(weights)

    optimise(noted, 3, Search(budget=7, step=1e-6), start=np.array([1.0, 2.0, 3.0]), scale=np.array([100.0, 10.0, 1.0]))
    np.testing.assert_allclose(near[0], np.tile([100.0, 20.0, 3.0], (7, 1)), rtol=1e-3)


def test_the_penalty_keeps_the_norm_near_one_and_out_of_the_value() -> None:
    norms: list[np.ndarray] = []

    def flat(weights: np.ndarray) -> np.ndarray:
        norms.append(np.abs(weights).sum(axis=1))
        return np.zeros(len(weights))

    found = optimise(flat, 3, Search(budget=200, penalty=1.0), start=np.array([3.0, 3.0, 3.0]))
    assert found.value == 0.0
    assert abs(np.log(norms[-1]).mean()) < 0.2 < np.log(norms[0]).mean()


def test_reached_counts_simulations() -> None:
    found = Found(AIM, 1.0, np.array([5.0, 3.0, 1.0, 3.0]), 1)
    assert [found.reached(value) for value in (5.0, 3.0, 2.0, 0.5)] == [1, 2, 3, None]


def test_weeks_are_searched_side_by_side_with_the_same_results() -> None:
    weeks = {number: crowd(np.random.default_rng(number), size=60, machine=16).table() for number in (1, 2, 3)}
    one, two = (optimise_weeks(weeks, 6, Search(budget=60), procs=16, tau_s=60.0, map_pieces=threads(count)) for count in (1, 2))
    assert {number: found.value for number, found in one.items()} == {number: found.value for number, found in two.items()}
    for number, found in one.items():
        sweep = PreparedSweep(weeks[number], procs=16, taus_s=(60.0,))
        measured = sweep.measure(found.weights[None])["mean_bounded_slowdown"][0]
        assert measured == pytest.approx(found.value)
        assert slowdown(sweep)(found.weights[None])[0] == pytest.approx(measured)
        assert found.value < np.median(found.values), "a week in which no policy matters shows nothing"


@pytest.mark.parametrize(
    ("search", "dimensions", "said"),
    [
        (Search("grid"), 3, "unknown optimiser"),
        (Search(budget=0), 3, "budget"),
        (Search(), 1, "dimensions"),
        (Search(step=0.0), 3, "step"),
    ],
)
def test_other_searches_are_refused(search: Search, dimensions: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        optimise(away, dimensions, search)
