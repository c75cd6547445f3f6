"""Each user's running jobs in order of start: circular lists in ``Memory.links``, with a row for each job and behind them one for each user.

A user's row stands before the first and behind the last of its jobs. Jobs of nobody known are in no list.
"""

from __future__ import annotations

import numpy as np

from features.jit import kernel

NEXT, PREVIOUS = range(2)


def empty_lists(jobs: int, users: int) -> np.ndarray:
    """Links, int64 [jobs + users, 2], of users without running jobs."""
    return np.repeat(np.arange(jobs + users)[:, None], 2, axis=1)


@kernel
def list_of(links, jobs, user):
    """The row that stands for ``user``; the first running job is ``links[row, NEXT]``, and after the last comes this row again."""
    return len(jobs.user) + user


@kernel
def append(links, jobs, job):
    """``job`` was started."""
    if jobs.user[job] >= 0:
        row = list_of(links, jobs, jobs.user[job])
        last = links[row, PREVIOUS]
        links[last, NEXT] = job
        links[job, PREVIOUS] = last
        links[job, NEXT] = row
        links[row, PREVIOUS] = job


@kernel
def remove(links, jobs, job):
    """``job`` has ended."""
    if jobs.user[job] >= 0:
        before, behind = links[job, PREVIOUS], links[job, NEXT]
        links[before, NEXT] = behind
        links[behind, PREVIOUS] = before
