"""Dispatch from the simulation kernel to compiled predictors: integer codes, direct calls.

Code 0 is a table filled before the simulation (called only for jobs that outlive it). Code -1 is a predictor outside
the kernel: the loop stops and calls it. All others keep their state in a :class:`~models.runtime.memory.Memory`.
``jobs`` are the kernel's columns, int64 [jobs], ``job`` is a row of them and ``start`` the starts so far; times count
from the first submission. A predictor reads nothing of the future: no rows behind ``job``, no runtime of a job before
it has ended.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from models.runtime import hierarchy, job_features, knn, last2, lightgbm, nag, okcm, quantile, sp
from models.runtime.hierarchy import HIERARCHY
from models.runtime.knn import KNN
from models.runtime.last2 import LAST2
from models.runtime.lightgbm import LIGHTGBM
from models.runtime.nag import NAG
from models.runtime.okcm import OKCM
from models.runtime.quantile import QUANTILE
from models.runtime.sp import SURVIVAL

TABLE = 0
OUTSIDE = -1
ANSWERS_APART = (QUANTILE,)
"""Predictors with different answers to the three questions; ``estimate`` answers ``ORDER``."""


@kernel
def estimate(code, memory, job, jobs, start):
    """Predict seconds for ``job``, submitted now: a whole number, possibly outside 1..request."""
    if code == LAST2:
        return last2.estimate(memory, jobs.user[job], jobs.requested[job])
    if code == NAG:
        return nag.estimate(memory, job, jobs, start)
    if code == HIERARCHY:
        return hierarchy.estimate(memory, memory.row[job], jobs.requested[job], 0)
    if code == SURVIVAL:
        return sp.estimate(memory, memory.row[job], jobs.requested[job], 0)
    if code == KNN:
        return knn.estimate(memory, job, jobs)
    if code == OKCM:
        return okcm.estimate(memory, job, jobs)
    if code == LIGHTGBM:
        return lightgbm.estimate(memory, job, jobs)
    if code == QUANTILE:
        return quantile.estimate(memory, job, jobs)
    return 1.0 * jobs.requested[job]


@apart
def answer_to(code, memory, question, job):
    """Return the answer to ``FIT`` or ``END`` for a job just estimated."""
    return quantile.answer_to(memory, question, job)


@kernel
def estimate_again(code, memory, job, jobs, predicted, elapsed):
    """Predict total seconds for a job that has run ``elapsed`` seconds and still runs.

    ``predicted`` is the prediction at its submission. A predictor of distributions answers for runtimes beyond
    ``elapsed``. A table gives the next of its quantiles (``memory.keys``, whole seconds, one column per level) and,
    beyond them, the request. A point predictor gives its current prediction for the job as submitted; if that is not
    longer than ``elapsed``, ``predicted``; if ``predicted`` is outlived too, the request.
    """
    if code == TABLE:
        for level in range(memory.keys.shape[1]):
            if memory.keys[memory.row[job], level] > elapsed:
                return 1.0 * memory.keys[memory.row[job], level]
    if code == HIERARCHY:
        return hierarchy.estimate(memory, memory.row[job], jobs.requested[job], elapsed)
    if code == SURVIVAL:
        return sp.estimate(memory, memory.row[job], jobs.requested[job], elapsed)
    if code == QUANTILE:
        return quantile.estimate_again(memory, job, jobs.requested[job], elapsed)
    seconds = point_by_now(code, memory, job, jobs)
    if seconds <= elapsed and np.isfinite(seconds):
        return 1.0 * predicted if predicted > elapsed else 1.0 * jobs.requested[job]
    return seconds


@kernel
def tells_quantiles(code):
    """Tell whether the predictor has a distribution of each runtime."""
    return code in (QUANTILE, SURVIVAL)


@apart
def tell_quantiles(code, memory, job, jobs, quantiles, row):
    """Write quantiles of ``job``, submitted now and estimated, to ``quantiles[row]``.

    Whole seconds, int64 [levels], as in :mod:`models.runtime.distribution`; only for a predictor that has them.
    """
    if code == QUANTILE:
        quantile.tell_quantiles(memory, job, quantiles, row)
    if code == SURVIVAL:
        sp.tell_quantiles(memory, memory.row[job], jobs.requested[job], quantiles, row)


@kernel
def point_by_now(code, memory, job, jobs):
    """Return a point predictor's current prediction for ``job`` as submitted."""
    if code == LAST2:
        return last2.estimate(memory, jobs.user[job], jobs.requested[job])
    if code == NAG:
        return nag.answer(memory, job)
    if code == KNN:
        return knn.estimate(memory, job, jobs)
    if code == OKCM:
        return okcm.answer(memory, job, jobs)
    if code == LIGHTGBM:
        return lightgbm.answer(memory, job, jobs)
    return 1.0 * jobs.requested[job]


@kernel
def wants_starts(code):
    """Tell whether :func:`started` must be called for the predictor."""
    return code == NAG


@kernel
def started(code, memory, job, jobs):
    """Handle the start of ``job``.

    Starts are reported in order, at the latest before the next estimate at a submission or the next end.
    """
    if code == NAG:
        nag.started(memory, job, jobs)


@kernel
def learn(code, memory, job, jobs, now):
    """Learn from ``job``, which ends now: its runtime may be used."""
    if code == LAST2:
        last2.learn(memory, jobs.user[job], jobs.runtime[job])
    if code == NAG:
        nag.learn(memory, job, jobs, now)
    if code == HIERARCHY:
        hierarchy.learn(memory, memory.row[job], jobs.runtime[job])
    if code == SURVIVAL:
        sp.learn(memory, memory.row[job], jobs.runtime[job])
    if code == KNN:
        knn.learn(memory, job, jobs)
    if code == OKCM:
        okcm.learn(memory, job, jobs, now)
    if code == LIGHTGBM:
        job_features.remember(memory, job, jobs.runtime[job], now)
    if code == QUANTILE:
        quantile.learn(memory, job, jobs, now)
