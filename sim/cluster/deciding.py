"""Who says whether a job had better wait: a model that sees counters and probes, and two that say how good that is, an oracle and a coin.

The model is asked with what a site could know: counters of the last five minutes as far as they have arrived, over the nodes the job would get or over all,
two MPI probes run on those nodes now, and the type of the application. The oracle knows the machine as it is now and how the background will
go on, and takes it that those who run go on as they do; the coin knows nothing.
"""

from __future__ import annotations

import numpy as np

from features.counters import PROBE_FEATURES, SAMPLERS, TYPES
from features.jit import apart, kernel
from models.classifying import class_probabilities
from sim.cluster.chance import normal, uniform
from sim.cluster.contention import background, offer, slowdown, stretched
from sim.cluster.placement import choose
from sim.cluster.sampling import over_window
from sim.cluster.site import (
    ASKED_TIMES,
    COIN,
    CORE_BACKGROUND,
    CUTOFF,
    DECIDER,
    FIRST_CLASS,
    LIMIT,
    LOAD,
    MODEL,
    NETWORK_GAIN,
    NODES_PER_LEAF,
    NOISE_BACKGROUND,
    NOISE_TRAFFIC,
    POWER,
    PREDICTED,
    PROBE_NOISE,
    READ,
    SKIPPED_TIMES,
    STORAGE,
    STORAGE_BACKGROUND,
    STORAGE_GAIN,
    STRETCH,
    TICK_S,
    TRAFFIC,
    TYPE,
    UPLINK,
    WRITE,
)

COUNTERS = sum(len(sampler.metrics) for sampler in SAMPLERS.values())
OWN, EVERY = 0, 3 * COUNTERS
PROBED = 6 * COUNTERS
TYPED = PROBED + len(PROBE_FEATURES)
LOOKS = TYPED + len(TYPES)
"""What a column may be: a statistic of a counter over own nodes, over all nodes, of a probe, or a type; ``LOOKS`` there are."""

_RING_S, _REDUCE_S = 0.16, 0.24
"""Seconds that a node waits in the two probes on an idle machine: ten times 100 MB to a neighbour, five times 100 MB reduced, at 12.5 GB/s, with some delay."""


@apart
def look(now, job, needed, codes, site, found):
    """What is known ``now`` of ``job`` on the ``needed`` chosen nodes, for each of ``codes`` int64, into ``found`` float64 of the same length."""
    probed = False
    counted = -1
    for i in range(len(codes)):
        code = codes[i]
        if code < PROBED:
            if code // 3 != counted:
                counted = code // 3
                over_window(now, counted % COUNTERS, needed, code < EVERY, site.found, 0, site)
            found[i] = site.found[code % 3]
        elif code < TYPED:
            if not probed:
                probe(needed, site, site.found, 3)
                probed = True
            found[i] = site.found[3 + code - PROBED]
        else:
            found[i] = 1.0 if site.variants[site.variant[job], TYPE] == code - TYPED else 0.0


@apart
def probe(needed, site, found, at):
    """Run both probes on the chosen nodes: seconds waited to send, to receive and to reduce, each as least, greatest and mean over nodes."""
    for k in range(3):
        found[at + 3 * k] = np.inf
        found[at + 3 * k + 1] = -np.inf
        found[at + 3 * k + 2] = 0.0
    worst = 0.0
    for i in range(needed):
        worst = max(worst, exposure(i, needed, site))
    for i in range(needed):
        mine = exposure(i, needed, site)
        for k in range(3):
            waited = _RING_S * (1.0 + mine)
            if k == 1:
                waited = _RING_S * (1.0 + 0.5 * (mine + worst))
            if k == 2:
                waited = _REDUCE_S * (1.0 + worst)
            waited *= 1.0 + site.physics[PROBE_NOISE] * normal(site.random)
            found[at + 3 * k] = min(found[at + 3 * k], waited)
            found[at + 3 * k + 1] = max(found[at + 3 * k + 1], waited)
            found[at + 3 * k + 2] += waited / needed


@kernel
def exposure(i, needed, site):
    """By how much more than 1 the communication of the chosen node ``i`` with the others is stretched."""
    size = site.clock[NODES_PER_LEAF]
    leaf = site.chosen[i] // size
    beside = 0
    for k in range(needed):
        if site.chosen[k] // size == leaf:
            beside += 1
    return (1.0 - beside / needed) * site.leaves[leaf, STRETCH]


@apart
def foresee(now, job, needed, site):
    """Runtime in seconds that ``job`` would have on the chosen nodes if all others went on as they do and the background as it will."""
    physics = site.physics
    profile = site.variants[site.variant[job]]
    stored, core = offer(now, site)
    stored += needed * (profile[READ] + profile[WRITE]) / physics[STORAGE]
    there = site.spread[len(site.spread) - 1]
    for leaf in range(len(there)):
        there[leaf] = 0.0
    for k in range(needed):
        there[site.chosen[k] // site.clock[NODES_PER_LEAF]] += 1.0
    noisy = background(now, NOISE_BACKGROUND, site)
    left, at, tick = site.work[job], now, site.clock[TICK_S]
    while True:
        in_core = stretched(core + background(at, CORE_BACKGROUND, site), physics[NETWORK_GAIN], physics[POWER])
        more_noise = background(at, NOISE_BACKGROUND, site) - noisy
        worst = 0.0
        for leaf in range(len(there)):
            if there[leaf] > 0.0:
                away = 1.0 - there[leaf] / needed
                load = site.leaves[leaf, LOAD] + profile[TRAFFIC] * there[leaf] * away / physics[UPLINK]
                load += more_noise * noise_on(leaf, site) / physics[UPLINK]
                worst = max(worst, away * (stretched(load, physics[NETWORK_GAIN], physics[POWER]) + in_core))
        io = stretched(stored + background(at, STORAGE_BACKGROUND, site), physics[STORAGE_GAIN], physics[POWER])
        factor = slowdown(profile, 1.0 + worst, 1.0 + io)
        until = (at // tick + 1) * tick
        if left * factor <= until - at:
            return at + left * factor - now
        left -= (until - at) / factor
        at = until


@kernel
def noise_on(leaf, site):
    """GB/s that the noise job sends through the uplinks of ``leaf`` when it is fully busy."""
    if site.slot_nodes[0] == 0:
        return 0.0
    beside = site.spread[0, leaf]
    return site.physics[NOISE_TRAFFIC] * beside * (1.0 - beside / site.slot_nodes[0])


@apart
def decide(job, now, jobs, site):
    """Shall ``job``, which could start, wait?"""
    needed = jobs.procs[job]
    choose(needed, site)
    site.clock[ASKED_TIMES] += 1
    skip = False
    if site.clock[DECIDER] == COIN:
        skip = uniform(site.random) < site.physics[CUTOFF]
    elif site.clock[DECIDER] == MODEL:
        look(now, job, needed, site.wanted, site, site.x)
        class_probabilities(site.model, site.x, site.out)
        probability = 0.0
        for label in range(site.clock[FIRST_CLASS], len(site.out)):
            probability += site.out[label]
        site.runs[job, PREDICTED] = probability
        skip = probability >= site.physics[CUTOFF]
    else:
        skip = foresee(now, job, needed, site) > site.variants[site.variant[job], LIMIT]
    if skip:
        site.clock[SKIPPED_TIMES] += 1
    return skip
