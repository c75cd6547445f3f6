"""The schedules that all mixed policies of three weights make, or those of a grid of directions, each found once.

Simulating one direction tells the cone of all directions with the same schedule (:mod:`sim.kernel.same_schedule`): on a busy week
a grid of 948,000 directions takes some 20,000 simulations, with the same results.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from features.errors import InputError
from sim.campaigns.sweep import PreparedSweep
from sim.kernel.cones import new_cone
from sim.kernel.orders import NO_WEIGHTS
from sim.kernel.regions import BORDER, CORNERS, COUNTS, FINISHED, FOUND, GIVEN_UP, SIDES, SIMULATE, STACK, Regions, divide
from sim.kernel.run import run
from sim.kernel.same_schedule import Replay
from sim.prepare import NO_DEPENDENCIES, NO_SWEEP
from sim.semantics import Semantics, semantics

EXACT_FLOAT, EXACT_INT = 1 << 53, 1 << 62
"""Bounds of the whole numbers that a float64 and an int64 hold, beyond which scores and cones would be rounded."""
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
    """Find the schedules of all ``points``, whole weights int64 [points, 3] on (n, r, wait), and which point has which.

    With ``everywhere`` those of all other directions, too. After ``most`` simulations the rest is left out. ``sweep`` must be of
    ``MIXED(...)-EASY-<order>`` on raw features with one reservation, per second and without timed passes; InputError for any other,
    and for features too large to be exact.
    """
    plan, rules = sweep.plan, semantics(sweep.policy.semantics)
    if plan.order.name != "MIXED" or plan.order.standardised or plan.algorithm != "EASY" or plan.reservations > 1:
        raise InputError(f"schedules are told apart for MIXED(...)-EASY-<order> on raw features, not for {sweep.policy.scheduler}")
    if rules != Semantics() or sweep.retrained:
        raise InputError("schedules are told apart for passes per second, by predictors that are not retrained")
    settings, arrays, estimates, work, memory, untrained = sweep.ready(changing=False)
    features = np.stack([arrays.procs, arrays.requested, arrays.submit], axis=1)
    check_exact(features, points)
    total, state = len(features), work.state
    room = [np.zeros(total), np.zeros(total, np.int64), np.zeros(total, np.int64)]
    jobs = (arrays.submit, arrays.runtime, arrays.procs, features, state.start, state.running, state.ended)
    replay = Replay(*jobs, sweep.procs, settings.starvation, *room)
    regions, cones = _begin(points, everywhere, np.random.default_rng(0)), (new_cone(), new_cone(), new_cone())
    weights = np.zeros((1, len(NO_WEIGHTS)))
    asked = NO_SWEEP._replace(results=np.empty((1, sweep.sums_of_each)), weights=weights, taus_s=sweep.taus_s, memory=untrained)
    sums: list[np.ndarray] = []
    code, simulations = divide(weights[0], False, replay, regions, *cones), 0
    while code != FINISHED and simulations != most:
        if code == SIMULATE:
            run(settings, arrays, estimates, NO_DEPENDENCIES, *work, memory, 0, asked)
            features[:, 1] = estimates.order
            simulations += 1
        else:
            regions = _larger(regions)
        code = divide(weights[0], True, replay, regions, *cones)
        if regions.counts[FOUND] > len(sums):
            sums.append(asked.results[0].copy())
    found, alone = len(sums), regions.border[: regions.counts[BORDER]]
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
        code == FINISHED and bool((regions.region >= 0).all()),
        int(regions.counts[GIVEN_UP]),
    )


def check_exact(features: np.ndarray, points: np.ndarray) -> None:
    """Raise InputError where scores of whole weights, or cones of whole differences, would be rounded."""
    largest = [int(each) for each in features.max(axis=0)]
    heaviest = [int(each) for each in np.abs(points).max(axis=0)] if len(points) else [1, 1, 1]
    if sum(a * b for a, b in zip(largest, heaviest, strict=True)) >= EXACT_FLOAT or 6 * np.prod(largest, dtype=object) >= EXACT_INT:
        raise InputError(f"features up to {largest} with weights up to {heaviest} cannot be computed without rounding")


def _begin(points: np.ndarray, everywhere: bool, rng: np.random.Generator) -> Regions:
    """Return regions with the octants on the stack, and the points in them in random order."""
    inside = (points != 0).all(axis=1)
    octant = (points > 0) @ np.array([4, 2, 1])
    order = rng.permutation(np.flatnonzero(inside))
    order = order[np.argsort(octant[order], kind="stable")]
    ends = np.searchsorted(octant[order], np.arange(9))
    regions = Regions(
        counts=np.zeros(COUNTS, np.int64),
        side=np.zeros((8 * _ROOM, 3), np.int64),
        first=np.zeros(_ROOM, np.int64),
        begin=np.zeros(_ROOM, np.int64),
        end=np.zeros(_ROOM, np.int64),
        points=np.ascontiguousarray(points, np.int64),
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
