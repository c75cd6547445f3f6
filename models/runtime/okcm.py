"""OKCM: online linear regression for users with many ended jobs, else nearest neighbours.

Li, Zhang et al., "OKCM: improving job scheduling of high-performance computing using efficiency runtime prediction
model": the 15 features of its table 1, Huber loss with l2 regularisation (equation 2), normalised adaptive gradient
(equations 3 to 5); for other users :mod:`models.runtime.knn`. Its correction is to the request. Table 1 does not cover
users without history: here their last runtimes and the means of runtimes are the request, means of processors the job's
own, and sums and intervals 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from features.clock import DAY_S, WEEK_S, second_of_week
from features.deferred import pd
from features.jit import apart, kernel
from features.jobs.schema import known_users
from models.runtime import knn
from models.runtime.memory import Memory, wall_clock
from models.runtime.options import Option, read, spelled
from models.runtime.protocol import CompiledPredictor

OKCM = 6
"""Code of this predictor inside the kernel."""
OPTIONS = {
    "delta": Option(300_000.0, above=0.0),
    "eta": Option(5000.0, above=0.0),
    "lambda": Option(300_000.0, minimum=0.0),
    "k": Option(1, minimum=1, maximum=knn.MOST),
    "switch": Option(25, minimum=0, maximum=knn.MOST),
    "weights": Option("user", words=("user", "shared")),
    "base": Option("zero", words=("zero", "last")),
}
"""Chosen by mean accuracy, min(p/r, r/p), on the first half of KTH-SP2 alone (14,240 jobs, EASY-SJBF, correction to the
request), except the paper's ``switch``. Of 6,864 points of delta, eta, lambda, weights with k = 1, then k to 25, these
have 0.478. Flat: shared weights 0.476 (delta=10, eta=10000, lambda=10), k = 3 0.475; so large a delta makes most losses
quadratic. Switch 10: 0.465, 100: 0.496, 400: 0.508, so the regression is the worse part; 25 is published."""


def okcm(**options: str) -> CompiledPredictor:
    """Return the predictor.

    ``delta``: the error in seconds from which the loss is linear; ``eta``: the learning rate; ``lambda``: the strength
    of l2 regularisation; ``k`` neighbours; regression for users with more than ``switch`` ended jobs; ``weights``: of
    each ``user``, or ``shared`` by all; ``base`` of the weighted sum of features: ``zero``, as published, or the user's
    ``last`` runtime.
    """
    values = read(options, OPTIONS)
    return CompiledPredictor(spelled("okcm", values, OPTIONS), OKCM, lambda jobs: _memory(values, jobs))


FEATURES = 15
PROCS, REQUESTED, LAST, SECOND, LAST2, THIRD, LAST3, SUM, MEAN, MEAN_PROCS, MEAN_ALLOCATED, RATIO, WEEK, DAY, BREAK = range(
    FEATURES
)
"""x0 to x14, columns of ``Memory.jobs``."""
_THURSDAY_S = int(second_of_week(np.zeros(1, np.int64))[0])
"""Second of the week of the clock's second 0: weeks begin on Monday."""

SUMS = 7
(SUM_RUNTIME, SUM_PROCS, SUM_ALLOCATED, LAST_END, RUNTIME) = range(5)
"""Columns of a user behind those of knn: sums over ended jobs, the last end, the last three runtimes, latest first."""
STEPS, NORM, W = SUMS, SUMS + 1, SUMS + 2
S, G = W + FEATURES, W + 2 * FEATURES
COLUMNS = W + 3 * FEATURES
"""Columns of the learner behind these: examples so far t, the sum N of normalised squares, the weights w, the largest
magnitudes s, the sums G of squared gradients. The shared learner has the row behind the users'."""
_TINY = 1e-9
"""Start value of N, s and G, as in the program of Gaussier et al. 2015."""
(WINDOW, K, SWITCH, OWN, DELTA, ETA, LAMBDA, BEHIND, FROM_LAST, NEAREST) = range(10)
"""Slots of ``Memory.model``: settings, the end of knn's columns, whether sums are added to the last runtime, scratch of
knn."""


def _memory(values: dict[str, Any], jobs: pd.DataFrame) -> Memory:
    window = max(values["switch"], 1)
    behind = knn.columns(window)
    users = np.zeros((known_users(jobs) + 1, behind + COLUMNS))
    users[:, behind + NORM] = users[:, behind + S :] = _TINY
    model = np.zeros(NEAREST + 3 * values["k"])
    model[WINDOW], model[K], model[SWITCH], model[OWN] = window, values["k"], values["switch"], values["weights"] == "user"
    model[DELTA], model[ETA], model[LAMBDA], model[BEHIND] = values["delta"], values["eta"], values["lambda"], behind
    model[FROM_LAST] = values["base"] == "last"
    allocated = jobs["allocated_procs"].fillna(jobs["procs"]).to_numpy(np.int64)
    return Memory(users, np.zeros((len(jobs), FEATURES)), model=model, keys=allocated[:, None])


@apart
def estimate(memory, job, jobs):
    """Predict seconds for ``job``, just submitted."""
    if jobs.user[job] >= 0:
        observe(memory.jobs[job], memory, job, jobs)
    return answer(memory, job, jobs)


