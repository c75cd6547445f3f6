"""Landscapes say of each direction what sweeping over it says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sim.campaigns.sweep import sweep
from sim.search.directions import Directions, grid
from sim.search.landscape import faces, landscape
from tests.support.workloads import crowd

LOAD = crowd(np.random.default_rng(3), size=60, machine=16)
SLOWDOWN = "mean_bounded_slowdown_60"


def test_the_table_is_that_of_a_sweep_over_the_grid() -> None:
    directions = grid(12)
    made = landscape(LOAD.table(), procs=LOAD.machine, directions=directions, taus_s=(10, 60))
    swept = sweep(LOAD.table(), directions.whole, procs=LOAD.machine, tau_s=(10, 60), workers=1)
    table = made.table()
    pd.testing.assert_frame_equal(table.drop(columns=["n", "r", "wait"]), swept)
    np.testing.assert_array_equal(table[["n", "r", "wait"]], directions.weights)
    best = made.best(SLOWDOWN)
    assert best[SLOWDOWN] == swept[SLOWDOWN].min()
    assert best["directions"] == (swept[SLOWDOWN] == swept[SLOWDOWN].min()).sum()
    at = (directions.weights == best[["n", "r", "wait"]].to_numpy()).all(axis=1)
    assert swept[SLOWDOWN][at].item() == best[SLOWDOWN]


def test_faces_show_each_direction_in_its_pixel() -> None:
    directions = grid(12, pure=False)
    table = landscape(LOAD.table(), procs=LOAD.machine, directions=directions).table()
    below, above = faces(table, "mean_wait_s", pixels=12)
    line = np.linspace(-1, 1, 12)
    inside = np.abs(line[:, None]) + np.abs(line) <= 1
    for image, face in ((above, table[: len(table) // 2]), (below, table[len(table) // 2 :])):
        np.testing.assert_array_equal(np.isfinite(image), inside)
        np.testing.assert_array_equal(image[inside], face["mean_wait_s"])
    assert (above[inside] != below[inside]).any()


def test_a_pixel_of_several_directions_shows_their_mean() -> None:
    directions = Directions(np.array([[1, 8, 1], [1, 9, 1], [-1, 8, 1]]))
    table = pd.DataFrame(directions.weights, columns=["n", "r", "wait"]).assign(value=[1.0, 2.0, 5.0])
    below, above = faces(table, "value", pixels=3)
    assert np.nansum(above) == pytest.approx(1.5)
    assert np.nansum(below) == 5.0
