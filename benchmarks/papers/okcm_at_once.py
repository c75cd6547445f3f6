"""Predict as if every runtime were known before the next submission.

No system can: a job's runtime is known when it ends. But published accuracies may have been measured so, job by job in order of
submission; the cost of the delay is the difference to a simulation. Nothing is scheduled here; the predictors are those of the
simulator.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd

from features.clock import Clock
from features.jit import njit
from models.runtime.dispatch import estimate, learn, started, wants_starts
from models.runtime.protocol import ORDER, CompiledPredictor, OnlinePredictor, Predictor
from sim.inputs.estimates import as_estimates, as_predictor, told_quantiles, whole_seconds
from sim.inputs.prepare import prepare
from sim.kernel.state import Jobs
from sim.outcome import TRACE_SECONDS
from sim.schedule import Schedule, schedule_table

AT_ONCE = "at-once"
"""The scheduler's name of such a Schedule, in which every job starts at its submission."""


def predict_at_once(
    jobs: pd.DataFrame,
    *,
    procs: int,
    predictor: str | Predictor = "requested",
    clock: Clock = TRACE_SECONDS,
    trace: str = "",
    generated: bool = False,
) -> Schedule:
    """Predict each job of ``jobs`` at its submission, by the runtimes of all earlier jobs.

    Arguments and errors are those of :func:`sim.simulate`. A predictor retrained each midnight learns from the jobs submitted by
    then.
    """
    jobs, arrays, origin, procs = prepare(jobs, procs)[:4]
    source = as_predictor(predictor)
    estimates, clamped, code, memory = as_estimates(source, jobs, arrays, clock)
    began, retraining = time.perf_counter(), 0.0
    predicted = estimates.order
    if isinstance(source, CompiledPredictor):
        answers, start = np.zeros(len(jobs)), np.full(len(jobs), -1)
        first = 0
        while first < len(jobs):
            last = len(jobs)
            if source.retrain is not None:
                midnight = clock.next_midnight(int(arrays.submit[first]) + origin) - origin
                last = int(np.searchsorted(arrays.submit, midnight))
            walk(code, memory, arrays, start, first, last, answers)
            first = last
            if source.retrain is not None and last < len(jobs):
                stopped = time.perf_counter()
                memory = source.retrain(memory, np.arange(last), arrays.runtime)
                retraining += time.perf_counter() - stopped
        predicted, clamped = whole_seconds(answers, arrays.requested, source.name, jobs)
    elif isinstance(source, OnlinePredictor):
        answers = _asked(source, jobs, arrays, origin)
        predicted, clamped = whole_seconds(answers, arrays.requested, source.name, jobs)
    seconds = time.perf_counter() - began
    return Schedule(
        jobs=schedule_table(jobs, arrays.submit + origin, predicted),
        procs=procs,
        trace=trace,
        scheduler=AT_ONCE,
        predictor=source.name,
        correction="",
        semantics="",
        generated=generated,
        clamped_predictions=clamped,
        simulate_s=seconds,
        retrain_s=retraining,
        quantiles=told_quantiles(source, memory, jobs),
    )


@njit
def walk(code, memory, jobs, start, first, last, answers):
    """Estimate the jobs ``first`` to ``last`` in order; each is learned before the next."""
    for job in range(first, last):
        answers[job] = estimate(code, memory, job, jobs, start)
        start[job] = jobs.submit[job]
        if wants_starts(code):
            started(code, memory, job, jobs)
        learn(code, memory, job, jobs, jobs.submit[job])


def _asked(source: OnlinePredictor, jobs: pd.DataFrame, arrays: Jobs, origin: int) -> np.ndarray:
    """Return the answers of a Python predictor that sees each job end before the next."""
    source.begin(jobs)
    answers = np.zeros(len(jobs))
    for job, submit in enumerate((arrays.submit + origin).tolist()):
        source.submitted(job, submit)
        answers[job] = source.estimate(ORDER, job, submit, 0)
        source.started(job, submit)
        source.ended(job, submit)
    return answers
