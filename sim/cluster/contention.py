"""Contention: running jobs slow each other down on shared links and the file system.

Jobs offer load: an all-to-all among a job's nodes sends the data for nodes under other leaf switches through a leaf's uplinks;
I/O goes to the one file system. At an offered load of l times the capacity, time spent there is stretched by 1 + g l^p, the form
in which traffic engineering has written congestion since the Bureau of Public Roads (1964). A job's slowest leaf delays all its
nodes, which wait for each other. There is no slowdown outside communication and I/O. With w and i their shares of its time, a job
is slowed down by 1 + w (S_net - 1) + i (S_io - 1), which changes whenever anything starts, ends or varies.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.cluster.site import (
    BROUGHT_UP_TO,
    CORE,
    CORE_BACKGROUND,
    FACTOR,
    FINISH,
    IO,
    IO_STRETCH,
    IO_SUM,
    IO_WAIT,
    LOAD,
    LOAD_SUM,
    METADATA,
    NETWORK,
    NETWORK_GAIN,
    NETWORK_STRETCH,
    NETWORK_SUM,
    NOISE_BACKGROUND,
    NOISE_NODES,
    NOISE_TRAFFIC,
    OPERATIONS,
    POWER,
    READ,
    READ_GB,
    REMAINING,
    SENT,
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
