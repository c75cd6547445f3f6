"""Searches for the best mixed policy of a week: the product's xNES from many starts, CMA-ES and random search.

Legrand, Trystram & Zrigui (2018) minimise F(w) + penalty (|w| + 1 / |w|) by xNES, |w| the norm L1: as a policy is a direction, the
penalty only keeps the norm near 1. Its size, start, step, budget and stopping are not in the paper; :class:`Search` declares ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from cmaes import CMA

from sim.campaigns.learned_order import PreparedSweep, ask_and_tell, evolve, random_weights

XNES, CMA_ES, RANDOM = "xnes", "cma-es", "random"
Objective = Callable[[np.ndarray], np.ndarray]
"""Takes weights float64 [policies, dimensions] and returns their values, float64 [policies]; smaller is better."""


@dataclass(frozen=True)
class Search:
    """How to search.

    ``budget`` simulations at most. ``population`` policies a generation, by default the library's, 4 + floor(3 ln dimensions).
    A search starts at a random point of the sphere with standard deviation ``step``. It starts again at another where the
    library says that it has converged or diverged, or no weight of a generation differs by more than ``closest``, until the
    budget is used up.
    """

    method: str = XNES
    budget: int = 1000
    penalty: float = 1.0
    step: float = 0.5
    population: int | None = None
    closest: float = 0.1


@dataclass(frozen=True)
class Best:
    """The best weights of a search, and their value without the penalty.

    ``weights`` float64 [dimensions] are of norm L1 1. ``values`` float64 [simulations]: those of all policies tried, in order;
    ``starts``: how often the search began.
    """

    weights: np.ndarray
    value: float
    values: np.ndarray
    starts: int

    def reached(self, value: float) -> int | None:
        """Return how many simulations it took to reach ``value``; None if it was not reached."""
        hits = np.flatnonzero(self.values <= value)
        return int(hits[0]) + 1 if len(hits) else None


def optimise(objective: Objective, dimensions: int, search: Search | None = None, *, seed: int = 0) -> Best:
    """Minimise ``objective`` over directions of ``dimensions`` weights: one generation is one call of it."""
    search = search or Search()
    points: list[np.ndarray] = []
    values: list[np.ndarray] = []

    def measured(tried: np.ndarray) -> np.ndarray:
        points.append(tried)
        values.append(np.asarray(objective(tried), np.float64))
        norms = np.abs(tried).sum(axis=1)
        return np.asarray(values[-1] + search.penalty * (norms + 1 / norms))

    rng, starts = np.random.default_rng(seed), 0
    if search.method == RANDOM:
        measured(random_weights(search.budget, dimensions, seed))
        starts = 1
    walk = _cma_es if search.method == CMA_ES else evolve
    while (left := search.budget - sum(map(len, points))) > 0:
        start = random_weights(1, dimensions, int(rng.integers(2**31)))[0]
        walk(
            measured,
            start,
            step=search.step,
            budget=left,
            seed=int(rng.integers(2**31)),
            population=search.population,
            closest=search.closest,
        )
        starts += 1
    every, value = np.concatenate(points), np.concatenate(values)
    weights = every[int(value.argmin())]
    return Best(weights / np.abs(weights).sum(), float(value.min()), value, starts)


def _cma_es(
    objective: Objective, start: np.ndarray, *, step: float, budget: int, seed: int, population: int | None, closest: float
) -> None:
    """Search as :func:`sim.campaigns.learned_order.evolve`, by CMA-ES."""
    ask_and_tell(CMA(mean=start, sigma=step, seed=seed, population_size=population), objective, budget, closest)


def slowdown(sweep: PreparedSweep) -> Objective:
    """Return the mean bounded slowdown, by the first threshold of ``sweep``, as an objective."""
    return lambda weights: sweep.measure(weights).filter(like="mean_bounded_slowdown").iloc[:, 0].to_numpy()


def optimise_week(sweep: PreparedSweep, number: int, dimensions: int, search: Search | None = None, seed: int = 0) -> Best:
    """Return the weights of least mean bounded slowdown of the week ``number``; its search depends on that and ``seed`` alone."""
    return optimise(slowdown(sweep), dimensions, search, seed=int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))
