"""Job starts for a predictor's history: as recorded, or simulated where waits are missing."""

from __future__ import annotations

import numpy as np
import pandas as pd

from features.jobs.schema import start_s
from sim.simulation import simulate

RECORDED = "recorded"
SIMULATED = "simulated: EASY with requested times"


def history_starts(jobs: pd.DataFrame, procs: int) -> tuple[np.ndarray, str]:
    """Return start times, int64 [jobs] in trace seconds, and where they come from.

    That is ``RECORDED``, ``SIMULATED``, or a sentence where only some waits are missing: these jobs start as under EASY.

    If a job were taken to start at its submission, predictors would learn of its end before it could have ended.
    """
    recorded = start_s(jobs)
    if recorded is not None:
        return recorded, RECORDED
    simulated = simulate(jobs, procs=procs, scheduler="EASY").jobs["start_s"].to_numpy(np.int64)
    missing = jobs["wait_s"].isna().to_numpy()
    if missing.all():
        return simulated, SIMULATED
    start = jobs["submit_s"].to_numpy(np.int64) + jobs["wait_s"].to_numpy(np.int64, na_value=0)
    return np.where(missing, simulated, start), f"{RECORDED}, {missing.sum():,} without a wait {SIMULATED}"
