"""Placement: which of the free nodes a job gets.

``first-fit`` takes the free nodes of lowest number, under any leaf switch. ``best-fit`` keeps a job under few leaf switches, as
schedulers that know a tree do (Slurm's topology/tree): it takes the leaf with the fewest free nodes that are enough, or if none
has enough the one with the most, and goes on with the rest. Ties go to the leaf of lowest number, and under a leaf to the nodes
of lowest number.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.cluster.site import (
    CONTENTION,
    CUT,
    EXACT,
    FACTOR,
    FINISH,
    FIRST_FIT,
    IO_STRETCH,
    IO_SUM,
    LATENTS,
    MEAN_IO,
    MEAN_NETWORK,
    NETWORK_STRETCH,
    NETWORK_SUM,
    NODES_PER_LEAF,
    PLACEMENT,
    REMAINING,
    SLOT,
    SLOTS,
)


@kernel
def choose(needed, site):
    """Write the ``needed`` nodes that a job would get now to ``site.chosen``.

    The scheduler ensures that they are free.
    """
    if site.clock[PLACEMENT] == FIRST_FIT:
        first_fit(needed, site)
    else:
        best_fit(needed, site)


@kernel
def first_fit(needed, site):
    """Write the free nodes of lowest number to ``site.chosen``."""
    taken = 0
    node = 0
    while taken < needed:
        if site.owner[node] < 0:
            site.chosen[taken] = node
            taken += 1
        node += 1


@kernel
def best_fit(needed, site):
    """Write the free nodes under as few leaves as possible to ``site.chosen``."""
    size = site.clock[NODES_PER_LEAF]
    for leaf in range(len(site.free)):
        site.free[leaf] = 0
    for node in range(len(site.owner)):
        if site.owner[node] < 0:
            site.free[node // size] += 1
    taken = 0
    while taken < needed:
        best = 0
        for leaf in range(1, len(site.free)):
            if fits_better(site.free[leaf], site.free[best], needed - taken):
                best = leaf
        left = min(site.free[best], needed - taken)
        site.free[best] = 0
        node = best * size
        while left > 0:
            if site.owner[node] < 0:
                site.chosen[taken] = node
                taken += 1
                left -= 1
            node += 1


@kernel
def fits_better(one, other, needed):
    """Tell whether ``one`` number of free nodes is better for ``needed`` than the ``other``."""
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
    choose(needed, site)
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
