"""``svr``: support vector regression of log runtime, retrained each simulated night.

Drucker et al. 1997; one of the two learners that the OKCM paper (Li, Zhang et al.) compares with. The kernel is Gaussian on the
standardised features of :mod:`features.jobs.like_jobs`. It learns the logarithm of a job's runtime over that of the last
similar job; the latter alone is the prediction while fewer than ``ENOUGH`` jobs have ended.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from features.jit import apart
from features.jobs.like_jobs import ALIKE, COMMON, features
from models.runtime.job_features import ASKED_OF, KEPT, SAID, describe, fresh_memory
from models.runtime.memory import Memory, width
from models.runtime.options import check_known, nights, number, shortest, spelled, whole
from models.runtime.protocol import CompiledPredictor

SUPPORT_VECTORS = 8
"""Code of this predictor inside the kernel."""
USUAL = {"c": "0.1", "epsilon": "0.02", "gamma": "0.01", "jobs": "1000", "every": "1"}
"""The price of an error, the error of the logarithm without cost, gamma in the kernel exp(-gamma d^2), the most recent ended
jobs to learn from, and the midnights of which one brings a new model. Chosen by mean accuracy on the first half of KTH-SP2 among
eleven points: flat nearby (0.542 to 0.544), but c = 1 has 0.52 and c = 10 0.49; 2,000 jobs cost three times as much and gain
0.002."""
ENOUGH = 200
"""Min ended jobs for training."""
VECTORS, GAMMA, BIAS, MODELS, HEAD = range(5)
"""Slots of ``Memory.model``: number of support vectors, the kernel's gamma, the constant, and the number of models so far, one
more each night. Then come the mean of each feature and one over its deviation, scratch for one job, and, for each support
vector, its weight and its standardised features."""


def support_vectors(**options: str) -> CompiledPredictor:
    """Return the predictor; the options are those of ``USUAL``, all positive."""
    for option in options:
        check_known(option, tuple(USUAL))
    given = USUAL | options
    c, epsilon, gamma = (number(f"{name}={given[name]}", given[name], above=0.0) for name in ("c", "epsilon", "gamma"))
    learned = whole(f"jobs={given['jobs']}", given["jobs"], minimum=ENOUGH, maximum=100_000)
    every = nights(given["every"])
    given |= {"every": str(every), "c": shortest(c), "epsilon": shortest(epsilon), "gamma": shortest(gamma), "jobs": str(learned)}

    def memory(jobs: pd.DataFrame) -> Memory:
        model = np.zeros(HEAD)
        model[MODELS] = 1.0
        return fresh_memory(jobs, KEPT, model)

    def retrain(memory: Memory, ended: np.ndarray, runtime: np.ndarray) -> Memory:
        rows = ended[-learned:]
        return memory if len(rows) < ENOUGH else _trained(memory, rows, runtime, c, epsilon, gamma)

    return CompiledPredictor(spelled("svr", given, USUAL), SUPPORT_VECTORS, memory, retrain, every=every)


def _trained(memory: Memory, rows: np.ndarray, runtime: np.ndarray, c: float, epsilon: float, gamma: float) -> Memory:
    """Return ``memory`` with the support vectors of the jobs ``rows``, which have ended."""
    from sklearn.svm import SVR

    wide = features(memory.keys.shape[1])
    inputs = memory.jobs[rows, :wide]
    mean, spread = inputs.mean(axis=0), inputs.std(axis=0)
    spread[spread == 0.0] = 1.0
    guess = inputs[:, wide - COMMON + ALIKE]
    machine = SVR(C=c, epsilon=epsilon, gamma=gamma, cache_size=100).fit((inputs - mean) / spread, np.log(runtime[rows]) - guess)
    head = np.zeros(HEAD)
    head[MODELS] = memory.model[MODELS] + 1.0
    head[VECTORS], head[GAMMA], head[BIAS] = len(machine.support_), gamma, machine.intercept_[0]
    vectors = np.column_stack([machine.dual_coef_[0], machine.support_vectors_]).ravel()
    return memory._replace(model=np.concatenate([head, mean, 1.0 / spread, np.zeros(len(mean)), vectors]))


@apart
def estimate(memory, job, jobs):
    """Predict seconds in 1..request for ``job``, just submitted."""
    describe(memory, job, jobs)
    return answer(memory, job, jobs)


@apart
def answer(memory, job, jobs):
    """Predict seconds for ``job`` as at its submission by the current machine.

    The answer is kept until the next night's machine.
    """
    model, x, wide = memory.model, memory.jobs[job], width(memory)
    if x[wide + ASKED_OF] == model[MODELS]:
        return x[wide + SAID]
    seconds = x[wide - COMMON + ALIKE]
    vectors = np.int64(model[VECTORS])
    if vectors > 0:
        scaled = HEAD + 2 * wide
        for i in range(wide):
            model[scaled + i] = (x[i] - model[HEAD + i]) * model[HEAD + wide + i]
        seconds += model[BIAS]
        at = scaled + wide
        for _ in range(vectors):
            distance = 0.0
            for i in range(wide):
                apart_by = model[scaled + i] - model[at + 1 + i]
                distance += apart_by * apart_by
            seconds += model[at] * math.exp(-model[GAMMA] * distance)
            at += 1 + wide
    x[wide + ASKED_OF] = model[MODELS]
    x[wide + SAID] = np.rint(min(max(math.exp(min(seconds, 50.0)), 1.0), 1.0 * jobs.requested[job]))
    return x[wide + SAID]
