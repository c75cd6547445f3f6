"""The paper's grid, in both readings."""

from __future__ import annotations

from math import gcd

import numpy as np
import pytest

from features.errors import InputError
from sim.search.directions import CUBE, SURFACE, grid


def coprime_triples(points: int) -> int:
    """Count triples of points of a grid that have no common factor, by inclusion and exclusion, without making them."""
    line = [2 * i - (points - 1) for i in range(points)]
    line = [each // 2 for each in line] if points % 2 else line
    total = 0
    for factor in range(1, points):
        primes = [p for p in range(2, factor + 1) if factor % p == 0 and all(p % q for q in range(2, p))]
        if all(factor % (p * p) for p in primes):
            multiples = sum(each % factor == 0 for each in line)
            total += (-1) ** len(primes) * (multiples**3 - (0 in line))
    return total


@pytest.mark.parametrize("points", [2, 3, 10, 31])
def test_the_cube_holds_each_direction_once(points: int) -> None:
    whole = grid(points, CUBE, pure=False).whole
    rows = {tuple(row) for row in whole.tolist()}
    assert len(rows) == len(whole) == coprime_triples(points)
    line = np.linspace(-1, 1, points)
    every = np.rint(np.stack(np.meshgrid(line, line, line), -1).reshape(-1, 3) * (points - 1)).astype(int).tolist()
    divisors = [gcd(*row) for row in every]
    assert rows == {tuple(each // d for each in row) for row, d in zip(every, divisors, strict=True) if d}


def test_the_papers_grid_has_so_many_directions() -> None:
    assert len(grid(reading=CUBE)) == coprime_triples(100) + 6 == 948_152 + 6
    # on a face |r| and |wait| are the a-th and the b-th odd number with a + b at most 50
    assert len(grid(reading=SURFACE)) == 2 * 4 * sum(50 - a for a in range(1, 50)) + 6 == 9_800 + 6


@pytest.mark.parametrize("points", [3, 4, 9, 10])
def test_the_surface_lies_on_the_sphere_and_holds_pure_policies(points: int) -> None:
    directions = grid(points)
    np.testing.assert_allclose(np.abs(directions.weights).sum(axis=1), 1.0)
    rows = {tuple(row) for row in np.round(directions.weights, 9).tolist()}
    assert len(rows) == len(directions)
    assert {tuple(sign * row) for row in np.eye(3) for sign in (1.0, -1.0)} <= rows
    line = np.linspace(-1, 1, points)
    assert len(directions) - (0 if points % 2 else 6) == sum(
        1 if abs(r) + abs(wait) > 1 - 1e-9 else 2 for r in line for wait in line if abs(r) + abs(wait) < 1 + 1e-9
    )


def test_a_scaled_grid_weighs_features_by_their_size() -> None:
    np.testing.assert_array_equal(grid(4, scale=(1000, 10, 1)).whole, grid(4).whole * [1000, 10, 1])


def test_other_grids_are_refused() -> None:
    with pytest.raises(InputError, match="reading"):
        grid(10, "ball")
    with pytest.raises(InputError, match="points"):
        grid(1)
