"""Features of a job from the jobs like it that have ended, and from its request and clock.

Jobs are alike at several levels, from the most to the least similar: same user, executable, request and processors; same user and
request; ...; same group; same executable. The features of a level are the number of such jobs that have ended, the last two of
their runtimes, the quartiles of the last 16, and the time since the last end. They unite the inputs of Gaussier et al. 2015,
OKCM (Li & Zhang), Goponenko et al. 2022 and Lamar et al. 2021.

Simulator, feature table and registered models run this file: compiled here, and as plain Python where a registered model is
loaded without Queuecast.
"""

from __future__ import annotations

import math

from features.jit import kernel

DAY_S = 86_400
LEVELS = (
    ("user", "executable", "requested_s", "procs"),
    ("user", "requested_s"),
    ("user", "executable"),
    ("user",),
    ("requested_s", "procs"),
    ("group",),
    ("executable",),
)
"""Keys of each level, the most similar first."""
KEYS = ("user", "group", "executable", "requested_s", "procs")
PEOPLE = ("user", "group")
"""A job with one of these unknown is in no group that uses it; an unknown executable is a value of its own."""
RECENT = 16
"""Number of runtimes remembered for each group of jobs."""
COUNT, LAST_END, RING = range(3)
SORTED = RING + RECENT
GROUP = SORTED + RECENT
"""Columns of a group's state: ended jobs; the last end; the logarithms of the last runtimes, in a ring and again sorted, shortest
first; and the number of columns."""
ENDED, LAST, SECOND_LAST, MEDIAN, QUARTILE, THIRD_QUARTILE, SINCE, PER_LEVEL = range(8)
"""Features of each level: ln(1 + ended jobs), logarithms of runtimes in seconds, ln(1 + seconds since the last end)."""
LOG_REQUEST, LOG_PROCS, HOUR, WEEKDAY, ALIKE, COMMON = range(6)
"""Features behind those of the levels. ``ALIKE`` is the logarithm of the last runtime of the most similar jobs, of the request
if no similar job has ended: the learners' first guess."""
UNKNOWN = -1.0
"""Value of a missing feature in kernels; all others are at least 0."""
OF_LEVEL = {
    "ended_log": "ln(1 + n) of the number n of ended jobs",
    "last_log_s": "ln of the last runtime",
    "second_last_log_s": "ln of the second last runtime",
    "median_log_s": "median ln of the last 16 runtimes",
    "quartile_log_s": "lower quartile of the ln of the last 16 runtimes",
    "third_quartile_log_s": "upper quartile of the ln of the last 16 runtimes",
    "since_log_s": "ln(1 + time) of the time since the last end",
}
OF_JOB = {
    "requested_log_s": "ln of the request",
    "procs_log": "ln of the requested processors",
    "hour": "hour of the wall clock at submission, from 0 to 24",
    "weekday": "day of the week at submission: 0 is Thursday, 4 Monday",
    "alike_log_s": "ln of the last runtime of the most similar jobs with an ended one, else of the request; at most the request",
}
"""Columns of the feature table, and their meanings, in order of the features."""


def level_name(level: tuple[str, ...]) -> str:
    """Return what columns of a level begin with, such as ``user_requested``."""
    return "_".join(level).replace("_s", "")


def columns_of(levels: tuple[tuple[str, ...], ...] = LEVELS) -> tuple[str, ...]:
    """Return the names of the features of ``levels`` and of those behind them, in order."""
    return (*(f"{level_name(level)}_{name}" for level in levels for name in OF_LEVEL), *OF_JOB)


def features(levels: int) -> int:
    """Return the number of features of a job."""
    return levels * PER_LEVEL + COMMON


@kernel
def describe(x, groups, keys, now, clock, requested, procs):
    """Write the features of a job, submitted at ``now``, to ``x``.

    ``groups`` [groups, GROUP] is their state, ``keys`` int64 [levels] the job's group at each level, below 0 for none. ``clock``
    is the wall clock, in seconds since a Thursday's midnight. Returns the first guess, the logarithm of seconds.
    """
    levels = len(keys)
    guess = UNKNOWN
    for level in range(levels):
        first = level * PER_LEVEL
        for i in range(PER_LEVEL):
            x[first + i] = UNKNOWN
        x[first + ENDED] = 0.0
        group = keys[level]
        if group < 0 or groups[group, COUNT] == 0.0:
            continue
        past = groups[group]
        ended = int(past[COUNT])
        recent = min(ended, RECENT)
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
    common = levels * PER_LEVEL
    x[common + LOG_REQUEST] = math.log(requested)
    x[common + LOG_PROCS] = math.log(procs)
    x[common + HOUR] = clock % DAY_S / 3600
    x[common + WEEKDAY] = clock // DAY_S % 7
    x[common + ALIKE] = x[common + LOG_REQUEST] if guess == UNKNOWN else min(guess, x[common + LOG_REQUEST])
    return x[common + ALIKE]


@kernel
def remember(groups, keys, runtime, now):
    """Add the ``runtime`` of a job, which has ended, to its groups ``keys``."""
    seconds = math.log(runtime)
    for level in range(len(keys)):
        group = keys[level]
        if group < 0:
            continue
        past = groups[group]
        ended = int(past[COUNT])
        slot = RING + ended % RECENT
        if ended >= RECENT:  # the oldest leaves the sorted list
            gone = SORTED
            while past[gone] != past[slot]:
                gone += 1
            while gone < SORTED + RECENT - 1:
                past[gone] = past[gone + 1]
                gone += 1
        i = SORTED + min(ended, RECENT - 1)
        while i > SORTED and past[i - 1] > seconds:
            past[i] = past[i - 1]
            i -= 1
        past[i] = seconds
        past[slot] = seconds
        past[COUNT] += 1.0
        past[LAST_END] = now
