"""Features of jobs for learners retrained each night: past similar jobs, and the clock.

Similar jobs are grouped at several levels, from the most to the least similar: same user, executable, request and processors;
same user and request; ...; same group; same executable. The features of a level are the number of such jobs that have ended, the
last two of their runtimes, the quartiles of the last 16, and the time since the last end. They unite the inputs of Gaussier et
al. 2015, OKCM (Li & Zhang), Goponenko et al. 2022 and Lamar et al. 2021. The simulator keeps them up to date to the second.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.jit import kernel
from features.jobs.schema import alike
from models.runtime.memory import Memory, wall_clock

LEVELS = (
    ("user", "executable", "requested_s", "procs"),
    ("user", "requested_s"),
    ("user", "executable"),
    ("user",),
    ("requested_s", "procs"),
    ("group",),
    ("executable",),
)
"""Keys of each level, the most similar first. Columns that are empty throughout a trace are left out."""
PEOPLE = ("user", "group")
"""A job with one of these unknown is in no group that uses it; an unknown executable is a value of its own."""
RECENT = 16
"""Number of runtimes remembered for each group of jobs."""
COUNT, LAST_END, RING = range(3)
SORTED = RING + RECENT
GROUP = SORTED + RECENT
"""Columns of ``Memory.users``, whose rows here are groups of jobs of all levels: ended jobs; the last end; the logarithms of
the last runtimes, in a ring and again sorted, shortest first; and the number of columns."""
ENDED, LAST, SECOND_LAST, MEDIAN, QUARTILE, THIRD_QUARTILE, SINCE, PER_LEVEL = range(8)
"""Features of each level: ln(1 + ended jobs), logarithms of runtimes in seconds, ln(1 + seconds since the last end)."""
LOG_REQUEST, LOG_PROCS, HOUR, WEEKDAY, ALIKE, COMMON = range(6)
"""Features behind those of the levels. ``ALIKE`` is the logarithm of the last runtime of the most similar jobs, of the request
if no similar job has ended: the learners' first guess."""
UNKNOWN = -1.0
"""Value of a missing feature; all others are at least 0."""
ASKED_OF, SAID, KEPT = range(3)
"""Columns that a learner may keep behind a job's features: the last model that predicted the job, and its answer."""


def levels_of(jobs: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return the levels that the columns of ``jobs`` can distinguish."""
    present = [tuple(key for key in level if not jobs[key].isna().all()) for level in LEVELS]
    return [level for level in dict.fromkeys(present) if level]


def features(levels: int) -> int:
    """Return the number of features of a job."""
    return levels * PER_LEVEL + COMMON


def names(jobs: pd.DataFrame) -> list[str]:
    """Return the names of the features, in order."""
    each = ("ended", "last", "second_last", "median", "quartile", "third_quartile", "since")
    of_levels = [f"{'+'.join(level)}:{name}" for level in levels_of(jobs) for name in each]
    return [*of_levels, "log_request", "log_procs", "hour", "weekday", "alike"]


def fresh_memory(jobs: pd.DataFrame, columns: int, model: np.ndarray) -> Memory:
    """Return a memory with the groups of ``jobs``, room for their features, and ``model``.

    Rows of features have ``columns`` more columns behind them.
    """
    levels = levels_of(jobs)
    keys = np.full((len(jobs), len(levels)), -1, np.int64)
    count, codes = 0, {key: pd.factorize(jobs[key])[0] for key in {key for level in levels for key in level}}
    for position, level in enumerate(levels):
        complete = np.all([codes[key] >= (0 if key in PEOPLE else -1) for key in level], axis=0)
        group = alike([codes[key][complete] for key in level])
        keys[complete, position] = group + count
        count += int(group.max(initial=-1)) + 1
    return Memory(
        users=np.zeros((count, GROUP)), jobs=np.zeros((len(jobs), features(len(levels)) + columns)), keys=keys, model=model
    )


@kernel
def width(memory):
    """Return the number of features of a job."""
    return memory.keys.shape[1] * PER_LEVEL + COMMON


@kernel
def describe(memory, job, jobs):
    """Write the features of ``job``, submitted now, to its row of ``memory.jobs``.

    Return the first guess, the logarithm of seconds.
    """
    now = jobs.submit[job]
    x, row = memory.jobs[job], memory.row[job]
    levels = memory.keys.shape[1]
    guess = UNKNOWN
    for level in range(levels):
        first = level * PER_LEVEL
        for i in range(PER_LEVEL):
            x[first + i] = UNKNOWN
        x[first + ENDED] = 0.0
        group = memory.keys[row, level]
        if group < 0 or memory.users[group, COUNT] == 0.0:
            continue
        past = memory.users[group]
        ended = np.int64(past[COUNT])
        recent = ended if ended < RECENT else RECENT
        x[first + ENDED] = math.log1p(past[COUNT])
        x[first + LAST] = past[RING + (ended - 1) % RECENT]
        if ended > 1:
            x[first + SECOND_LAST] = past[RING + (ended - 2) % RECENT]
        x[first + MEDIAN] = past[SORTED + recent // 2]
        x[first + QUARTILE] = past[SORTED + recent // 4]
        x[first + THIRD_QUARTILE] = past[SORTED + 3 * recent // 4]
        x[first + SINCE] = math.log1p(now - past[LAST_END])
        if guess == UNKNOWN:
            guess = x[first + LAST]
    second = wall_clock(memory, now)
    common = levels * PER_LEVEL
    x[common + LOG_REQUEST] = math.log(jobs.requested[job])
    x[common + LOG_PROCS] = math.log(jobs.procs[job])
    x[common + HOUR] = second % DAY_S / 3600
    x[common + WEEKDAY] = second // DAY_S % 7
    x[common + ALIKE] = x[common + LOG_REQUEST] if guess == UNKNOWN else min(guess, x[common + LOG_REQUEST])
    return x[common + ALIKE]


@kernel
def remember(memory, job, runtime, now):
    """Add the ``runtime`` of ``job``, which has ended, to its groups."""
    seconds = math.log(runtime)
    for level in range(memory.keys.shape[1]):
        group = memory.keys[memory.row[job], level]
        if group < 0:
            continue
        past = memory.users[group]
        ended = np.int64(past[COUNT])
        slot = RING + ended % RECENT
        if ended >= RECENT:  # the oldest leaves the sorted list
            gone = SORTED
            while past[gone] != past[slot]:
                gone += 1
            while gone < SORTED + RECENT - 1:
                past[gone] = past[gone + 1]
                gone += 1
        i = SORTED + ended if ended < RECENT else SORTED + RECENT - 1
        while i > SORTED and past[i - 1] > seconds:
            past[i] = past[i - 1]
            i -= 1
        past[i] = seconds
        past[slot] = seconds
        past[COUNT] += 1.0
        past[LAST_END] = now
