"""Nodes that fail and come back in the event loop.

A node fails after the predictions of that second have expired, before jobs end or are submitted in it. Jobs that run on the node
stop, except those that end in this very second. A stopped job is either lost: it ends at that second and counts as ended. Or it
is requeued: it waits again, at its old place by the order of the queue, and restarts from its beginning. A failed node counts as
taken for good, since its return is unknown: jobs are planned around it, and jobs that no other node can hold have no plan.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.kernel.clusters import GAINS, HOUR, LOSES, MOST_GAINS, OUTAGE, RETURNED, give_back, join
from sim.kernel.state import (
    AS_PLANNED,
    CHANGED,
    ENDS,
    FREE,
    LATER,
    LEFT,
    NEVER,
    NEXT,
    PLANS,
    STARTED,
    WAITING,
    heap_pop,
    heap_push,
    plan_remove,
)
from sim.machine.nodes import PROCS


@kernel
def next_outage(state, jobs, clusters):
    """Return when nodes next fail or come back, or hours begin.

    NEVER if no job is left that this could affect.
    """
    counters, outages, hours = state.counters, clusters.outages, clusters.hours
    i, j, when = clusters.numbers[OUTAGE], clusters.numbers[HOUR], NEVER
    if i < len(outages.time):
        when = outages.time[i]
    if j < len(hours.time):
        when = min(when, hours.time[j])
    jobs_left = counters[ENDS] > 0 or counters[WAITING] > 0 or counters[NEXT] < len(jobs.submit)
    return when if jobs_left else NEVER


@apart
def change_nodes(settings, now, jobs, estimates, state, clusters):
    """Apply failures and returns of nodes, and begins of hours, up to ``now``."""
    numbers, outages, hours = clusters.numbers, clusters.outages, clusters.hours
    while numbers[HOUR] < len(hours.time) and hours.time[numbers[HOUR]] <= now:
        hours.latest[hours.kind[numbers[HOUR]]] = hours.until[numbers[HOUR]]
        numbers[HOUR] += 1
    while numbers[OUTAGE] < len(outages.time) and outages.time[numbers[OUTAGE]] <= now:
        node, up = outages.node[numbers[OUTAGE]], outages.up[numbers[OUTAGE]]
        numbers[OUTAGE] += 1
        if up == 0 and outages.down[node] == 0:
            outages.down[node] = 1
            take_node(node, -1, clusters)
            i = 0
            while i < state.counters[PLANS]:
                sequence = state.plan[i] & ((1 << settings.bits) - 1)
                job = state.running[sequence]
                if is_on(job, node, clusters) and state.start[job] + jobs.runtime[job] > now:
                    evict(settings, job, sequence, now, jobs, estimates, state, clusters)
                else:
                    i += 1
        elif up != 0 and outages.down[node] != 0:
            take_node(node, 1, clusters)
            outages.down[node] = 0
    numbers[GAINS] += MOST_GAINS + 1  # more than are looked through one by one: requeued jobs may have other nodes then
    state.counters[CHANGED] = 1
    state.counters[AS_PLANNED] = LATER


@kernel
def take_node(node, sign, clusters):
    """Take an idle node that fails out of what is free (``sign`` -1), or put it back (1).

    A node of a pool that a job still holds, which ends in this second, is taken out when it is left.
    """
    nodes, outages = clusters.nodes, clusters.outages
    if len(outages.holder) == 0:
        nodes.free[node, PROCS] += sign * nodes.capacity[node, PROCS]
    elif outages.holder[node] == 0:
        pool = np.searchsorted(outages.first, node, "right") - 1
        nodes.free[pool, PROCS] += sign


@kernel
def is_on(job, node, clusters):
    """Tell whether ``job`` runs on ``node``."""
    nodes, outages, row, on = clusters.nodes, clusters.outages, clusters.nodes.row[job], False
    if len(outages.holder) > 0:
        return outages.holder[node] == job + 1
    for at in range(nodes.begin[row], nodes.begin[row] + nodes.held[row]):
        on = on or nodes.node[at] == node
    return on


@kernel
def evict(settings, job, sequence, now, jobs, estimates, state, clusters):
    """Stop a running job, which is lost or requeued."""
    counters, numbers, outages = state.counters, clusters.numbers, clusters.outages
    take_out(settings.bits, job, sequence, jobs, state)
    give_back(job, clusters)
    if numbers[LOSES] != 0:
        jobs.runtime[job] = max(now - state.start[job], 1)
        state.planned[job] = LEFT
        heap_push(state.ends, counters[ENDS], (state.start[job] + jobs.runtime[job]) << settings.bits | sequence)
        counters[ENDS] += 1
        outages.lost[job] = 1
        return
    state.start[job] = -1
    state.corrections[job] = 0
    outages.requeues[job] += 1
    outages.sequence[job] = sequence + 1
    outages.returned[numbers[RETURNED]] = job
    numbers[RETURNED] += 1
    join(settings, job, now, jobs, estimates, state, clusters)


@kernel
def take_out(bits, job, sequence, jobs, state):
    """Remove a job from the running jobs."""
    counters = state.counters
    plan_remove(state.plan, state.plan_procs, counters[PLANS], state.planned[job] << bits | sequence)
    counters[PLANS] -= 1
    counters[FREE] += jobs.procs[job]
    heap_remove(state.ends, counters[ENDS], (state.start[job] + jobs.runtime[job]) << bits | sequence)
    counters[ENDS] -= 1


@kernel
def place_of(job, state):
    """Return the job's sequence number, which counts first starts; -1 if it has not run."""
    sequence = state.counters[STARTED] - 1
    while sequence >= 0 and state.running[sequence] != job:
        sequence -= 1
    return sequence


@kernel
def heap_remove(heap, size, event):
    """Remove an event from a heap of ``size``; the heap must hold it."""
    i = 0
    while heap[i] != event:
        i += 1
    while i > 0:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[0] = -1
    heap_pop(heap, size)
