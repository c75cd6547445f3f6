"""Find the schedules that mixed policies of three weights make, with few simulations.

Simulating one direction tells the cone of all directions with the same schedule (:mod:`sim.kernel.same_schedule`): on a busy week
a grid of 948,000 directions takes some 20,000 simulations, with the same results.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.clock import Clock
from features.errors import InputError
from sim.campaigns.maps import Map, threads
from sim.campaigns.sweep import MIXED, PreparedSweep
from sim.kernel.cones import new_cone
from sim.kernel.orders import NO_WEIGHTS
from sim.kernel.regions import BORDER, CORNERS, COUNTS, FINISHED, FOUND, GIVEN_UP, SIDES, SIMULATE, STACK, Regions, divide
from sim.kernel.run import run
from sim.kernel.same_schedule import NOW, Replay
from sim.metrics.schedule_metrics import TAU_S
from sim.outcome import TRACE_SECONDS
from sim.policy import Policy
from sim.prepare import NO_DEPENDENCIES, NO_SWEEP
from sim.semantics import Semantics, semantics

EXACT_FLOAT, EXACT_INT = 1 << 53, 1 << 62
"""Bounds of the whole numbers that a float64 and an int64 hold, beyond which scores and cones would be rounded."""
_ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""Bound of the relative error of the difference of two scores: of three products and two sums each, and the check itself."""
_ROOM = 1024
"""Schedules that arrays hold at first."""
_GROWING = ("side", "first", "begin", "end", "weights", "corner", "outline")


class Division(NamedTuple):
    """What a division found.

    ``weights`` float64 [schedules, 3]: a policy for each schedule; ``sums`` float64 [schedules, sums]: what it comes to, as
    :meth:`sim.campaigns.sweep.PreparedSweep.table` takes it. ``region`` int64 [points]: the row of each given point's schedule, -1
    if it was not reached. ``corner`` float64 [corners, 3], from ``outline`` int64 [cones + 1] on: the cone, in cyclic order on the
    sphere of the L1 norm, in which a schedule was found to hold, a part of all its directions; later schedules are those of single
    points on borders of cones. ``simulations``: how many it took. ``complete``: whether all points, or all directions, are
    covered; ``given_up``: cones left out, too thin for the rounding of scores.
    """

    weights: np.ndarray
    sums: np.ndarray
    region: np.ndarray
    corner: np.ndarray
    outline: np.ndarray
    simulations: int
    complete: bool
    given_up: int


def division(sweep: PreparedSweep, points: np.ndarray, *, everywhere: bool = False, most: int | None = None) -> Division:
    """Find the schedules of all ``points``, and which point has which.

    Points are weights [points, 3] on (n, r, wait). Of whole weights ties are ties; of others they go by the rounding of scores,
    as in every simulation. With ``everywhere`` those of all other directions are found, too. After ``most`` simulations the
    rest is left out. ``sweep`` must be of ``MIXED(...)-EASY-<order>`` on raw features with one reservation, per second and
    without timed passes; InputError for any other, and for features too large to be exact.
    """
    plan, rules = sweep.plan, semantics(sweep.policy.semantics)
    if plan.order.name != "MIXED" or plan.order.standardised or plan.algorithm != "EASY" or plan.reservations > 1:
        raise InputError(f"schedules are told apart for MIXED(...)-EASY-<order> on raw features, not for {sweep.policy.scheduler}")
    if rules != Semantics() or sweep.retrained:
        raise InputError("schedules are told apart for passes per second, by predictors that are not retrained")
    ready = sweep.ready(changing=False)
    settings, arrays, estimates, work, memory, untrained = ready
    features = np.stack([arrays.procs, arrays.requested, arrays.submit], axis=1)
    margin = margins(features, points)
    total, state = len(features), work.state
    room = (np.zeros(total), np.zeros(total, np.int64), np.zeros(NOW, np.int64))
    jobs = (arrays.submit, arrays.runtime, arrays.procs, features, state.start, state.running, state.ended)
    replay = Replay(*jobs, sweep.procs, settings.starvation, *room)
    regions, cones = _begin(points, margin, everywhere), (new_cone(), new_cone(), new_cone())
    weights = np.zeros((1, len(NO_WEIGHTS)))
    asked = NO_SWEEP._replace(results=np.empty((1, sweep.sums_of_each)), weights=weights, taus_s=sweep.taus_s, memory=untrained)
    sums: list[np.ndarray] = []
    code, simulations = divide(weights[0], False, replay, regions, *cones), 0
    while code != FINISHED and simulations != most:
        if code == SIMULATE:
            run(settings, arrays, estimates, NO_DEPENDENCIES, *work, memory, 0, asked)
            sweep.check(ready)
            features[:, 1] = estimates.order
            simulations += 1
        else:
            regions = _larger(regions)
        code = divide(weights[0], True, replay, regions, *cones)
        if regions.counts[FOUND] > len(sums):
            sums.append(asked.results[0].copy())
    found, finished = len(sums), code == FINISHED
    alone = np.flatnonzero(regions.region < 0) if finished else regions.border[: regions.counts[BORDER]]
    regions.region[alone] = found + np.arange(len(alone))  # schedules of cones come first, then those of points on borders
    on_borders = points[alone].astype(np.float64)
    sums.append(sweep.sums(sweep.checked(on_borders))[0])
    return Division(
        np.concatenate([regions.weights[:found], on_borders]),
        np.vstack(sums),
        regions.region,
        regions.corner[: regions.counts[CORNERS]],
        regions.outline[: found + 1],
        simulations + len(alone),
        finished,
        int(regions.counts[GIVEN_UP]),
    )