@apart
def answer(memory, job, jobs):
    """Predict seconds for ``job`` as at its submission, from what is known now."""
    user, model = jobs.user[job], memory.model
    if user < 0:
        return 1.0 * jobs.requested[job]
    history = memory.users[user]
    if history[knn.ENDED] <= model[SWITCH] or history[knn.ENDED] == 0.0:
        window, k, sine = np.int64(model[WINDOW]), np.int64(model[K]), knn.sine_of_day(wall_clock(memory, jobs.submit[job]))
        return knn.median_of_nearest(history, window, k, model[NEAREST:], job, jobs, sine)
    learner = memory.users[row_of_learner(memory, user)][np.int64(model[BEHIND]) :]
    total = base_of(memory, job)
    for i in range(FEATURES):
        x, s = memory.jobs[job, i], learner[S + i]
        total += learner[W + i] * (s / max(s, abs(x))) * x
    return np.rint(total)


@apart
def learn(memory, job, jobs, now):
    """Take one regression step with the features and runtime of ``job``, which has ended.

    This includes jobs that were predicted by nearest neighbours.
    """
    user, model = jobs.user[job], memory.model
    if user < 0:
        return
    learner = memory.users[row_of_learner(memory, user)][np.int64(model[BEHIND]) :]
    step(learner, memory.jobs[job], jobs.runtime[job] - base_of(memory, job), model[DELTA], model[ETA], model[LAMBDA])
    history = memory.users[user]
    knn.remember(history, np.int64(model[WINDOW]), job, jobs, knn.sine_of_day(wall_clock(memory, jobs.submit[job])))
    past = history[np.int64(model[BEHIND]) :]
    past[SUM_RUNTIME] += jobs.runtime[job]
    past[SUM_PROCS] += jobs.procs[job]
    past[SUM_ALLOCATED] += memory.keys[memory.row[job], 0]
    past[LAST_END] = now
    past[RUNTIME + 2], past[RUNTIME + 1], past[RUNTIME] = past[RUNTIME + 1], past[RUNTIME], jobs.runtime[job]


@kernel
def row_of_learner(memory, user):
    """Return the row with the weights for this user's jobs."""
    return user if memory.model[OWN] != 0.0 else len(memory.users) - 1


@kernel
def base_of(memory, job):
    """Return the base of the weighted sum: the user's last runtime at the submission, or 0."""
    return memory.jobs[job, LAST] if memory.model[FROM_LAST] != 0.0 else 0.0


@kernel
def observe(x, memory, job, jobs):
    """Write x0 to x14 of ``job``, submitted now, to ``x`` [15]."""
    history = memory.users[jobs.user[job]]
    past = history[np.int64(memory.model[BEHIND]) :]
    ended = np.int64(history[knn.ENDED])
    procs, requested = 1.0 * jobs.procs[job], 1.0 * jobs.requested[job]
    x[PROCS], x[REQUESTED] = procs, requested
    x[LAST] = past[RUNTIME] if ended > 0 else requested
    x[SECOND] = past[RUNTIME + 1] if ended > 1 else requested
    x[THIRD] = past[RUNTIME + 2] if ended > 2 else requested
    x[LAST2] = 0.5 * (x[LAST] + x[SECOND]) if ended > 1 else x[LAST]
    x[LAST3] = (x[LAST] + x[SECOND] + x[THIRD]) / 3.0 if ended > 2 else x[LAST2]
    x[SUM] = past[SUM_RUNTIME]
    x[MEAN] = past[SUM_RUNTIME] / ended if ended > 0 else requested
    x[MEAN_PROCS] = past[SUM_PROCS] / ended if ended > 0 else procs
    x[MEAN_ALLOCATED] = past[SUM_ALLOCATED] / ended if ended > 0 else procs
    x[RATIO] = procs / x[MEAN_PROCS]
    second = wall_clock(memory, jobs.submit[job])
    x[WEEK] = math.sin(2.0 * math.pi * ((second + _THURSDAY_S) % WEEK_S) / WEEK_S)
    x[DAY] = math.sin(2.0 * math.pi * (second % DAY_S) / DAY_S)
    x[BREAK] = jobs.submit[job] - past[LAST_END] if ended > 0 else 0.0


@kernel
def step(learner, x, runtime, delta, eta, shrink):
    """Learn one example: features ``x`` [15] and ``runtime``, less the base."""
    norm, predicted = 0.0, 0.0
    for i in range(FEATURES):
        larger = max(learner[S + i], abs(x[i]))
        learner[W + i] *= learner[S + i] / larger
        learner[S + i] = larger
        norm += x[i] * x[i] / (larger * larger)
        predicted += learner[W + i] * x[i]
    learner[STEPS] += 1.0
    learner[NORM] += norm
    rate = eta * math.sqrt(learner[STEPS] / learner[NORM])
    slope = min(max(predicted - runtime, -delta), delta)
    for i in range(FEATURES):
        gradient = slope * x[i] + 2.0 * shrink * learner[W + i]
        learner[G + i] += gradient * gradient
        learner[W + i] -= rate * gradient / (learner[S + i] * math.sqrt(learner[G + i]))
