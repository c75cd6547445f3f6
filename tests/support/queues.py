"""A log whose waits are those of EASY, for the tests of starts."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import Trace, jobs_from
from models.packed.queue_state import FEATURES, PLANS
from models.packed.start_distribution import EDGES_S, Calibration
from models.packed.start_predictor import HAZARD, STATE, StartModel
from models.starts.model import Growth, grow
from sim import simulate
from sim.starts.closings import Closed

PROCS = 32


@cache
def waited(jobs: int = 900, days: int = 40, seed: int = 5, pool: Closed | None = None) -> CleanTrace:
    """Return a trace of so many jobs that waited under EASY, or in a ``pool`` with closings.

    Its users repeat themselves.
    """
    draw = np.random.default_rng(seed)
    user, requested = draw.integers(0, 6, jobs), 1800 * 2 ** draw.integers(0, 6, jobs)
    table = jobs_from(
        pd.DataFrame(
            {
                "job_id": np.arange(1, jobs + 1),
                "submit_s": np.sort(draw.integers(0, days * DAY_S, jobs)),
                "procs": 2 ** draw.integers(0, 5, jobs),
                "requested_s": requested,
                "runtime_s": np.maximum(requested * (user + 1) / 8 * draw.uniform(0.5, 1.0, jobs), 1).astype(np.int64),
                "user": [f"user{number}" for number in user],
                "queue": np.where(requested > 7200, "long", "short"),
            }
        )
    )
    start = simulate(table, machine=pool, procs=None if pool else PROCS).jobs["start_s"].to_numpy(np.int64)
    table["wait_s"] = pd.array(start - table["submit_s"].to_numpy(np.int64), dtype="Int64")
    return clean(Trace("waited", table, PROCS, 1_700_000_000, "Europe/Stockholm"))


def start_model(at_s: int, procs: int, origin_unix_s: int, timezone: str) -> StartModel:
    """Return a model of made states, whose waits follow the width, the queue, what is ahead and predicted runtimes."""
    draw, names = np.random.default_rng(0), list(FEATURES)
    states = draw.uniform(0.0, 1.0, (3_000, len(FEATURES)))
    for name, most in (
        ("waiting", 400.0),
        ("ahead", 400.0),
        ("waiting_predicted", 9e3),
        ("running_predicted", 9e3),
        ("fits_predicted_s", 9e3),
    ):
        states[:, names.index(name)] *= most
    of_queue = (states[:, names.index("waiting")] + states[:, names.index("ahead")]) * states[:, names.index("width")]
    waits = np.floor((1.0 + of_queue + states[:, names.index("running_predicted")]) * draw.exponential(size=3_000))
    tree = grow(states, states[:, list(PLANS)], None, waits, np.zeros(3_000, bool), growth=Growth(trees=40))
    rising = np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.6, 1.0])
    calibration = Calibration(np.array([0.2, 0.1, 0.0, 0.3]), np.array([0.9, 1.0, 1.1, 0.8]), *rising)
    learned = {STATE: tree}, {STATE: calibration}, np.zeros((2, len(EDGES_S)))
    return StartModel(HAZARD, tuple(FEATURES), PLANS, *learned, at_s, at_s, procs, origin_unix_s, timezone)
