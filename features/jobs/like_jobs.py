"""Features of a job from like jobs that have ended, its user and request, and the clock.

Jobs are alike at several levels, from the most to the least similar: same user, executable, request and processors;
same user and request; ...; same group; same executable. The features of a level are the number of such jobs that have
ended, the last two of their runtimes, the quartiles of the last 16, and the time since the last end. They unite the
inputs of Gaussier et al. 2015, OKCM (Li & Zhang), Goponenko et al. 2022 and Lamar et al. 2021.

A user's runtimes vary. A job is compared, when it has ended, with the jobs most like it of its user that had ended
before: its deviation is the logarithm of its runtime over their median. The last 32 deviations of a user give how far
runtimes are off either way, how often jobs ran much longer than those like them, and whether they become longer or
shorter. Updates touch one user's 32 numbers and allocate nothing.

Other features are what is known of a user. They unite the per-user features of Gaussier et al. 2015 (table 2) and of
OKCM (Li, Zhang; table 1). The state of a user, at a submission of the trace or in the snapshot of a registered model,
becomes features here alone.

Simulator, feature table and registered models run this file: compiled here, and as plain Python where a registered
model is loaded without Queuecast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

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
"""Columns of a group's state: ended jobs; the last end; the logarithms of the last runtimes, in a ring and again
sorted, shortest first; and the number of columns."""
ENDED, LAST, SECOND_LAST, MEDIAN, QUARTILE, THIRD_QUARTILE, SINCE, PER_LEVEL = range(8)
"""Features of each level: ln(1 + ended jobs), logarithms of runtimes in seconds, ln(1 + seconds since the last end)."""
LOG_REQUEST, LOG_PROCS, HOUR, WEEKDAY, ALIKE, COMMON = range(6)
"""Features behind those of the levels. ``ALIKE`` is the logarithm of the last runtime of the most similar jobs, of the
request if no similar job has ended: the learners' first guess."""
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

    ``groups`` [groups, GROUP] is their state, ``keys`` int64 [levels] the job's group at each level, below 0 for none.
    ``clock`` is the wall clock, in seconds since a Thursday's midnight. Returns the first guess, the logarithm of
    seconds.
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


OF_USER = sum("user" in level for level in LEVELS)
"""The number of levels with the user in them, which are the first."""
REMEMBERED = 32
"""Number of ended jobs remembered for each user."""
MUCH_LONGER = math.log(2.0)
"""A job that ran more than twice as long as the median of those like it ran much longer."""
COMPARED, DEVIATIONS = range(2)
USED = DEVIATIONS + REMEMBERED
KEPT = USED + REMEMBERED
"""Columns of what is kept of a user: the number of deviations, a ring of the last, a ring of shares of the request
used."""
VARIABILITY = {
    "user_spread_log": "mean |ln(runtime / median of the user's jobs like it)| of the user's last 32 such jobs: 0.7 is a factor of 2",
    "user_much_longer_share": "share of the user's last 32 ended jobs that ran over twice the median of those like them, from 0 to 1",
    "user_trend_log": "mean ln(runtime / median of the user's jobs like it) of the user's last 32 such jobs; above 0 they grow longer",
    "user_used_share": "mean share of the request that the user's last 32 ended jobs used, from 0 to 1",
}
"""Columns of the feature table, and their meanings, in order of :func:`vary`."""
SPREAD = "like_jobs_spread_log"
"""The column of :func:`spread`."""


@kernel
def vary(state, kept, groups, keys, runtime, requested, ended):
    """Update ``state`` [columns of VARIABILITY] by a job that has ended.

    It is not yet in its ``groups``. ``kept`` [KEPT] is the user's; ``ended`` counts the user's jobs that had ended
    before.
    """
    kept[USED + ended % REMEMBERED] = runtime / requested
    jobs, total = min(ended + 1, REMEMBERED), 0.0
    for i in range(jobs):
        total += kept[USED + i]
    state[3] = total / jobs
    for level in range(min(OF_USER, len(keys))):
        group = keys[level]
        if group < 0 or groups[group, COUNT] == 0.0:
            continue
        middle = min(int(groups[group, COUNT]), RECENT) // 2
        compared = int(kept[COMPARED])
        kept[DEVIATIONS + compared % REMEMBERED] = math.log(runtime) - groups[group, SORTED + middle]
        kept[COMPARED] += 1.0
        jobs = min(compared + 1, REMEMBERED)
        off, longer, total = 0.0, 0.0, 0.0
        for i in range(jobs):
            deviation = kept[DEVIATIONS + i]
            off += abs(deviation)
            longer += deviation > MUCH_LONGER
            total += deviation
        state[0], state[1], state[2] = off / jobs, longer / jobs, total / jobs
        return


