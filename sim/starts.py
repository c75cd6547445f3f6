"""When jobs started, as far as a predictor's history is concerned: as recorded, or as a simulation puts it where waits were not recorded."""

from __future__ import annotations

import numpy as np
import pandas as pd

from features.schema import start_s
from sim.schedule import Schedule
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


def foreknown_jobs(jobs: pd.DataFrame, start_s: np.ndarray, schedule: Schedule) -> int:
    """How many jobs had a history, going by ``start_s``, that knew of an end which had not yet happened in ``schedule``.

    A prediction made from one schedule's history and used in another can know too much there; this says for how many jobs it may have.
    """
    user = jobs["user"].cat.codes.to_numpy(np.int64)
    submit = jobs["submit_s"].to_numpy(np.int64)
    known = start_s + jobs["runtime_s"].to_numpy(np.int64)
    happened = np.maximum(known, schedule.jobs["end_s"].to_numpy(np.int64))
    span = int(happened.max()) + 1  # users one after the other on one axis

    def ended_by_submission(end: np.ndarray) -> np.ndarray:
        return np.searchsorted(np.sort(user * span + end), user * span + submit, side="right")

    return int(((ended_by_submission(known) > ended_by_submission(happened)) & (user >= 0)).sum())
