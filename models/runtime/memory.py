"""Memory of compiled predictors: one type for all, so that the kernel is compiled once.

Each predictor chooses the shapes, including scratch, because the kernel allocates nothing; unused arrays stay empty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import kernel
from features.jobs.like_jobs import COMMON, PER_LEVEL


class Memory(NamedTuple):
    """State of a compiled predictor; shapes are each predictor's own.

    ``users`` float64 [users, k]: of each user, or of each group of jobs. ``jobs`` float64 [jobs, m]: of each job, from its
    submission to its end. ``links`` int64 [rows, l]: lists of jobs, such as :mod:`models.runtime.nag_features`. ``model`` float64 [n]:
    everything else, such as settings, weights and scratch. ``leaves`` float32 [rows, c]: counts, which are whole. ``keys`` int64
    [rows, t]: fixed properties of each row of the jobs table beyond the kernel's columns. ``row`` int64 [jobs]: the row of that
    table for each job of the kernel; they differ if jobs depend on each other. ``bins`` uint8 [jobs, b]: binned features of
    :mod:`models.regression_tree`. ``clock`` int64 [steps, 2]: the kernel's second from which a step holds, and the seconds to add
    for the wall clock (``features.clock.Clock.steps``). The simulator fills in ``row`` and ``clock``.
    """

    users: np.ndarray = np.zeros((0, 0))
    jobs: np.ndarray = np.zeros((0, 0))
    links: np.ndarray = np.zeros((0, 0), np.int64)
    model: np.ndarray = np.zeros(0)
    leaves: np.ndarray = np.zeros((0, 0), np.float32)
    keys: np.ndarray = np.zeros((0, 0), np.int64)
    row: np.ndarray = np.zeros(0, np.int64)
    bins: np.ndarray = np.zeros((0, 0), np.uint8)
    clock: np.ndarray = np.zeros((1, 2), np.int64)

    def copied(self) -> Memory:
        """Return a copy with arrays of its own."""
        return Memory(*(array.copy() for array in self))


@kernel
def restore(memory, fresh):
    """Reset ``memory`` to ``fresh``.

    ``keys``, ``row`` and ``clock`` never change; ``bins`` changes only at midnight, before it is read.
    """
    for table, source in ((memory.users, fresh.users), (memory.jobs, fresh.jobs)):
        for i in range(source.shape[0]):
            for k in range(source.shape[1]):
                table[i, k] = source[i, k]
    for i in range(fresh.links.shape[0]):
        for k in range(fresh.links.shape[1]):
            memory.links[i, k] = fresh.links[i, k]
    for i in range(len(fresh.model)):
        memory.model[i] = fresh.model[i]
    for i in range(fresh.leaves.shape[0]):
        for k in range(fresh.leaves.shape[1]):
            memory.leaves[i, k] = fresh.leaves[i, k]


@kernel
def wall_clock(memory, now):
    """Return the wall clock at the kernel's second ``now``, in s since a Thursday's midnight."""
    i = memory.clock.shape[0] - 1
    while i > 0 and memory.clock[i, 0] > now:
        i -= 1
    return now + memory.clock[i, 1]


@kernel
def width(memory):
    """Return the number of a job's features (:mod:`features.jobs.like_jobs`)."""
    return memory.keys.shape[1] * PER_LEVEL + COMMON
