"""Passes of a policy outside the kernel, which chooses the jobs that start now, and where.

The loop stops, and its caller writes the answer. Jobs ``Outside.waiting[table[FIRST_WAITING] : counters[NEXT]]`` wait, in order of
submission.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel
from sim.kernel.cluster_room import first_room
from sim.kernel.clusters import closed, start_planned
from sim.kernel.state import CHANGED, FREE, NEXT, WAITING, start_job
from sim.machine.nodes import NOWHERE, choose, fits

CHOSEN_JOBS, FIRST_WAITING, REFUSED, SLOTS = range(4)
"""Slots of ``Outside.table``. CHOSEN_JOBS: the number of chosen jobs, UNASKED before the policy is asked. FIRST_WAITING: the
index of the first waiting job. REFUSED: the index of a wrong choice in ``chosen``, plus one."""

UNASKED = -1


class Outside(NamedTuple):
    """The choice of a policy, int64: the ``chosen`` jobs, and ``where`` each starts.

    Both are [jobs + 1]; ``where`` is a cluster, or NOWHERE for the first with room. ``waiting`` [jobs]: see the module.
    """

    table: np.ndarray
    waiting: np.ndarray
    chosen: np.ndarray
    where: np.ndarray


@kernel
def wait_for_policy(job, state, outside):
    """Add ``job``, just submitted, to the waiting jobs."""
    outside.waiting[job] = job
    state.counters[WAITING] += 1


@kernel
def outside_pass(now, jobs, estimates, state, outside, clusters, bits):
    """Start the jobs that the policy chose; return True if it must be asked, or was wrong.

    It is asked if a job waits and, on a pool, a processor is free. On clusters it is asked again until it starts no job, as what
    fits depends on where the chosen jobs were put.
    """
    counters, table = state.counters, outside.table
    while True:
        if table[CHOSEN_JOBS] == UNASKED:
            return counters[WAITING] > 0 and (clusters is not None or counters[FREE] > 0)
        chosen = table[CHOSEN_JOBS]
        table[CHOSEN_JOBS] = UNASKED
        counters[CHANGED] = 0
        if chosen == 0:
            return False
        if start_chosen(chosen, now, jobs, estimates, state, outside, clusters, bits):
            return True
        if clusters is None:
            return False


@apart
def start_chosen(chosen, now, jobs, estimates, state, outside, clusters, bits):
    """Start the ``chosen`` jobs in their order; return True at the first that cannot start."""
    counters, table, waiting = state.counters, outside.table, outside.waiting
    for i in range(chosen):  # if more are chosen than wait, one of them is wrong
        job, place = outside.chosen[i], NOWHERE
        if 0 <= job < counters[NEXT] and state.start[job] < 0:
            place = place_for(job, outside.where[i], now, jobs, estimates, state, clusters)
        if place == NOWHERE:
            table[REFUSED] = i + 1
            return True
        if clusters is None:
            start_job(job, now, jobs, estimates, state, bits)
        else:
            choose(clusters.nodes.row[job], place, 0, clusters.nodes, clusters.nodes.free)
            start_planned(job, now, jobs, estimates, state, clusters, bits)
    counters[WAITING] -= chosen
    last, left = table[FIRST_WAITING] - 1, chosen
    while left > 0:
        last += 1
        left -= state.start[waiting[last]] >= 0
    to = last
    for i in range(last, table[FIRST_WAITING] - 1, -1):  # waiting jobs in front move up
        if state.start[waiting[i]] < 0:
            waiting[to] = waiting[i]
            to -= 1
    table[FIRST_WAITING] += chosen
    return False


@apart
def place_for(job, cluster, now, jobs, estimates, state, clusters):
    """Return ``cluster`` if ``job`` fits there now, else NOWHERE.

    If ``cluster`` is NOWHERE, return the first in which the job fits. The single pool is cluster 0.
    """
    if clusters is None:
        return 0 if cluster <= 0 and jobs.procs[job] <= state.counters[FREE] else NOWHERE
    if closed(job, estimates.fit[job], now, clusters):
        return NOWHERE
    if cluster == NOWHERE:
        return first_room(job, clusters)
    nodes = clusters.nodes
    if 0 <= cluster < len(nodes.first) - 1 and fits(nodes.row[job], cluster, nodes, nodes.free, nodes.left):
        return cluster
    return NOWHERE
