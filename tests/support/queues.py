"""A log whose waits are those of EASY, for the tests of starts."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.frames import jobs_from
from features.jobs.schema import Trace
from sim import simulate
from sim.closings import Closed

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
