"""Where the simulation kernel meets the predictors compiled into it: integer codes, direct calls.

Code 0 is a table filled beforehand (nothing to do), code -1 a predictor outside the kernel (the loop stops and asks). All others keep what they
know in a :class:`~models.runtime.memory.Memory`. ``jobs`` are the kernel's columns, int64 [jobs], ``job`` a row of them and ``start`` the starts so far;
times count from the first submission. A predictor looks at nothing that lies ahead: rows behind ``job``, the runtime of a job before it has ended.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from models.runtime import hierarchy, job_features, knn, last2, lightgbm, nag, okcm, quantile, sp, svr
from models.runtime.hierarchy import HIERARCHY
from models.runtime.knn import KNN
from models.runtime.last2 import LAST2
from models.runtime.lightgbm import BOOSTED
from models.runtime.nag import NAG
from models.runtime.okcm import OKCM
from models.runtime.quantile import QUANTILE
from models.runtime.sp import SURVIVAL
from models.runtime.svr import SUPPORT_VECTORS

TABLE = 0
OUTSIDE = -1


@kernel
def estimate(code, memory, job, jobs, start):
    """Seconds predicted for ``job``, which is submitted now, as a whole number that need not lie in 1..request."""
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
    if code == BOOSTED:
        return lightgbm.estimate(memory, job, jobs)
    if code == SUPPORT_VECTORS:
        return svr.estimate(memory, job, jobs)
    if code == QUANTILE:
        return quantile.estimate(memory, job, jobs)
    return 1.0 * jobs.requested[job]


@kernel
def answers_apart(code):
    """Whether the predictor has different answers to the three questions; ``estimate`` is then the one to ``ORDER``."""
    return code == QUANTILE


@apart
def answer_to(code, memory, question, job):
    """The answer to ``FIT`` or ``END`` for a job just estimated."""
    return quantile.answer_to(memory, question, job)


@kernel
def estimate_again(code, memory, job, jobs, said, elapsed):
    """Seconds predicted in all for a job that has run ``elapsed`` of them and runs on; ``said`` is what was predicted at its submission.

    A predictor that knows more than one number of a job answers for what lies beyond ``elapsed``. A point predictor says what it would say by now of
    the job as it was submitted; where that is no longer than ``elapsed``, what it ``said``; where that is outlived too, the request.
    """
    if code == HIERARCHY:
        return hierarchy.estimate(memory, memory.row[job], jobs.requested[job], elapsed)
    if code == SURVIVAL:
        return sp.estimate(memory, memory.row[job], jobs.requested[job], elapsed)
    if code == QUANTILE:
        return quantile.estimate_again(memory, job, jobs.requested[job], elapsed)
    seconds = point_by_now(code, memory, job, jobs)
    if seconds <= elapsed and np.isfinite(seconds):
        return 1.0 * said if said > elapsed else 1.0 * jobs.requested[job]
    return seconds


@kernel
def point_by_now(code, memory, job, jobs):
    """Seconds that a point predictor, as it is now, predicts for ``job`` as it was at its submission."""
    if code == LAST2:
        return last2.estimate(memory, jobs.user[job], jobs.requested[job])
    if code == NAG:
        return nag.answer(memory, job)
    if code == KNN:
        return knn.estimate(memory, job, jobs)
    if code == OKCM:
        return okcm.answer(memory, job, jobs)
    if code == BOOSTED:
        return lightgbm.answer(memory, job, jobs)
    if code == SUPPORT_VECTORS:
        return svr.answer(memory, job, jobs)
    return 1.0 * jobs.requested[job]


@kernel
def wants_starts(code):
    """Whether the predictor is told of starts."""
    return code == NAG


@kernel
def started(code, memory, job, jobs):
    """``job`` was started. Starts are told in their order, at the latest before the next estimate at a submission or the next end."""
    if code == NAG:
        nag.started(memory, job, jobs)


@kernel
def learn(code, memory, job, jobs, now):
    """``job`` has ended now: its runtime may be used."""
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
    if code in (BOOSTED, SUPPORT_VECTORS):
        job_features.remember(memory, job, jobs.runtime[job], now)
    if code == QUANTILE:
        quantile.learn(memory, job, jobs, now)