@kernel
def spread(groups, keys):
    """Return the standard deviation of ln runtime of the last 16 jobs of a user most like one.

    They are those of the first level at which at least two have ended; NaN without such a level.
    """
    for level in range(min(OF_USER, len(keys))):
        if keys[level] < 0 or groups[keys[level], COUNT] < 2.0:
            continue
        past, recent = groups[keys[level]], min(int(groups[keys[level], COUNT]), RECENT)
        mean, squares = 0.0, 0.0
        for i in range(recent):
            mean += past[SORTED + i] / recent
        for i in range(recent):
            squares += (past[SORTED + i] - mean) ** 2
        return math.sqrt(squares / recent)
    return math.nan


WEEK_S = 7 * DAY_S
MONDAY_S = 4 * DAY_S  # 1970-01-05
STATE = {
    "completed_jobs": 0.0,
    "last_runtime_s": np.nan,
    "second_last_runtime_s": np.nan,
    "third_last_runtime_s": np.nan,
    "sum_runtime_s": 0.0,
    "sum_procs": 0.0,
    "sum_allocated_procs": 0.0,
    "last_end_s": np.nan,
    "running_jobs": 0.0,
    "running_procs": 0.0,
    "running_sum_start_s": 0.0,
    "running_earliest_start_s": np.nan,
    "user_spread_log": np.nan,
    "user_much_longer_share": np.nan,
    "user_trend_log": np.nan,
    "user_used_share": np.nan,
}
"""The state of a user, and its values for one without history. The last four are of :mod:`features.jobs.like_jobs`."""


def history(state: Mapping[str, np.ndarray], procs: np.ndarray, now: np.ndarray, local: np.ndarray) -> dict[str, np.ndarray]:
    """Return the features of submissions from the ``state`` of their users, float64 [jobs].

    ``procs`` are requested processors, ``now`` seconds from the trace's origin, ``local`` those of the wall clock since
    1970-01-01 00:00, all [jobs]. Counts and sums over no job are 0; means, longest, last and ``break_s`` are NaN if
    they lack a job, so ``mean_last3_runtime_s`` needs three. Weeks begin on Monday.
    """
    completed, running = state["completed_jobs"], state["running_jobs"]
    last, second_last, third_last = (state[f"{which}_runtime_s"] for which in ("last", "second_last", "third_last"))
    some, some_running = np.where(completed > 0, completed, np.nan), np.where(running > 0, running, np.nan)
    mean_procs = state["sum_procs"] / some
    day = local % DAY_S * (2 * np.pi / DAY_S)
    week = (local - MONDAY_S) % WEEK_S * (2 * np.pi / WEEK_S)
    return {
        "completed_jobs": completed,
        "last_runtime_s": last,
        "second_last_runtime_s": second_last,
        "third_last_runtime_s": third_last,
        "mean_last2_runtime_s": (last + second_last) / 2,
        "mean_last3_runtime_s": (last + second_last + third_last) / 3,
        "mean_runtime_s": state["sum_runtime_s"] / some,
        "sum_runtime_s": state["sum_runtime_s"],
        "mean_procs": mean_procs,
        "mean_allocated_procs": state["sum_allocated_procs"] / some,
        "procs_over_mean": procs / mean_procs,
        "running_jobs": running,
        "running_mean_procs": state["running_procs"] / some_running,
        "occupied_procs": state["running_procs"],
        "longest_running_s": now - state["running_earliest_start_s"],
        "sum_running_s": running * now - state["running_sum_start_s"],
        "break_s": now - state["last_end_s"],
        "cos_day": np.cos(day),
        "sin_day": np.sin(day),
        "cos_week": np.cos(week),
        "sin_week": np.sin(week),
        **{name: state[name] for name in list(STATE)[-4:]},
    }


_NONE = np.zeros(0)
HISTORY: tuple[str, ...] = tuple(history(dict.fromkeys(STATE, _NONE), _NONE, _NONE, _NONE))
"""Columns of :func:`history`, in order."""
