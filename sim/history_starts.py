"""When jobs started, as far as a predictor's history is concerned: as recorded, or as a simulation puts it where waits were not recorded."""

from __future__ import annotations

import numpy as np
import pandas as pd

from features.jobs.schema import start_s
from sim.simulate import simulate

RECORDED = "recorded"
SIMULATED = "simulated: EASY with requested times"


def history_starts(jobs: pd.DataFrame, procs: int) -> tuple[np.ndarray, str]:
    """Start times, int64 [jobs] in seconds from the trace's origin, and where they come from: ``RECORDED`` or ``SIMULATED``.

    Taking a job to start at its submission would let predictors learn of its end before it could have ended.
    """
    recorded = start_s(jobs)
    if recorded is not None:
        return recorded, RECORDED
    return simulate(jobs, procs=procs, scheduler="EASY").jobs["start_s"].to_numpy(np.int64), SIMULATED
