"""Features of like jobs in the memory of the simulator's learners.

The simulator keeps them (:mod:`features.jobs.like_jobs`) up to date to the second.
"""

from __future__ import annotations

import numpy as np

from features.deferred import pd
from features.jit import kernel
from features.jobs import like_jobs
from features.jobs.like_jobs import GROUP, features
from features.jobs.runtime_features import distinct, numbered
from models.runtime.memory import Memory, wall_clock

ASKED_OF, SAID, KEPT = range(3)
"""Columns that a learner may keep behind a job's features: the last model that predicted the job, and its answer."""


def fresh_memory(jobs: pd.DataFrame, columns: int, model: np.ndarray) -> Memory:
    """Return a memory with the groups of ``jobs``, room for their features, and ``model``.

    Rows of features have ``columns`` more columns behind them.
    """
    levels = tuple(distinct(jobs).values())
    keys, count = numbered(jobs, levels)
    rows = np.zeros((len(jobs), features(len(levels)) + columns))
    return Memory(users=np.zeros((count, GROUP)), jobs=rows, keys=keys, model=model)


@kernel
def describe(memory, job, jobs):
    """Write the features of ``job``, submitted now, to its row; return the first guess."""
    now, keys = jobs.submit[job], memory.keys[memory.row[job]]
    clock = wall_clock(memory, now)
    return like_jobs.describe(memory.jobs[job], memory.users, keys, now, clock, jobs.requested[job], jobs.procs[job])


@kernel
def remember(memory, job, runtime, now):
    """Add the ``runtime`` of ``job``, which has ended, to its groups."""
    like_jobs.remember(memory.users, memory.keys[memory.row[job]], runtime, now)
