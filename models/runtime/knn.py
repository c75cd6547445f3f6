"""k nearest neighbours: the median runtime of the user's most similar ended jobs.

OKCM's part for users with few jobs (Li, Zhang et al., "OKCM: improving job scheduling of high-performance computing
using efficiency runtime prediction model", algorithm 1). Distance is the sum of squared differences in (nodes, request,
sine of the time of day), each divided by its standard deviation over the user's ended jobs and the new one; of equally
distant jobs the last submitted is nearer. A user's first job is predicted by its request, the second by the first's
runtime. Nodes are our processors.
"""

from __future__ import annotations

import math

import numpy as np

from features.clock import DAY_S
from features.deferred import pd
from features.jit import apart, kernel
from features.jobs.schema import known_users
from models.runtime.memory import Memory, wall_clock
from models.runtime.options import Option, read, spelled
from models.runtime.protocol import CompiledPredictor

KNN = 5
"""Code of this predictor inside the kernel."""
MOST = 1000
"""The max window, because a prediction reads all of it."""
OPTIONS = {"k": Option(1, minimum=1, maximum=MOST), "window": Option(25, minimum=1, maximum=MOST)}
"""Chosen by mean accuracy, min(p/r, r/p), on the first half of KTH-SP2 alone (14,240 jobs, EASY-SJBF, correction to the
request): 0.528; k = 2: 0.524, 5: 0.516, 15: 0.489. Tried: k to 25, windows of 5 to 400; the best, 15, has 0.532. 25 is
OKCM's."""
_RESOLUTION = 1e9
"""Sines and distances are compared in steps of one over this, so that values equal on paper are equal here: 03:00 and
09:00, or one deviation more processors and one deviation longer a request."""

ENDED, RING = 0, 1
"""Columns of a user's row: the number of ended jobs, and then the last ``window`` of them, the oldest overwritten
first."""
PROCS, REQUESTED, SINE, SUBMIT, RUNTIME, SLOT = range(6)
"""Columns of one such job, and their number."""
WINDOW, K, NEAREST = range(3)
"""Slots of ``Memory.model``: the options, and then scratch of three numbers per neighbour."""


def knn(**options: str) -> CompiledPredictor:
    """Return the predictor: ``k`` neighbours among the user's last ``window`` ended jobs.

    The window bounds a prediction's work. The paper gives no k and no window: it predicts users with more jobs
    differently (:mod:`models.runtime.okcm`).
    """
    window = read({option: text for option, text in options.items() if option != "k"}, OPTIONS)["window"]
    values = read(options, OPTIONS | {"k": Option(1, minimum=1, maximum=window)})
    return CompiledPredictor(spelled("knn", values, OPTIONS), KNN, lambda jobs: _memory(jobs, **values))


def columns(window: int) -> int:
    """Return the number of columns of a user's row."""
    return RING + SLOT * window


def _memory(jobs: pd.DataFrame, k: int, window: int) -> Memory:
    model = np.zeros(NEAREST + 3 * k)
    model[WINDOW], model[K] = window, k
    return Memory(np.zeros((known_users(jobs), columns(window))), model=model)


@kernel
def estimate(memory, job, jobs):
    """Predict seconds for ``job`` as at its submission, from what is known now."""
    model = memory.model
    if jobs.user[job] < 0:
        return 1.0 * jobs.requested[job]
    sine = sine_of_day(wall_clock(memory, jobs.submit[job]))
    return median_of_nearest(
        memory.users[jobs.user[job]], np.int64(model[WINDOW]), np.int64(model[K]), model[NEAREST:], job, jobs, sine
    )


@kernel
def learn(memory, job, jobs):
    """Learn from ``job``, which has ended."""
    if jobs.user[job] >= 0:
        sine = sine_of_day(wall_clock(memory, jobs.submit[job]))
        remember(memory.users[jobs.user[job]], np.int64(memory.model[WINDOW]), job, jobs, sine)


@kernel
def sine_of_day(second):
    """Return the sine of the time of day, in whole steps of ``1 / _RESOLUTION``."""
    return np.rint(_RESOLUTION * math.sin(2.0 * math.pi * (second % DAY_S) / DAY_S))


@kernel
def remember(history, window, job, jobs, sine):
    """Store the ended ``job`` in its user's row; ``sine`` is its submission's time of day."""
    ended = np.int64(history[ENDED])
    at = RING + SLOT * (ended % window)
    history[at + PROCS] = jobs.procs[job]
    history[at + REQUESTED] = jobs.requested[job]
    history[at + SINE] = sine
    history[at + SUBMIT] = jobs.submit[job]
    history[at + RUNTIME] = jobs.runtime[job]
    history[ENDED] = ended + 1


@kernel
def inverse_variance(history, count, column, own):
    """Return one over the sample variance of a column, or 0 if all values are equal.

    The values are those of ``count`` ended jobs and the new job's ``own`` value.
    """
    total = own
    for i in range(count):
        total += history[RING + SLOT * i + column]
    mean = total / (count + 1)
    squares = (own - mean) * (own - mean)
    for i in range(count):
        away = history[RING + SLOT * i + column] - mean
        squares += away * away
    return count / squares if squares > 0.0 else 0.0


@apart
def median_of_nearest(history, window, k, nearest, job, jobs, sine):
    """Return the median runtime, in whole seconds, of the ``k`` ended jobs nearest to ``job``.

    Of fewer jobs if fewer have ended; the request if none has. ``history`` is the row of the user, ``nearest`` float64
    [3 k] scratch: distance, submission and runtime of each neighbour so far; ``sine`` is :func:`sine_of_day` of the
    job's submission.
    """
    ended = np.int64(history[ENDED])
    if ended == 0:
        return 1.0 * jobs.requested[job]
    count = min(ended, window)
    procs, requested = 1.0 * jobs.procs[job], 1.0 * jobs.requested[job]
    by_procs = inverse_variance(history, count, PROCS, procs)
    by_requested = inverse_variance(history, count, REQUESTED, requested)
    by_sine = inverse_variance(history, count, SINE, sine)
    neighbours = np.int64(0)
    for i in range(count):
        slot = RING + SLOT * ((ended - 1 - i) % window)  # the job that ended last comes first
        wider, longer, later = history[slot + PROCS] - procs, history[slot + REQUESTED] - requested, history[slot + SINE] - sine
        exact = wider * wider * by_procs + longer * longer * by_requested + later * later * by_sine
        distance, submit = np.rint(_RESOLUTION * exact), history[slot + SUBMIT]
        at = neighbours
        while at > 0 and (distance < nearest[3 * at - 3] or (distance == nearest[3 * at - 3] and submit > nearest[3 * at - 2])):
            at -= 1
        if at == k:
            continue
        neighbours = min(neighbours + 1, k)
        for behind in range(3 * neighbours - 1, 3 * at + 2, -1):
            nearest[behind] = nearest[behind - 3]
        nearest[3 * at] = distance
        nearest[3 * at + 1] = submit
        nearest[3 * at + 2] = history[slot + RUNTIME]
    return median(nearest, neighbours)


@kernel
def median(nearest, count):
    """Return the median runtime, in whole seconds, of ``count`` neighbours; sorts runtimes."""
    for i in range(count):
        runtime = nearest[3 * i + 2]
        at = i
        while at > 0 and nearest[3 * at - 1] > runtime:
            nearest[3 * at + 2] = nearest[3 * at - 1]
            at -= 1
        nearest[3 * at + 2] = runtime
    middle = count // 2
    upper = nearest[3 * middle + 2]
    if count % 2 == 1:
        return upper
    return np.rint(0.5 * (nearest[3 * middle - 1] + upper))
