"""Placement: which of the free nodes a job gets.

``first-fit`` takes the free nodes of lowest number, whatever leaf switch they are under. ``best-fit`` keeps a job under few leaf
switches, as schedulers that know a tree do (Slurm's topology/tree): it takes the leaf with the fewest free nodes that are enough, or
where none has enough the one with the most, and goes on with the rest. Ties go to the leaf of lowest number, and under a leaf to
the nodes of lowest number.

``informed`` is best fit that knows how loud each leaf is: the mean of its nodes' counters of congestion over the window that models
read. A job under one leaf does not feel the network. A job that finds no such leaf leaves out the loudest ones, as many as make its
exposure least: the max over its leaves of loudness times the share of its nodes under others. Ties go to the loudest leaf, so that
quiet ones remain. I/O-intensive jobs, whose runtimes depend least on the network, go under two leaves where not more leaves with room
for all of a job remain than half the leaves there are. ``oracle`` is the same rule with the true stretch of the moment, its bound.
No rule keeps I/O-intensive jobs apart from each other: the one file system is as far from every node.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from features.monitoring.samplers import TYPES, counter_features
from sim.cluster.contention import strain
from sim.cluster.sampling import over_window
from sim.cluster.site import (
    BEST_FIT,
    BROUGHT_UP_TO,
    CONTENTION,
    CUT,
    EXACT,
    FACTOR,
    FINISH,
    FIRST_FIT,
    INFORMED,
    IO_STRETCH,
    IO_SUM,
    LATENTS,
    MEAN_IO,
    MEAN_NETWORK,
    NETWORK_STRETCH,
    NETWORK_SUM,
    NODES_PER_LEAF,
    ORACLE_FIT,
    PLACEMENT,
    REMAINING,
    SLOT,
    SLOTS,
    STRETCH,
    TYPE,
)

CONGESTED = counter_features().index("opa_info.sw_port_congestion.min") // 3
"""Number of the counter that tells how loud a leaf is."""
_IO = TYPES.index("io")


@kernel
def choose(job, needed, site):
    """Write the ``needed`` nodes that ``job`` would get now to ``site.chosen``.

    The scheduler ensures that they are free.
    """
    if site.clock[PLACEMENT] == FIRST_FIT:
        first_fit(needed, site)
        return
    size = site.clock[NODES_PER_LEAF]
    listen(site)
    for leaf in range(len(site.free)):
        site.free[leaf] = 0
    for node in range(len(site.owner)):
        if site.owner[node] < 0:
            site.free[node // size] += 1
    roomiest = 0
    for leaf in range(len(site.free)):
        roomiest = max(roomiest, site.free[leaf])
    quietest = np.inf
    if makes_room(job, needed, site):
        for leaf in range(len(site.free)):
            if site.free[leaf] >= needed:
                site.free[leaf] = 0
    elif roomiest < needed:
        least = fill(needed, np.inf, site)
        for leaf in range(len(site.loud)):
            exposed = fill(needed, site.loud[leaf], site)
            if exposed < least:
                quietest, least = site.loud[leaf], exposed
    fill(needed, quietest, site)


@kernel
def first_fit(needed, site):
    """Write the free nodes of lowest number to ``site.chosen``."""
    found = 0
    node = 0
    while found < needed:
        if site.owner[node] < 0:
            site.chosen[found] = node
            found += 1
        node += 1


@kernel
def listen(site):
    """Write what the placement knows of each leaf's congestion to ``site.loud``.

    Nothing, counters, or the truth.
    """
    size, now = site.clock[NODES_PER_LEAF], site.clock[BROUGHT_UP_TO]
    if site.clock[PLACEMENT] == INFORMED:
        for leaf in range(len(site.loud)):
            for i in range(size):
                site.chosen[i] = leaf * size + i
            over_window(now, CONGESTED, size, True, site.found, 0, site)
            site.loud[leaf] = site.found[2] if site.found[2] > 0.0 else 0.0
    elif site.clock[PLACEMENT] == ORACLE_FIT:
        strain(now, site)
        for leaf in range(len(site.loud)):
            site.loud[leaf] = site.leaves[leaf, STRETCH]


@kernel
def makes_room(job, needed, site):
    """Tell whether ``job`` goes under two leaves, to leave whole places to others.

    I/O-intensive jobs do, where few such leaves remain.
    """
    if site.clock[PLACEMENT] == BEST_FIT or site.variants[site.variant[job], TYPE] != _IO:
        return False
    whole, most, second = 0, 0, 0
    for leaf in range(len(site.free)):
        there = site.free[leaf]
        whole += there // needed
        if there < needed:
            second = max(second, min(there, most))
            most = max(most, there)
    return 0 < whole <= len(site.free) // 2 and most + second >= needed


@kernel
def fill(needed, loudest, site):
    """Write the nodes that best fit takes to ``site.chosen``; return the job's exposure.

    Leaves louder than ``loudest`` are left out. Exposure is the max over its leaves of loudness times the share of other leaves
    in the job; infinite if the leaves do not suffice.
    """
    size = site.clock[NODES_PER_LEAF]
    for leaf in range(len(site.free)):
        site.rest[leaf] = site.free[leaf] if site.loud[leaf] <= loudest else 0
    found = 0
    exposed = 0.0
    while found < needed:
        best = 0
        for leaf in range(1, len(site.free)):
            if fits_better(leaf, best, needed - found, site):
                best = leaf
        left = min(site.rest[best], needed - found)
        if left == 0:
            return np.inf
        exposed = max(exposed, (1.0 - left / needed) * site.loud[best])
        site.rest[best] = 0
        node = best * size
        while left > 0:
            if site.owner[node] < 0:
                site.chosen[found] = node
                found += 1
                left -= 1
            node += 1
    return exposed


@kernel
def fits_better(leaf, best, needed, site):
    """Tell whether ``leaf`` is better for ``needed`` nodes than ``best``."""
    one, other = site.rest[leaf], site.rest[best]
    if one == other:
        return site.loud[leaf] > site.loud[best]
    if other < needed:
        return one > other
    return needed <= one < other


@kernel
def seat(job, needed, site):
    """Put ``job`` on the ``needed`` nodes it gets now; return its slot."""
    slot = 1
    while slot < site.clock[SLOTS] and site.slot_job[slot] >= 0:
        slot += 1
    site.clock[SLOTS] = max(site.clock[SLOTS], slot + 1)
    choose(job, needed, site)
    for leaf in range(site.spread.shape[1]):
        site.spread[slot, leaf] = 0.0
    for i in range(needed):
        site.owner[site.chosen[i]] = slot
        site.spread[slot, site.chosen[i] // site.clock[NODES_PER_LEAF]] += 1.0
    site.slot_job[slot] = job
    site.slot_nodes[slot] = needed
    return slot


@kernel
def unseat(slot, site):
    """Undo :func:`seat` on the chosen nodes."""
    for i in range(site.slot_nodes[slot]):
        site.owner[site.chosen[i]] = -1
    site.slot_job[slot] = -1


@apart
def occupy(job, sequence, jobs, site):
    """Start ``job`` on the nodes it gets now."""
    slot = seat(job, jobs.procs[job], site)
    if len(site.places) > 0:
        for i in range(jobs.procs[job]):
            site.places[site.first_place[job] + i] = site.chosen[i]
    site.slot_sequence[slot] = sequence
    site.slot_of[job] = slot
    for k in range(SLOT):
        site.slots[slot, k] = 0.0
    for k in range(LATENTS):
        site.sums[slot, k] = 0.0
    site.slots[slot, REMAINING] = site.work[job]
    site.slots[slot, FACTOR] = 1.0
    site.slots[slot, NETWORK_STRETCH] = 1.0
    site.slots[slot, IO_STRETCH] = 1.0
    site.slots[slot, FINISH] = -1.0


@apart
def vacate(job, jobs, state, site):
    """End ``job``: keep its results and its nodes' readings since the last sample."""
    slot = site.slot_of[job]
    lasted = site.slots[slot, FINISH] - state.start[job]
    if lasted > jobs.requested[job]:
        lasted = 1.0 * jobs.requested[job]
        site.runs[job, CUT] = 1.0
    site.runs[job, EXACT] = lasted
    site.runs[job, CONTENTION] = lasted / site.work[job]
    site.runs[job, MEAN_NETWORK] = site.slots[slot, NETWORK_SUM] / jobs.runtime[job]
    site.runs[job, MEAN_IO] = site.slots[slot, IO_SUM] / jobs.runtime[job]
    left = site.slot_nodes[slot]
    node = 0
    while left > 0:
        if site.owner[node] == slot:
            site.owner[node] = -1
            for k in range(LATENTS):
                site.pending[k, node] += site.sums[slot, k]
            left -= 1
        node += 1
    site.slot_job[slot] = -1
