"""Optimisers of weights: xNES and CMA-ES of the library ``cmaes``, and random search.

Legrand, Trystram & Zrigui (2018) minimise F(w) + penalty (|w| + 1 / |w|) by xNES (Glasmachers et al. 2010), |w| the norm L1: as a
policy is a direction, the penalty only keeps the norm near 1. Its size, start, step, budget and stopping are not in the paper;
:class:`Search` declares ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from cmaes import CMA, XNES

from features.clock import Clock
from features.errors import InputError
from sim.campaigns.maps import Map, threads
from sim.campaigns.sweep import MIXED, PreparedSweep, random_weights
from sim.kernel.run import SLOWDOWNS
from sim.metrics.schedule_metrics import TAU_S
from sim.outcome import TRACE_SECONDS
from sim.policy import Policy

XNES_NAME, CMA_ES, RANDOM = METHODS = ("xnes", "cma-es", "random")
TYPICAL = np.array([1000.0, 1.0, 0.1, 10.0, 10_000.0, 0.1])
"""A scale for (n, r, wait, r/n, expansion, r n), powers of ten by which the features of typical jobs are of one size."""
Objective = Callable[[np.ndarray], np.ndarray]
"""Takes weights float64 [policies, dimensions] and returns their values, float64 [policies]; smaller is better."""


@dataclass(frozen=True)
class Search:
    """How to search.

    ``budget`` simulations at most. ``population`` policies a generation, by default the library's, 4 + floor(3 ln dimensions).
    A search starts at a random point of the sphere with standard deviation ``step``. It starts again at another where the
    library says that it has converged or diverged, or no weight of a generation differs by more than ``closest``, until the
    budget is used up.

    The study docs/studies/policy-optimisers.md shows what other values give.
    """

    method: str = "xnes"
    budget: int = 1000
    penalty: float = 1.0
    step: float = 0.5
    population: int | None = None
    closest: float = 0.1


@dataclass(frozen=True)
class Found:
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


def optimise(
    objective: Objective,
    dimensions: int,
    search: Search | None = None,
    *,
    seed: int = 0,
    start: np.ndarray | None = None,
    scale: np.ndarray | None = None,
) -> Found:
    """Minimise ``objective`` over directions of ``dimensions`` weights.

    ``start`` [dimensions] is where the first search begins, by default at random. The search goes over weights divided by ``scale``
    [dimensions], for features that differ in size; the paper has them raw. One generation is one call of ``objective``.
    """
    search = search or Search()
    if search.method not in METHODS:
        raise InputError(f"unknown optimiser {search.method!r}; known: {', '.join(METHODS)}")
    if search.budget < 1 or dimensions < 2 or search.step <= 0:
        raise InputError("an optimiser takes a budget of at least 1, two or more dimensions and a positive step")
    size = np.ones(dimensions) if scale is None else np.asarray(scale, np.float64)
    tried = _Tried(objective, size, search.budget)
    if search.method == RANDOM:
        tried.measure(random_weights(search.budget, dimensions, seed))
        return tried.best(1)
    rng = np.random.default_rng(seed)
    starts = 0
    while tried.left > 0:
        begin = start if starts == 0 and start is not None else random_weights(1, dimensions, int(rng.integers(2**31)))[0]
        _evolve(tried, search, np.asarray(begin, np.float64), int(rng.integers(2**31)))
        starts += 1
    return tried.best(starts)


class _Tried:
    """Policies tried so far, at most so many."""

    def __init__(self, objective: Objective, scale: np.ndarray, budget: int) -> None:
        self._objective, self._scale, self.left = objective, scale, budget
        self._points: list[np.ndarray] = []
        self._values: list[np.ndarray] = []

    def measure(self, points: np.ndarray) -> np.ndarray:
        """Return the values of points [policies, dimensions]."""
        values = np.asarray(self._objective(points * self._scale), np.float64)
        self._points.append(points)
        self._values.append(values)
        self.left -= len(points)
        return values

    def best(self, starts: int) -> Found:
        points, values = np.concatenate(self._points), np.concatenate(self._values)
        row = int(np.argmin(values))
        weights = points[row] * self._scale
        return Found(weights / np.abs(weights).sum(), float(values[row]), values, starts)


def _evolve(tried: _Tried, search: Search, start: np.ndarray, seed: int) -> None:
    """Search from ``start`` until it has converged or the budget is used up."""
    library = XNES if search.method == XNES_NAME else CMA
    optimiser = library(mean=start, sigma=search.step, seed=seed, population_size=search.population)
    while tried.left > 0:
        points = np.array([optimiser.ask() for _ in range(optimiser.population_size)])[: tried.left]
        values = tried.measure(points)
        if len(points) < optimiser.population_size:
            return
        norms = np.abs(points).sum(axis=1)
        penalised = values + search.penalty * (norms + 1 / norms)
        optimiser.tell(list(zip(points, penalised.tolist(), strict=True)))
        if optimiser.should_stop() or np.ptp(points, axis=0).max() < search.closest:
            return


def slowdown(sweep: PreparedSweep) -> Objective:
    """Return the mean bounded slowdown, by the first threshold of ``sweep``, as an objective."""
    return lambda weights: sweep.sums(sweep.checked(weights))[0][:, SLOWDOWNS] / len(sweep.jobs)


def optimise_weeks(
    weeks: Mapping[int, pd.DataFrame],
    dimensions: int,
    search: Search | None = None,
    *,
    procs: int,
    policy: Policy = MIXED,
    clock: Clock = TRACE_SECONDS,
    tau_s: float = TAU_S,
    seed: int = 0,
    scale: np.ndarray | None = None,
    map_pieces: Map | None = None,
) -> dict[int, Found]:
    """Find the weights of least mean bounded slowdown for each week.

    ``weeks`` are jobs by number, which ``map_pieces`` shares, by default among a thread a core. A week's search depends on ``seed`` and its number alone.
    """
    swept = {"procs": procs, "policy": policy, "clock": clock, "taus_s": (tau_s,)}
    searched = partial(_searched, weeks, swept, partial(optimise, dimensions=dimensions, search=search, scale=scale), seed)
    found = dict((map_pieces or threads())(searched, list(weeks)))
    return {number: found[number] for number in weeks}


def _searched(
    weeks: Mapping[int, pd.DataFrame], swept: dict[str, Any], search: Callable[..., Found], seed: int, number: int
) -> tuple[int, Found]:
    """Return the number of a week and what ``search`` finds for it."""
    mixed = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    return number, search(slowdown(PreparedSweep(weeks[number], **swept)), seed=mixed)
