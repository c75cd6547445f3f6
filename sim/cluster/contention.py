"""Contention: running jobs slow each other down on shared links and the file system.

Jobs offer load: an all-to-all among a job's nodes sends the data for nodes under other leaf switches through a leaf's
uplinks; I/O goes to the one file system. At an offered load of l times the capacity, time spent there is stretched by 1
+ g l^p, the form in which traffic engineering has written congestion since the Bureau of Public Roads (1964). A job's
slowest leaf delays all its nodes, which wait for each other. There is no slowdown outside communication and I/O. With w
and i their shares of its time, a job is slowed down by 1 + w (S_net - 1) + i (S_io - 1), which changes whenever
anything starts, ends or varies.

A job gets some of the free nodes. ``first-fit`` takes the free nodes of lowest number, under any leaf switch.
``best-fit`` keeps a job under few leaf switches, as schedulers that know a tree do (Slurm's topology/tree): it takes
the leaf with the fewest free nodes that are enough, or if none has enough the one with the most, and goes on with the
rest. Ties go to the leaf of lowest number, and under a leaf to the nodes of lowest number.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.cluster import layout
from sim.kernel.state import ENDS, heap_push


@kernel
def choose(needed, site):
    """Write the ``needed`` nodes that a job would get now to ``site.chosen``.

    The scheduler ensures that they are free.
    """
    if site.clock[layout.PLACEMENT] == layout.FIRST_FIT:
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
    size = site.clock[layout.NODES_PER_LEAF]
    for leaf in range(len(site.free)):
        site.free[leaf] = 0
    for node in range(len(site.owner)):
        if site.owner[node] < 0:
            site.free[node // size] += 1
    taken = 0
    while taken < needed:
        best = 0
        for leaf in range(1, len(site.free)):
            free, most = site.free[leaf], site.free[best]
            if free > most if most < needed - taken else needed - taken <= free < most:
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
def seat(job, needed, site):
    """Put ``job`` on the ``needed`` nodes it gets now; return its slot."""
    slot = 1
    while slot < site.clock[layout.SLOTS] and site.slot_job[slot] >= 0:
        slot += 1
    site.clock[layout.SLOTS] = max(site.clock[layout.SLOTS], slot + 1)
    choose(needed, site)
    for leaf in range(site.spread.shape[1]):
        site.spread[slot, leaf] = 0.0
    for i in range(needed):
        site.owner[site.chosen[i]] = slot
        site.spread[slot, site.chosen[i] // site.clock[layout.NODES_PER_LEAF]] += 1.0
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
    for k in range(layout.SLOT):
        site.slots[slot, k] = 0.0
    for k in range(layout.LATENTS):
        site.sums[slot, k] = 0.0
    site.slots[slot, layout.REMAINING] = site.work[job]
    site.slots[slot, layout.FACTOR] = 1.0
    site.slots[slot, layout.NETWORK_STRETCH] = 1.0
    site.slots[slot, layout.IO_STRETCH] = 1.0
    site.slots[slot, layout.FINISH] = -1.0


@apart
def vacate(job, jobs, state, site):
    """End ``job``: keep its results and its nodes' readings since the last sample."""
    slot = site.slot_of[job]
    lasted = site.slots[slot, layout.FINISH] - state.start[job]
    if lasted > jobs.requested[job]:
        lasted = 1.0 * jobs.requested[job]
        site.runs[job, layout.CUT] = 1.0
    site.runs[job, layout.EXACT] = lasted
    site.runs[job, layout.CONTENTION] = lasted / site.work[job]
    site.runs[job, layout.MEAN_NETWORK] = site.slots[slot, layout.NETWORK_SUM] / jobs.runtime[job]
    site.runs[job, layout.MEAN_IO] = site.slots[slot, layout.IO_SUM] / jobs.runtime[job]
    left = site.slot_nodes[slot]
    node = 0
    while left > 0:
        if site.owner[node] == slot:
            site.owner[node] = -1
            for k in range(layout.LATENTS):
                site.pending[k, node] += site.sums[slot, k]
            left -= 1
        node += 1
    site.slot_job[slot] = -1


@apart
def account(now, site):
    """Account for the progress of all running jobs until ``now``, at their last speed."""
    passed = 1.0 * (now - site.clock[layout.BROUGHT_UP_TO])
    site.clock[layout.BROUGHT_UP_TO] = now
    if passed <= 0.0:
        return
    if site.clock[layout.NOISE_NODES] > 0:
        site.sums[0, layout.SENT] += (
            passed * site.physics[layout.NOISE_TRAFFIC] * background(now - 1, layout.NOISE_BACKGROUND, site)
        )
        site.sums[0, layout.TIME] += passed
    for slot in range(1, site.clock[layout.SLOTS]):
        job = site.slot_job[slot]
        if job < 0:
            continue
        profile = site.variants[site.variant[job]]
        slots, sums = site.slots[slot], site.sums[slot]
        rate = passed / slots[layout.FACTOR]
        slots[layout.REMAINING] = max(slots[layout.REMAINING] - rate, 0.0)
        slots[layout.NETWORK_SUM] += passed * slots[layout.NETWORK_STRETCH]
        slots[layout.IO_SUM] += passed * slots[layout.IO_STRETCH]
        sums[layout.SENT] += rate * profile[layout.TRAFFIC]
        sums[layout.READ_GB] += rate * profile[layout.READ]
        sums[layout.WRITTEN] += rate * profile[layout.WRITE]
        sums[layout.OPERATIONS] += rate * profile[layout.METADATA]
        sums[layout.IO_WAIT] += rate * profile[layout.IO] * (slots[layout.IO_STRETCH] - 1.0)
        sums[layout.TIME] += passed
    for leaf in range(site.leaves.shape[0]):
        site.leaves[leaf, layout.LOAD_SUM] += passed * site.leaves[leaf, layout.LOAD]
        site.leaves[leaf, layout.STRETCH_SUM] += passed * site.leaves[leaf, layout.STRETCH]


