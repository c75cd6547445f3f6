"""Each user's running jobs in order of start, as circular lists in ``Memory.links``.

Rows of jobs come first, then one row for each user. A user's row is before the first and after the last of its jobs. Jobs without
a known user are in no list.
"""

from __future__ import annotations

import numpy as np

from features.jit import kernel

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
