"""Cost of a predictor inside a simulation.

It is the time of a run with the predictor, less that of a run that reads the same predictions from a table. Both make the same
schedule, so the difference is the predictor: an estimate for each submission and an update for each end.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.clock import Clock
from models.runtime.names import predictor as named_predictor
from models.runtime.protocol import Predictor, TablePredictor
from sim.kernel.scratch import Scratch
from sim.outcome import TRACE_SECONDS
from sim.predictions.names import REPEATS
from sim.schedule import Schedule
from sim.simulation import simulate_policy

ENOUGH_S = 10.0
"""Runs are not repeated once a predictor's runs have taken this many seconds in total."""


@dataclass(frozen=True)
class Cost:
    """Microseconds per job for prediction and update, the median of ``repeats`` pairs of runs.

    With the share of nightly retraining. The set-up for a trace, before the first job, is excluded.
    """

    microseconds: float
    retraining_share: float
    repeats: int


def prediction_cost(
    jobs: pd.DataFrame, schedule: Schedule, source: str | Predictor, repeats: int = REPEATS, clock: Clock = TRACE_SECONDS
) -> Cost | None:
    """Return the cost of ``source``, which made ``schedule`` of ``jobs``.

    None for a table, and without ``repeats``. ``clock`` is that of the schedule.
    """
    beforehand = isinstance(named_predictor(source) if isinstance(source, str) else source, TablePredictor)
    if beforehand or repeats < 1:
        return None
    policy, scratch = schedule.policy._replace(predictor=source, seed=0, shake_s=0), Scratch()
    seconds = schedule.jobs["predicted_s"].to_numpy(np.float64)
    table = TablePredictor(schedule.predictor, lambda jobs: seconds, capped=False)
    added: list[float] = []
    shares: list[float] = []
    run, spent = schedule, 0.0
    while len(added) < repeats and spent < ENOUGH_S:
        if added:
            run = simulate_policy(jobs, policy, procs=schedule.procs, clock=clock, scratch=scratch)
        read = simulate_policy(jobs, policy._replace(predictor=table), procs=schedule.procs, scratch=scratch)
        added.append(run.simulate_s - read.simulate_s)
        shares.append(run.retrain_s / max(added[-1], run.retrain_s, 1e-9))
        spent += run.simulate_s
    return Cost(1e6 * statistics.median(added) / len(jobs), statistics.median(shares), len(added))
