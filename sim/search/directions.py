"""Directions of weights: the grid of Legrand, Trystram & Zrigui (2018), in whole numbers.

A mixed policy is a direction: weights multiplied by a positive number order jobs alike. The paper covers the sphere of the L1 norm
with 100 points a dimension, uniformly over [-1, 1], for three weights on (n, r, wait). Those points are odd multiples of 1/99, so
each direction is a triple of whole numbers, with which scores are computed without rounding and ties are ties.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from features.errors import InputError

POINTS = 100
"""Points a dimension of the paper's grid."""
SURFACE, CUBE = "surface", "cube"


@dataclass(frozen=True)
class Directions:
    """Distinct directions, ``whole`` int64 [directions, 3], on (n, r, wait)."""

    whole: np.ndarray

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def weights(self) -> np.ndarray:
        """Return the directions on the sphere of the L1 norm, float64 [directions, 3]."""
        return self.whole / np.abs(self.whole).sum(axis=1, keepdims=True)


def grid(points: int = POINTS, reading: str = SURFACE, *, pure: bool = True, scale: tuple[int, int, int] = (1, 1, 1)) -> Directions:
    """Return the paper's grid in one of its two readings.

    ``surface``: r and wait on the grid, n = 1 - |r| - |wait| of either sign, as the paper's figure 4 shows two faces: 9,800
    directions of 100 points. ``cube``: every triple of grid points, those in one direction once: 948,152. Neither holds a
    pure policy, such as SPF, as 0 is not among 100 points; ``pure`` adds the six of them. ``scale`` multiplies the weights, for
    features that differ in size by orders of magnitude; the paper has them raw.
    """
    if not 2 <= points <= 1000:
        raise InputError(f"a grid of {points} points a dimension: must be 2 to 1,000")
    line = 2 * np.arange(points) - (points - 1)
    if reading == SURFACE:
        r, wait = (axis.ravel() for axis in np.meshgrid(line, line, indexing="ij"))
        n = points - 1 - np.abs(r) - np.abs(wait)
        faces = [np.stack([sign * n, r, wait], axis=1)[n >= 0] for sign in (1, -1)]
        whole = np.concatenate([faces[0], faces[1][faces[1][:, 0] != 0]])
    elif reading == CUBE:
        whole = np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1).reshape(-1, 3)
        if points % 2:
            whole //= 2
        whole = whole[np.gcd.reduce(whole, axis=1) == 1]
    else:
        raise InputError(f"unknown reading {reading!r} of the grid; known: {SURFACE}, {CUBE}")
    if pure and points % 2 == 0:  # an odd number of points has 0 among them
        whole = np.concatenate([whole, np.eye(3, dtype=np.int64), -np.eye(3, dtype=np.int64)])
    return Directions(whole * np.array(scale))
