"""Cut convex cones of weights in three dimensions by half-spaces, exactly.

All numbers are whole. A cone is the list of its sides in cyclic order: a side is an integer normal h, and inside is h w >= 0.
The corner behind a side is the ray on which it meets the next one, the cross product of the two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import kernel

MOST_SIDES = 1024
"""Max number of sides of a cone; one that would get more counts as empty. Those of real weeks have four on average."""


class Cone(NamedTuple):
    """One cone, int64, and room to work in.

    ``size`` [1] is its number of sides, 0 if it is empty; normals ``side`` and ``corner`` [MOST_SIDES, 3]. ``fresh``
    [MOST_SIDES] tells the sides that :func:`cut` has added.
    """

    size: np.ndarray
    side: np.ndarray
    corner: np.ndarray
    fresh: np.ndarray
    sign: np.ndarray
    spare_side: np.ndarray
    spare_corner: np.ndarray
    spare_fresh: np.ndarray


def new_cone() -> Cone:
    """Return an empty cone."""
    table, column = (MOST_SIDES + 1, 3), MOST_SIDES + 1
    return Cone(
        np.zeros(1, np.int64),
        np.zeros(table, np.int64),
        np.zeros(table, np.int64),
        np.zeros(column, np.int64),
        np.zeros(column, np.int64),
        np.zeros(table, np.int64),
        np.zeros(table, np.int64),
        np.zeros(column, np.int64),
    )


@kernel
def find_corner(cone, i, k):
    """Compute the corner behind side ``i``, where side ``k`` follows."""
    a, b = cone.side[i], cone.side[k]
    cone.corner[i, 0] = a[1] * b[2] - a[2] * b[1]
    cone.corner[i, 1] = a[2] * b[0] - a[0] * b[2]
    cone.corner[i, 2] = a[0] * b[1] - a[1] * b[0]


@kernel
def find_corners(cone):
    """Compute all corners."""
    size = cone.size[0]
    for i in range(size):
        find_corner(cone, i, i + 1 if i + 1 < size else 0)


@kernel
def cut(cone, a, b, c):
    """Cut away what lies outside a w0 + b w1 + c w2 >= 0; return whether that was anything.

    A cone that only touches the half-space becomes empty.
    """
    size = cone.size[0]
    lowest, highest = 0, 0
    for i in range(size):
        cone.sign[i] = a * cone.corner[i, 0] + b * cone.corner[i, 1] + c * cone.corner[i, 2]
        lowest = min(lowest, cone.sign[i])
        highest = max(highest, cone.sign[i])
    if lowest == 0:
        return False
    if highest == 0 or size == MOST_SIDES:
        cone.size[0] = 0
        return True
    last = 0  # the last corner inside; the first follows after those outside
    while not (cone.sign[last] > 0 and cone.sign[last + 1 if last + 1 < size else 0] <= 0):
        last += 1
    first = last + 1 if last + 1 < size else 0
    entering = first
    while cone.sign[entering] <= 0:
        entering = entering + 1 if entering + 1 < size else 0
    kept = 0
    i = entering
    while True:  # the sides from the entering to the leaving one
        for axis in range(3):
            cone.spare_side[kept, axis] = cone.side[i, axis]
            cone.spare_corner[kept, axis] = cone.corner[i, axis]
        cone.spare_fresh[kept] = cone.fresh[i]
        kept += 1
        if i == first:
            break
        i = i + 1 if i + 1 < size else 0
    for i in range(kept):
        for axis in range(3):
            cone.side[i, axis] = cone.spare_side[i, axis]
            cone.corner[i, axis] = cone.spare_corner[i, axis]
        cone.fresh[i] = cone.spare_fresh[i]
    cone.side[kept, 0], cone.side[kept, 1], cone.side[kept, 2] = a, b, c
    cone.fresh[kept] = 1
    cone.size[0] = kept + 1
    find_corner(cone, kept - 1, kept)
    find_corner(cone, kept, 0)
    return True