@kernel
def background(now, which, site):
    """Return the background at ``now``; it repeats after its horizon."""
    return site.background[((now + site.clock[layout.WARM_S]) // site.clock[layout.TICK_S]) % len(site.background), which]


@kernel
def offer(now, site):
    """Compute loads of all uplinks from the running jobs.

    Returns the loads of the file system and of the core, without background.
    """
    leaves = site.leaves
    for leaf in range(leaves.shape[0]):
        leaves[leaf, layout.LOAD] = 0.0
    stored = 0.0
    for slot in range(site.clock[layout.SLOTS]):
        job = site.slot_job[slot]
        if slot > 0 and job < 0:
            continue
        nodes = 1.0 * site.slot_nodes[slot]
        if slot == 0:
            if nodes == 0.0:
                continue
            sends = site.physics[layout.NOISE_TRAFFIC] * background(now, layout.NOISE_BACKGROUND, site)
        else:
            profile = site.variants[site.variant[job]]
            sends = profile[layout.TRAFFIC]
            stored += nodes * (profile[layout.READ] + profile[layout.WRITE])
        for leaf in range(leaves.shape[0]):
            on_leaf = site.spread[slot, leaf]
            if on_leaf > 0.0:
                leaves[leaf, layout.LOAD] += sends * on_leaf * (1.0 - on_leaf / nodes)
    crossing = 0.0
    for leaf in range(leaves.shape[0]):
        crossing += leaves[leaf, layout.LOAD]
        leaves[leaf, layout.LOAD] /= site.physics[layout.UPLINK]
    return stored / site.physics[layout.STORAGE], crossing / site.physics[layout.CORE]


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
    in_core = stretched(core + background(now, layout.CORE_BACKGROUND, site), physics[layout.NETWORK_GAIN], physics[layout.POWER])
    for leaf in range(site.leaves.shape[0]):
        site.leaves[leaf, layout.STRETCH] = (
            stretched(site.leaves[leaf, layout.LOAD], physics[layout.NETWORK_GAIN], physics[layout.POWER]) + in_core
        )
    return stretched(stored + background(now, layout.STORAGE_BACKGROUND, site), physics[layout.STORAGE_GAIN], physics[layout.POWER])


@apart
def settle(now, bits, jobs, state, site):
    """Compute all speeds from ``now`` on, and the ends that follow from them."""
    in_storage = strain(now, site)
    state.counters[ENDS] = 0
    for slot in range(1, site.clock[layout.SLOTS]):
        job = site.slot_job[slot]
        if job < 0:
            continue
        slots = site.slots[slot]
        profile = site.variants[site.variant[job]]
        fresh = slots[layout.FINISH] < 0.0
        slots[layout.NETWORK_STRETCH] = 1.0 + held_up(slot, site)
        slots[layout.IO_STRETCH] = 1.0 + in_storage
        if now == state.start[job]:  # counts all jobs started in this second, however often it is settled
            site.runs[job, layout.START_NETWORK] = slots[layout.NETWORK_STRETCH]
            site.runs[job, layout.START_IO] = slots[layout.IO_STRETCH]
        slots[layout.FACTOR] = slowdown(profile, slots[layout.NETWORK_STRETCH], slots[layout.IO_STRETCH])
        if fresh or slots[layout.FINISH] > now:
            slots[layout.FINISH] = now + slots[layout.REMAINING] * slots[layout.FACTOR]
        end = min(np.int64(np.ceil(slots[layout.FINISH])), state.start[job] + jobs.requested[job])
        end = max(end, state.start[job] + 1)
        jobs.runtime[job] = end - state.start[job]
        heap_push(state.ends, state.counters[ENDS], end << bits | site.slot_sequence[slot])
        state.counters[ENDS] += 1


@kernel
def slowdown(profile, network, io):
    """Return the slowdown of a job with these stretches of communication and I/O."""
    return 1.0 + profile[layout.NETWORK] * (network - 1.0) + profile[layout.IO] * (io - 1.0)


@kernel
def held_up(slot, site):
    """Return the stretch beyond 1 of communication of the job in ``slot`` (slowest leaf)."""
    nodes = 1.0 * site.slot_nodes[slot]
    worst = 0.0
    for leaf in range(site.leaves.shape[0]):
        on_leaf = site.spread[slot, leaf]
        if on_leaf > 0.0:
            worst = max(worst, (1.0 - on_leaf / nodes) * site.leaves[leaf, layout.STRETCH])
    return worst
