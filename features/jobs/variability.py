"""How variable a user's runtimes are, as known at a submission.

A job is compared, when it has ended, with the jobs most like it of its user that had ended before
(:mod:`features.jobs.like_jobs`): its deviation is the logarithm of its runtime over their median. The last 32 deviations of a
user give how far runtimes are off either way, how often jobs ran much longer than those like them, and whether they become longer
or shorter. Updates touch one user's 32 numbers and allocate nothing.
"""

from __future__ import annotations

import math

from features.jit import kernel
from features.jobs.like_jobs import COUNT, LEVELS, RECENT, SORTED

OF_USER = sum("user" in level for level in LEVELS)
"""The number of levels with the user in them, which are the first."""
REMEMBERED = 32
"""Number of ended jobs remembered for each user."""
MUCH_LONGER = math.log(2.0)
"""A job that ran more than twice as long as the median of those like it ran much longer."""
COMPARED, DEVIATIONS = range(2)
USED = DEVIATIONS + REMEMBERED
KEPT = USED + REMEMBERED
"""Columns of what is kept of a user: the number of deviations, a ring of the last, a ring of shares of the request used."""
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

    It is not yet in its ``groups``. ``kept`` [KEPT] is the user's; ``ended`` counts the user's jobs that had ended before.
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