def margins(features: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return how near to 0 rounding decides the sign of a difference of scores.

    float64 [points]; 0 for whole weights. InputError where the whole numbers of their scores or of cones would be too large to
    be exact.
    """
    largest = features.max(axis=0).astype(np.float64)
    if 6 * largest.prod() >= EXACT_INT:
        raise InputError(f"features up to {largest.tolist()} are too large for cones of whole numbers")
    scores = np.abs(points) @ largest
    if not np.issubdtype(points.dtype, np.integer):
        return scores * _ROUNDING
    if (scores >= EXACT_FLOAT).any():
        raise InputError(f"scores up to {scores.max():g} of whole weights cannot be computed without rounding")
    return np.zeros(len(points))


def _begin(points: np.ndarray, margin: np.ndarray, everywhere: bool) -> Regions:
    """Return regions with the octants on the stack, and the points in them in random order."""
    inside = (points != 0).all(axis=1)
    octant = (points > 0) @ np.array([4, 2, 1])
    order = np.random.default_rng(0).permutation(np.flatnonzero(inside))
    order = order[np.argsort(octant[order], kind="stable")]
    ends = np.searchsorted(octant[order], np.arange(9))
    regions = Regions(
        counts=np.zeros(COUNTS, np.int64),
        side=np.zeros((8 * _ROOM, 3), np.int64),
        first=np.zeros(_ROOM, np.int64),
        begin=np.zeros(_ROOM, np.int64),
        end=np.zeros(_ROOM, np.int64),
        points=np.ascontiguousarray(points, np.float64),
        margin=margin,
        order=order,
        region=np.full(len(points), -1),
        border=np.concatenate([np.flatnonzero(~inside), np.zeros(len(order), np.int64)]),
        weights=np.zeros((_ROOM, 3)),
        corner=np.zeros((8 * _ROOM, 3)),
        outline=np.zeros(_ROOM + 1, np.int64),
        everywhere=everywhere,
    )
    counts = regions.counts
    counts[BORDER] = len(points) - len(order)
    for which in range(8):
        if everywhere or ends[which + 1] > ends[which]:
            signs = [1 if which & bit else -1 for bit in (4, 2, 1)]
            sides, top = np.diag(signs), counts[STACK]
            regions.side[counts[SIDES] : counts[SIDES] + 3] = sides if np.prod(signs) > 0 else sides[::-1]
            regions.first[top], regions.begin[top], regions.end[top] = counts[SIDES], ends[which], ends[which + 1]
            counts[STACK] += 1
            counts[SIDES] += 3
    return regions


def _larger(regions: Regions) -> Regions:
    """Return regions with twice the room."""
    doubled: Any = {name: np.concatenate([getattr(regions, name), np.zeros_like(getattr(regions, name))]) for name in _GROWING}
    return regions._replace(**doubled)


def sweep_by_regions(
    jobs: pd.DataFrame,
    weights: np.ndarray,
    *,
    procs: int,
    policy: Policy = MIXED,
    clock: Clock = TRACE_SECONDS,
    tau_s: float | Sequence[float] = TAU_S,
    map_pieces: Map | None = None,
) -> pd.DataFrame:
    """Return what :func:`sim.campaigns.sweep.sweep` returns, with fewer simulations.

    ``weights`` [policies, 3] are on (n, r, wait). For policies that :func:`division` takes; it pays off for thousands on one
    workload. ``map_pieces`` shares the octants, by default among a thread a core.
    """
    sweep = PreparedSweep(
        jobs, procs=procs, policy=policy, clock=clock, taus_s=np.atleast_1d(np.asarray(tau_s, np.float64)).tolist()
    )
    points = np.asarray(weights)
    sweep.checked(points)
    if points.shape[1] != 3:
        raise InputError(f"a sweep by regions takes weights [policies, 3], not {points.shape[1]}")
    sums = np.empty((len(points), sweep.sums_of_each))
    octant = (points > 0) @ np.array([4, 2, 1])

    for rows, found in (map_pieces or threads())(partial(_by_octant, sweep, points, octant), np.unique(octant).tolist()):
        sums[rows] = found
    return sweep.table(sums)


def _by_octant(sweep: PreparedSweep, points: np.ndarray, octant: np.ndarray, which: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of an octant's points, and their sums."""
    rows = np.flatnonzero(octant == which)
    found = division(sweep, points[rows])
    return rows, found.sums[found.region]
