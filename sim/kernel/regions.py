"""A division of all weights into cones of the same schedule, one schedule at a time.

Cones not looked at yet lie on a stack. Weights inside the uppermost are simulated, the cone of their schedule is cut out of it,
and what remains of it, in pieces that are cones again, goes back on the stack. Given points, such as a grid of directions, go
along: each belongs to the cone it lies in, until it lies inside that of a schedule. A point on a border, where a tie decides,
is set aside.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import kernel
from sim.kernel.cones import cut, find_corners
from sim.kernel.same_schedule import same_schedule

STACK, SIDES, FOUND, CORNERS, BORDER, MISSED, GIVEN_UP, COUNTS = range(8)
"""Slots of ``Regions.counts``: cones on the stack, their sides; schedules found, corners of their cones; points on borders; weights
that missed the inside of the uppermost cone; cones given up."""

SIMULATE, NO_ROOM, FINISHED = range(3)
"""What :func:`divide` asks for: a simulation with these weights; larger arrays, and another call; nothing more."""

PATIENCE = 20
"""Weights inside one cone that are tried before it is given up: rounding has the last word in a cone that is too thin."""


class Regions(NamedTuple):
    """The state of a division.

    On the stack: normals ``side`` int64 [room, 3] of cones, each from ``first`` int64 [room + 1] on, with the points
    ``order[begin:end]``. The ``points`` float64 [points, 3]: the ``order`` in which they lie, and of each its ``region``, -1 if
    none, and ``margin`` float64, within which rounding may decide; ``border`` lists those so near to a border. Of each schedule
    found: its ``weights`` float64 [most, 3]; ``corner`` float64 [room, 3] of its cone, on the sphere of the L1 norm, from
    ``outline`` int64 [most + 1] on. ``everywhere``: cones without points count, too.
    """

    counts: np.ndarray
    side: np.ndarray
    first: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    points: np.ndarray
    margin: np.ndarray
    order: np.ndarray
    region: np.ndarray
    border: np.ndarray
    weights: np.ndarray
    corner: np.ndarray
    outline: np.ndarray
    everywhere: bool


@kernel
def divide(weights, simulated, replay, regions, cone, rest, piece):
    """Note what was simulated, write the next weights, and return what is needed.

    ``weights`` [3] are those that were ``simulated``, if any were, then the next ones.
    """
    counts = regions.counts
    if simulated:
        take_up(cone, regions)
        same_schedule(weights, replay, cone)
        if cone.size[0] == 0:
            miss(regions)
        elif lacks_room(cone, regions):
            return NO_ROOM
        else:
            note_region(weights, cone, regions)
            put_back(cone, rest, piece, regions)
    if counts[STACK] == 0:
        return FINISHED
    top = counts[STACK] - 1
    if regions.end[top] > regions.begin[top]:
        point = regions.points[regions.order[regions.begin[top]]]
        for axis in range(3):
            weights[axis] = point[axis]
    else:
        take_up(cone, regions)
        choose_inside(cone, counts[MISSED], weights)
    return SIMULATE


@kernel
def take_up(cone, regions):
    """Copy the uppermost cone of the stack."""
    top = regions.counts[STACK] - 1
    begin = regions.first[top]
    cone.size[0] = regions.counts[SIDES] - begin
    for i in range(cone.size[0]):
        cone.fresh[i] = 0
        for axis in range(3):
            cone.side[i, axis] = regions.side[begin + i, axis]
    find_corners(cone)


@kernel
def choose_inside(cone, missed, weights):
    """Write weights inside the cone: its centre, then nearer to one corner and another."""
    for axis in range(3):
        weights[axis] = 0.0
    size = cone.size[0]
    for i in range(size):
        corner = cone.corner[i]
        length = 1.0 * abs(corner[0]) + abs(corner[1]) + abs(corner[2])
        share = 1.0 if missed == 0 or i == missed % size else 1.0 / (1 + missed)
        for axis in range(3):
            weights[axis] += share * corner[axis] / length


@kernel
def miss(regions):
    """Set the simulated point aside, or count the weights: they found no cone."""
    counts = regions.counts
    top = counts[STACK] - 1
    counts[MISSED] += 1
    if regions.begin[top] < regions.end[top]:
        regions.border[counts[BORDER]] = regions.order[regions.begin[top]]
        counts[BORDER] += 1
        regions.begin[top] += 1
        counts[MISSED] = 0
    if regions.begin[top] == regions.end[top] and (not regions.everywhere or counts[MISSED] > PATIENCE):
        counts[GIVEN_UP] += regions.everywhere
        counts[MISSED] = 0
        counts[STACK] = top
        counts[SIDES] = regions.first[top]


@kernel
def lacks_room(cone, regions):
    """Tell whether the pieces around ``cone``, or its outline, may not fit in the arrays."""
    counts = regions.counts
    pieces = 0
    for i in range(cone.size[0]):
        pieces += cone.fresh[i]
    most = pieces * (counts[SIDES] - regions.first[counts[STACK] - 1] + pieces)
    return (
        counts[SIDES] + most > len(regions.side)
        or counts[STACK] + pieces > len(regions.begin)
        or counts[FOUND] + 1 > len(regions.weights)
        or counts[CORNERS] + cone.size[0] > len(regions.corner)
    )


@kernel
def note_region(weights, cone, regions):
    """Write weights and outline of a schedule just found."""
    counts = regions.counts
    found, at = counts[FOUND], counts[CORNERS]
    for i in range(cone.size[0]):
        corner = cone.corner[i]
        length = 1.0 * abs(corner[0]) + abs(corner[1]) + abs(corner[2])
        for axis in range(3):
            regions.corner[at + i, axis] = corner[axis] / length
    for axis in range(3):
        regions.weights[found, axis] = weights[axis]
    counts[FOUND] = found + 1
    counts[CORNERS] = at + cone.size[0]
    regions.outline[found + 1] = counts[CORNERS]


@kernel
def put_back(cone, rest, piece, regions):
    """Put back what remains of the uppermost cone around ``cone``, in pieces.

    The points inside ``cone`` get their region.
    """
    counts = regions.counts
    take_up(rest, regions)
    top = counts[STACK] - 1
    begin, end = regions.begin[top], regions.end[top]
    counts[MISSED] = 0
    counts[STACK] = top
    counts[SIDES] = regions.first[top]
    for i in range(cone.size[0]):
        if cone.fresh[i] == 0:
            continue
        a, b, c = cone.side[i, 0], cone.side[i, 1], cone.side[i, 2]
        inside, beyond = set_apart(a, b, c, begin, end, regions)
        if regions.everywhere or beyond < end:
            copy(rest, piece)
            cut(piece, -a, -b, -c)
            push(piece, beyond, end, regions)
        cut(rest, a, b, c)
        end = inside
    for i in range(begin, end):
        regions.region[regions.order[i]] = counts[FOUND] - 1


@kernel
def set_apart(a, b, c, begin, end, regions):
    """Order points: first those inside a half-space, last those outside.

    Those on its border are set aside. Return where the first end and the last begin.
    """
    order, counts = regions.order, regions.counts
    inside, at, beyond = begin, begin, end
    while at < beyond:
        index = order[at]
        point = regions.points[index]
        sign = a * point[0] + b * point[1] + c * point[2]
        if sign > regions.margin[index]:
            order[inside] = index
            inside += 1
            at += 1
        elif sign < -regions.margin[index]:
            beyond -= 1
            order[at] = order[beyond]
            order[beyond] = index
        else:
            regions.border[counts[BORDER]] = index
            counts[BORDER] += 1
            at += 1
    return inside, beyond


@kernel
def copy(source, target):
    """Copy a cone that has no fresh sides."""
    target.size[0] = source.size[0]
    for i in range(source.size[0]):
        target.fresh[i] = 0
        for axis in range(3):
            target.side[i, axis] = source.side[i, axis]
            target.corner[i, axis] = source.corner[i, axis]


@kernel
def push(cone, begin, end, regions):
    """Put a cone with the points ``order[begin:end]`` on the stack."""
    counts = regions.counts
    top, at = counts[STACK], counts[SIDES]
    for i in range(cone.size[0]):
        for axis in range(3):
            regions.side[at + i, axis] = cone.side[i, axis]
    regions.first[top], regions.begin[top], regions.end[top] = at, begin, end
    counts[STACK] = top + 1
    counts[SIDES] = at + cone.size[0]
