"""Features of :mod:`models.runtime.nag`: user history, running jobs, clock, request.

The features of Gaussier, Glesser, Reis & Trystram, "Improving backfilling by using machine learning to predict running
times" (SC 2015), in two forms. In the published form, the last three runtimes are in fact the times since those jobs
were submitted (the program takes the runtime only if submission + runtime lies ahead, which never holds for an ended
job), a user without history has a mean runtime of 0, a third is 0.33, and the time of day is that of the trace's
seconds, as if its second 0 were a midnight. In the intended form: runtimes, the request where nothing is known, true
means, and the wall clock.

Each user's running jobs are circular lists in ``Memory.links``, in order of start. Rows of jobs come first, then one
row for each user. A user's row is before the first and after the last of its jobs. Jobs without a known user are in no
list.
"""

from __future__ import annotations

import math

import numpy as np

from features.clock import DAY_S, WEEK_S
from features.jit import kernel
from models.runtime.memory import wall_clock

NEXT, PREVIOUS = range(2)


def empty_lists(jobs: int, users: int) -> np.ndarray:
    """Return links, int64 [jobs + users, 2], of users without running jobs."""
    return np.repeat(np.arange(jobs + users)[:, None], 2, axis=1)


@kernel
def list_of(links, jobs, user):
    """Return the row of ``user``; its first running job is ``links[row, NEXT]``.

    After the last job the list returns to this row.
    """
    return len(jobs.user) + user


@kernel
def append(links, jobs, job):
    """Add ``job``, which has started."""
    if jobs.user[job] >= 0:
        row = list_of(links, jobs, jobs.user[job])
        last = links[row, PREVIOUS]
        links[last, NEXT] = job
        links[job, PREVIOUS] = last
        links[job, NEXT] = row
        links[row, PREVIOUS] = job


@kernel
def remove(links, jobs, job):
    """Remove ``job``, which has ended."""
    if jobs.user[job] >= 0:
        before, behind = links[job, PREVIOUS], links[job, NEXT]
        links[before, NEXT] = behind
        links[behind, PREVIOUS] = before


BASE = 19
"""x0 to x18: the constant 1; the last three runtimes; the request; means of the last two, the last three and all
runtimes; time since the last end; processors over the mean of earlier jobs; of the user's running jobs: the sum of
processors, the sum of elapsed times, the number, the longest elapsed time; cosine and sine of the time of day and of
the week; processors."""
REQUEST = 3
"""Index of the request in x1 to x18."""
_PAIRED = 17
"""One more than the number of features, x1 to x16, whose products are taken."""
FEATURES = BASE + (_PAIRED - 1) * (_PAIRED - 2) // 2 + BASE - 1
"""The base, the products of pairs, the squares of x1 to x18: 157."""

ENDED, RUNTIMES, PROCS, LAST_END, LAST, HISTORY = 0, 1, 2, 3, 4, 10
"""Columns of ``Memory.users``: ended jobs, the sums of their runtimes and of their processors, the last end, then
runtime and submission of the last three, latest first; and the number of these columns."""


@kernel
def remember(history, job, jobs, now):
    """Store ``job``, which has ended, in its user's row of ``Memory.users``."""
    history[ENDED] += 1
    history[RUNTIMES] += jobs.runtime[job]
    history[PROCS] += jobs.procs[job]
    history[LAST_END] = now
    for i in range(HISTORY - 1, LAST + 1, -1):
        history[i] = history[i - 2]
    history[LAST] = jobs.runtime[job]
    history[LAST + 1] = jobs.submit[job]


@kernel
def observe(x, memory, job, jobs, start, origin, published):
    """Write x1 to x18 of ``job``, submitted now, to ``x`` [18].

    ``origin`` is the trace's second at which the simulation began.
    """
    now = jobs.submit[job]
    user = jobs.user[job]
    requested = 1.0 * jobs.requested[job]
    ended = np.int64(0)
    if user >= 0:
        ended = np.int64(memory.users[user, ENDED])
    for k in range(3):
        x[k] = requested
        if k < ended:
            runtime = memory.users[user, LAST + 2 * k]
            since_submission = now - memory.users[user, LAST + 2 * k + 1]
            x[k] = min(requested, since_submission if published else runtime)
    x[REQUEST] = requested
    x[4] = 0.5 * (x[0] + x[1]) if ended >= 2 else x[0]
    x[5] = x[4]
    if ended >= 3:
        x[5] = 0.33 * (x[0] + x[1] + x[2]) if published else (x[0] + x[1] + x[2]) / 3.0
    if ended > 0:
        x[6] = memory.users[user, RUNTIMES] / ended
        x[7] = now - memory.users[user, LAST_END]
        x[8] = jobs.procs[job] / (memory.users[user, PROCS] / ended)
    else:
        x[6] = 0.0 if published else requested
        x[7] = 0.0
        x[8] = 0.0 if published else 1.0
    if not published:
        x[6] = min(requested, x[6])
    for i in range(9, 13):
        x[i] = 0.0
    if user >= 0:
        row = list_of(memory.links, jobs, user)
        other = memory.links[row, NEXT]
        while other != row and start[other] < now:
            elapsed = now - start[other]
            x[9] += jobs.procs[other]
            x[10] += elapsed
            x[11] += 1.0
            x[12] = max(x[12], 1.0 * elapsed)
            other = memory.links[other, NEXT]
    second = now + origin if published else wall_clock(memory, now)
    day = 2.0 * math.pi * (second % DAY_S) / DAY_S
    week = 2.0 * math.pi * (second % WEEK_S) / WEEK_S
    x[13] = math.cos(day)
    x[14] = math.sin(day)
    x[15] = math.cos(week)
    x[16] = math.sin(week)
    x[17] = jobs.procs[job]


@kernel
def expand(x, full):
    """Write all ``FEATURES`` to ``full``, from x1 to x18 in ``x`` [18]."""
    full[0] = 1.0
    for i in range(BASE - 1):
        full[i + 1] = x[i]
    at = BASE
    for i in range(_PAIRED - 1):
        for k in range(i + 1, _PAIRED - 1):
            full[at] = x[i] * x[k]
            at += 1
    for i in range(BASE - 1):
        full[at + i] = x[i] * x[i]
