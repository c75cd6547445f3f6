"""Predictions for the jobs of a record at their submissions, learned along the record.

As in a simulation, the predictor learns from each job when it has ended, and one that is trained at each midnight.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from features.clock import Clock
from features.jobs.schema import conform
from models.runtime.dispatch import estimate, learn
from models.runtime.memory import Memory
from models.runtime.protocol import CompiledPredictor
from models.runtime.quantile import quantile
from sim.inputs.estimates import as_estimates, whole_seconds
from sim.inputs.prepare import kernel_columns

_END, _SUBMIT = 0, 1


def predicted_quantile(jobs: pd.DataFrame, level: float, seed: int = 0) -> np.ndarray:
    """Return a quantile of each job's runtime as predicted at its submission.

    Seconds, int64 [jobs], in 1..limit; the limit until the predictor has learned. ``jobs`` in order of submission have
    ``start_s end_s`` beside the columns of a replay.
    """
    at = f"{level:g}"
    source = quantile(order=at, fit=at, end=at, seed=str(seed))
    table = as_table(jobs)
    return whole_seconds(
        along(source, table, jobs["end_s"].to_numpy(np.int64), Clock(0)),
        table["requested_s"].to_numpy(np.int64),
        source.name,
        table,
    )[0]


def as_table(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs of a site as a canonical table with Unix times."""
    people = {"user": jobs["user"], "group": jobs["account"], "partition": jobs["partition"], "queue": jobs["qos"]}
    numbers = {"runtime_s": jobs["runtime_s"].clip(lower=1), "procs": jobs["cpus"], "requested_s": jobs["limit_s"]}
    table = conform({"job_id": np.arange(len(jobs)), "submit_s": jobs["submit_s"], **numbers, **people}, len(jobs))
    return table.astype(dict.fromkeys(("job_id", "submit_s", *numbers), np.int64))


def told_along(table: pd.DataFrame, end_s: np.ndarray, clock: Clock, seed: int = 0) -> pd.DataFrame:
    """Return the distributions of runtimes that ``quantile`` predicts at submission.

    Seconds, a row a job, a column a level; arguments are those of :func:`along`.
    """
    source = quantile(seed=str(seed))
    assert source.distribution is not None
    return source.distribution(_walked(source, table, end_s, clock)[1])


def along(source: CompiledPredictor, table: pd.DataFrame, end_s: np.ndarray, clock: Clock) -> np.ndarray:
    """Return what a learning predictor predicts for each job of a canonical table.

    Seconds, float64 [jobs]. ``end_s`` int64 [jobs] are recorded ends, before the submission for none. In a second, ends
    precede submissions.
    """
    return _walked(source, table, end_s, clock)[0]


def _walked(source: CompiledPredictor, table: pd.DataFrame, end_s: np.ndarray, clock: Clock) -> tuple[np.ndarray, Memory]:
    """Return the answers, and the predictor's memory after the last event."""
    submit = table["submit_s"].to_numpy(np.int64)
    origin = int(submit[0])
    arrays = kernel_columns(table)._replace(submit=submit - origin)
    memory, answers = as_estimates(source, table, arrays, clock).memory, np.empty(len(table))
    start, ended, midnight = np.zeros(len(table), np.int64), list[int](), clock.next_midnight(origin) - origin
    events = [(int(second) - origin, _SUBMIT, row) for row, second in enumerate(submit)]
    events += [(int(end_s[row]) - origin, _END, int(row)) for row in np.flatnonzero(end_s >= submit)]
    for now, kind, row in sorted(events):
        if now >= midnight:
            memory = source.retrain(memory, np.array(ended, np.int64), arrays.runtime) if source.retrain is not None else memory
            midnight = clock.next_midnight(now + origin) - origin
        if kind == _SUBMIT:
            answers[row] = estimate(source.code, memory, row, arrays, start)
        else:
            learn(source.code, memory, row, arrays, now)
            ended.append(row)
    return answers, memory
