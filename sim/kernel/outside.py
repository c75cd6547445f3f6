"""Passes of a policy from outside the kernel, which says what starts now, and where.

Either the loop stops, and whatever runs it writes the answer; or the policy is compiled, and called at its address. It is not
compiled together with the loop: another policy is another address, and reads arrays of the simulation at addresses of theirs
(:mod:`sim.compiled_policy`). Jobs that wait are ``Outside.waiting[table[HEAD] : counters[NEXT]]``, in order of submission.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from features.jit import apart, kernel
from sim.kernel.cluster_passes import first_room
from sim.kernel.clusters import closed, start_planned
from sim.kernel.state import CHANGED, FREE, NEXT, WAITING, start_job
from sim.machine.nodes import NOWHERE, choose, fits

NOW, POLICY, CHOSEN_JOBS, HEAD, FIRST_NEW, NEWS, REFUSED, ADDRESSES = range(8)
"""Slots of ``Outside.table``. NOW: the second of the pass. POLICY: the address of a compiled policy, 0 to stop. CHOSEN_JOBS: how many it has
chosen, UNASKED if not yet asked. HEAD: the place of the first job that waits. FIRST_NEW: the first job submitted since it was last asked.
NEWS: whether anything but submissions has happened since. REFUSED: the place of a wrong choice among the chosen, plus one; or a number of
jobs below 0. From ADDRESSES on: of arrays, for compiled policies."""

SEEN = 16
"""Slots from ADDRESSES on, in the order of :func:`sim.compiled_policy.compiled`."""

UNASKED = -1


class Outside(NamedTuple):
    """What a policy decides, int64: the ``chosen`` jobs, and ``where`` each starts.

    Both [jobs + 1]; ``where`` is a cluster, or NOWHERE for the first with room. ``waiting`` [jobs] as above.
    """

    table: np.ndarray
    waiting: np.ndarray
    chosen: np.ndarray
    where: np.ndarray


def _call(_: Any, address: Any, table: Any) -> Any:
    """Call the function at ``address`` with that of the ``table``."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        data = context.make_array(signature.args[1])(context, builder, given[1]).data
        function = ir.FunctionType(ir.IntType(64), [data.type])
        return builder.call(builder.inttoptr(given[0], function.as_pointer()), [data])

    return types.int64(types.int64, table), generate


call: Any = intrinsic(_call)


@kernel
def wait_for_policy(job, state, outside):
    """Let ``job``, just submitted, join the waiting jobs."""
    outside.waiting[job] = job
    state.counters[WAITING] += 1


@kernel
def outside_pass(now, jobs, estimates, state, outside, clusters, bits):
    """Start what the policy has chosen; return True if it must be asked, or was wrong.

    It is asked where a job waits and, on a pool, a processor is free; on clusters again until it starts nothing, as what fits depends
    on what has been put where.
    """
    counters, table = state.counters, outside.table
    while True:
        if table[CHOSEN_JOBS] == UNASKED:
            table[NEWS] |= counters[CHANGED]
            if counters[WAITING] == 0 or (clusters is None and counters[FREE] == 0):
                return False
            table[NOW] = now
            if table[POLICY] == 0:
                return True
            table[CHOSEN_JOBS] = call(table[POLICY], table) - 1  # 0 where it raises
        chosen = table[CHOSEN_JOBS]
        table[CHOSEN_JOBS], table[NEWS], table[FIRST_NEW] = UNASKED, 0, counters[NEXT]
        counters[CHANGED] = 0
        if chosen == 0:
            return False
        if start_chosen(chosen, now, jobs, estimates, state, outside, clusters, bits):
            return True
        if clusters is None:
            return False


@apart
def start_chosen(chosen, now, jobs, estimates, state, outside, clusters, bits):
    """Start the ``chosen`` jobs in their order; return True at the first that cannot."""
    counters, table, waiting = state.counters, outside.table, outside.waiting
    if chosen < 0:
        table[REFUSED] = chosen
        return True
    for i in range(chosen):  # one of more than wait is wrong
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
    last, left = table[HEAD] - 1, chosen
    while left > 0:
        last += 1
        left -= state.start[waiting[last]] >= 0
    to = last
    for i in range(last, table[HEAD] - 1, -1):  # those in front move up
        if state.start[waiting[i]] < 0:
            waiting[to] = waiting[i]
            to -= 1
    table[HEAD] += chosen
    return False


@apart
def place_for(job, cluster, now, jobs, estimates, state, clusters):
    """Return ``cluster`` if ``job`` fits there now, else NOWHERE.

    If it is NOWHERE, return the first in which the job fits. The one pool is cluster 0.
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
