"""Contention: running jobs slow each other down on shared links and the file system.

Jobs offer load: an all-to-all among a job's nodes sends the data for nodes under other leaf switches through a leaf's uplinks;
I/O goes to the one file system. At an offered load of l times the capacity, time spent there is stretched by 1 + g l^p, the form
in which traffic engineering has written congestion since the Bureau of Public Roads (1964). A job's slowest leaf delays all its
nodes, which wait for each other. There is no slowdown outside communication and I/O. With w and i their shares of its time, a job
is slowed down by 1 + w (S_net - 1) + i (S_io - 1), which changes whenever anything starts, ends or varies.

A job gets some of the free nodes. ``first-fit`` takes the free nodes of lowest number, under any leaf switch. ``best-fit`` keeps a
job under few leaf switches, as schedulers that know a tree do (Slurm's topology/tree): it takes the leaf with the fewest free
nodes that are enough, or if none has enough the one with the most, and goes on with the rest. Ties go to the leaf of lowest
number, and under a leaf to the nodes of lowest number.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.cluster.site import (
    BROUGHT_UP_TO,
    CONTENTION,
    CORE,
    CORE_BACKGROUND,
    CUT,
    EXACT,
    FACTOR,
    FINISH,
    FIRST_FIT,
    IO,
    IO_STRETCH,
    IO_SUM,
    IO_WAIT,
    LATENTS,
    LOAD,
    LOAD_SUM,
    MEAN_IO,
    MEAN_NETWORK,
    METADATA,
    NETWORK,
    NETWORK_GAIN,
    NETWORK_STRETCH,
    NETWORK_SUM,
    NODES_PER_LEAF,
    NOISE_BACKGROUND,
    NOISE_NODES,
    NOISE_TRAFFIC,
    OPERATIONS,
    PLACEMENT,
    POWER,
    READ,
    READ_GB,
    REMAINING,
    SENT,
    SLOT,
    SLOTS,
    START_IO,
    START_NETWORK,
    STORAGE,
    STORAGE_BACKGROUND,
    STORAGE_GAIN,
    STRETCH,
    STRETCH_SUM,
    TICK_S,
    TIME,
    TRAFFIC,
    UPLINK,
    WARM_S,
    WRITE,
    WRITTEN,
)
from sim.kernel.state import ENDS, heap_push


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


@apart
def account(now, site):
    """Account for the progress of all running jobs until ``now``, at their last speed."""
    passed = 1.0 * (now - site.clock[BROUGHT_UP_TO])
    site.clock[BROUGHT_UP_TO] = now
    if passed <= 0.0:
        return
    if site.clock[NOISE_NODES] > 0:
        site.sums[0, SENT] += passed * site.physics[NOISE_TRAFFIC] * background(now - 1, NOISE_BACKGROUND, site)
        site.sums[0, TIME] += passed
    for slot in range(1, site.clock[SLOTS]):
        job = site.slot_job[slot]
        if job < 0:
            continue
        profile = site.variants[site.variant[job]]
        slots, sums = site.slots[slot], site.sums[slot]
        rate = passed / slots[FACTOR]
        slots[REMAINING] = max(slots[REMAINING] - rate, 0.0)
        slots[NETWORK_SUM] += passed * slots[NETWORK_STRETCH]
        slots[IO_SUM] += passed * slots[IO_STRETCH]
        sums[SENT] += rate * profile[TRAFFIC]
        sums[READ_GB] += rate * profile[READ]
        sums[WRITTEN] += rate * profile[WRITE]
        sums[OPERATIONS] += rate * profile[METADATA]
        sums[IO_WAIT] += rate * profile[IO] * (slots[IO_STRETCH] - 1.0)
        sums[TIME] += passed
    for leaf in range(site.leaves.shape[0]):
        site.leaves[leaf, LOAD_SUM] += passed * site.leaves[leaf, LOAD]
        site.leaves[leaf, STRETCH_SUM] += passed * site.leaves[leaf, STRETCH]


@kernel
def background(now, which, site):
    """Return the background at ``now``; it repeats after its horizon."""
    return site.background[((now + site.clock[WARM_S]) // site.clock[TICK_S]) % len(site.background), which]


@kernel
def offer(now, site):
    """Compute loads of all uplinks from the running jobs.

    Returns the loads of the file system and of the core, without background.
    """
    leaves = site.leaves
    for leaf in range(leaves.shape[0]):
        leaves[leaf, LOAD] = 0.0
    stored = 0.0
    for slot in range(site.clock[SLOTS]):
        job = site.slot_job[slot]
        if slot > 0 and job < 0:
            continue
        nodes = 1.0 * site.slot_nodes[slot]
        if slot == 0:
            if nodes == 0.0:
                continue
            sends = site.physics[NOISE_TRAFFIC] * background(now, NOISE_BACKGROUND, site)
        else:
            profile = site.variants[site.variant[job]]
            sends = profile[TRAFFIC]
            stored += nodes * (profile[READ] + profile[WRITE])
        for leaf in range(leaves.shape[0]):
            on_leaf = site.spread[slot, leaf]
            if on_leaf > 0.0:
                leaves[leaf, LOAD] += sends * on_leaf * (1.0 - on_leaf / nodes)
    crossing = 0.0
    for leaf in range(leaves.shape[0]):
        crossing += leaves[leaf, LOAD]
        leaves[leaf, LOAD] /= site.physics[UPLINK]
    return stored / site.physics[STORAGE], crossing / site.physics[CORE]


@kernel
def stretched(load, gain, power):
    """Return the stretch of time beyond 1 at ``load`` of the capacity."""
    return gain * load**power


@apart
def strain(now, site):
    """Compute the stretch of communication under each leaf; return that of I/O beyond 1.

    Both come from the running jobs and the background of ``now``.
    """
    physics = site.physics
    stored, core = offer(now, site)
    in_core = stretched(core + background(now, CORE_BACKGROUND, site), physics[NETWORK_GAIN], physics[POWER])
    for leaf in range(site.leaves.shape[0]):
        site.leaves[leaf, STRETCH] = stretched(site.leaves[leaf, LOAD], physics[NETWORK_GAIN], physics[POWER]) + in_core
    return stretched(stored + background(now, STORAGE_BACKGROUND, site), physics[STORAGE_GAIN], physics[POWER])


@apart
def settle(now, bits, jobs, state, site):
    """Compute all speeds from ``now`` on, and the ends that follow from them."""
    in_storage = strain(now, site)
    state.counters[ENDS] = 0
    for slot in range(1, site.clock[SLOTS]):
        job = site.slot_job[slot]
        if job < 0:
            continue
        slots = site.slots[slot]
        profile = site.variants[site.variant[job]]
        fresh = slots[FINISH] < 0.0
        slots[NETWORK_STRETCH] = 1.0 + held_up(slot, site)
        slots[IO_STRETCH] = 1.0 + in_storage
        if now == state.start[job]:  # counts all jobs started in this second, however often it is settled
            site.runs[job, START_NETWORK] = slots[NETWORK_STRETCH]
            site.runs[job, START_IO] = slots[IO_STRETCH]
        slots[FACTOR] = slowdown(profile, slots[NETWORK_STRETCH], slots[IO_STRETCH])
        if fresh or slots[FINISH] > now:
            slots[FINISH] = now + slots[REMAINING] * slots[FACTOR]
        end = min(np.int64(np.ceil(slots[FINISH])), state.start[job] + jobs.requested[job])
        end = max(end, state.start[job] + 1)
        jobs.runtime[job] = end - state.start[job]
        heap_push(state.ends, state.counters[ENDS], end << bits | site.slot_sequence[slot])
        state.counters[ENDS] += 1


@kernel
def slowdown(profile, network, io):
    """Return the slowdown of a job with these stretches of communication and I/O."""
    return 1.0 + profile[NETWORK] * (network - 1.0) + profile[IO] * (io - 1.0)


@kernel
def held_up(slot, site):
    """Return the stretch beyond 1 of communication of the job in ``slot`` (slowest leaf)."""
    nodes = 1.0 * site.slot_nodes[slot]
    worst = 0.0
    for leaf in range(site.leaves.shape[0]):
        on_leaf = site.spread[slot, leaf]
        if on_leaf > 0.0:
            worst = max(worst, (1.0 - on_leaf / nodes) * site.leaves[leaf, STRETCH])
    return worst
