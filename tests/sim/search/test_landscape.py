"""Landscapes say of each direction what sweeping over it says."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sim.campaigns.maps import serial
from sim.campaigns.sweep import sweep
from sim.search.directions import grid
from sim.search.landscape import landscape
from tests.support.workloads import crowd

LOAD = crowd(np.random.default_rng(3), size=60, machine=16)


def test_every_direction_has_the_metrics_of_a_sweep_over_the_grid() -> None:
    directions = grid(12)
    made = landscape(LOAD.table(), procs=LOAD.machine, directions=directions, taus_s=(10, 60))
    swept = sweep(LOAD.table(), directions.whole, procs=LOAD.machine, tau_s=(10, 60), map_pieces=serial)
    metrics = made.schedules.drop(columns=["n", "r", "wait"]).iloc[made.found.region].reset_index(drop=True)
    pd.testing.assert_frame_equal(metrics, swept)
