"""Start-decision models: the classifier and three references (oracle, nowcast, coin).

The classifier reads what a site could know: counters of the last five minutes that have arrived, over the job's nodes
or over all; two MPI probes run on those nodes now; and the type of the application. Newer ones also read the newest
samples and what runs where. The oracle knows the present machine, the job's own noise and the coming background, and
assumes that running jobs go on as they do. The nowcast knows the same except the coming background: the bound of a
model with perfect sensors. The coin knows nothing.

The event loop asks them: :func:`drive` answers the requests of :mod:`sim.kernel.loop`. It stops for start decisions,
and before time advances if jobs have started or ended or the cluster's next event is due.
"""

from __future__ import annotations

import numpy as np

from features.chance import normal, uniform
from features.jit import apart, kernel
from features.monitoring.samplers import PROBE_FEATURES, SAMPLERS, SITUATION_FEATURES, TYPES
from models.variability.compiled_classifiers import class_probabilities
from sim.cluster import layout
from sim.cluster.contention import account, choose, held_up, occupy, seat, settle, slowdown, strain, unseat, vacate
from sim.cluster.sampling import newest, over_window, sample
from sim.kernel.loop import DECIDE, MOVED, advance
from sim.kernel.state import ENDED, LET_START, MOMENT, PASS, SEEN_ENDS, SEEN_STARTS, SKIP, STARTED, UNDECIDED

COUNTERS = sum(len(sampler.metrics) for sampler in SAMPLERS.values())
OWN, EVERY = 0, 3 * COUNTERS
PROBED = 6 * COUNTERS
TYPED = PROBED + len(PROBE_FEATURES)
NEWEST = TYPED + len(TYPES)
SITUATED = NEWEST + COUNTERS
LOOKS = SITUATED + len(SITUATION_FEATURES)
"""Number of column codes: statistics of counters over own nodes, over all nodes, of probes; types; the newest sample of
each counter over all nodes; where the job and the others would run."""

_RING_S, _REDUCE_S = 0.16, 0.24
"""Seconds a node waits in the probes if idle: 10 x 100 MB to a neighbour, 5 x 100 MB reduced, at 12.5 GB/s with some
delay."""


@apart
def look(now, job, needed, codes, site, features):
    """Write what is known ``now`` of ``job`` on the ``needed`` chosen nodes to ``features``.

    That is one float64 for each of ``codes``, int64.
    """
    probed = placed = False
    counted = -1
    for i in range(len(codes)):
        code = codes[i]
        if code < PROBED:
            if code // 3 != counted:
                counted = code // 3
                over_window(now, counted % COUNTERS, needed, code < EVERY, site.readings, 0, site)
            features[i] = site.readings[code % 3]
        elif code < TYPED:
            if not probed:
                probe(needed, site, site.readings, 3)
                probed = True
            features[i] = site.readings[3 + code - PROBED]
        elif code < NEWEST:
            features[i] = 1.0 if site.variants[site.variant[job], layout.TYPE] == code - TYPED else 0.0
        elif code < SITUATED:
            features[i] = newest(now, code - NEWEST, site)
        else:
            if not placed:
                count_leaves(needed, site)
                placed = True
            features[i] = situation(code - SITUATED, job, needed, site)


@kernel
def count_leaves(needed, site):
    """Count the chosen nodes under each leaf switch in ``site.free``."""
    for leaf in range(len(site.free)):
        site.free[leaf] = 0
    for i in range(needed):
        site.free[site.chosen[i] // site.clock[layout.NODES_PER_LEAF]] += 1


@kernel
def situation(which, job, needed, site):
    """Return a value of :data:`features.monitoring.samplers.SITUATION_FEATURES`.

    ``site.free`` has the job's nodes by leaf switch.
    """
    leaves, least = 0, needed
    for leaf in range(len(site.free)):
        if site.free[leaf] > 0:
            leaves += 1
            least = min(least, site.free[leaf])
    if which == 0:
        return 1.0 * needed
    if which == 1:
        return 1.0 * leaves
    if which == 2:
        return 1.0 - least / needed
    kinds = len(TYPES)
    if which == 3 + 2 * kinds:
        return offered_io(job, needed, site)
    if which == 4 + 2 * kinds:
        return offered_network(job, needed, site)
    kind, beside = (which - 3) % kinds, which - 3 >= kinds
    nodes = 0.0
    for slot in range(1, site.clock[layout.SLOTS]):
        other = site.slot_job[slot]
        if other < 0 or site.variants[site.variant[other], layout.TYPE] != kind:
            continue
        if beside:
            for leaf in range(len(site.free)):
                if site.free[leaf] > 0:
                    nodes += site.spread[slot, leaf]
        else:
            nodes += site.slot_nodes[slot]
    return nodes / (leaves * site.clock[layout.NODES_PER_LEAF] if beside else len(site.owner))


@kernel
def offered_io(job, needed, site):
    """Return GB/s that the running jobs and ``job`` usually read and write."""
    profile = site.variants[site.variant[job]]
    offered = needed * (profile[layout.READ] + profile[layout.WRITE])
    for slot in range(1, site.clock[layout.SLOTS]):
        other = site.slot_job[slot]
        if other >= 0:
            profile = site.variants[site.variant[other]]
            offered += site.slot_nodes[slot] * (profile[layout.READ] + profile[layout.WRITE])
    return offered


@kernel
def offered_network(job, needed, site):
    """Return GB/s that jobs send through the uplinks of the busiest leaf switch of ``job``.

    It includes ``job``, and is 0 if that is under one leaf switch. ``site.free`` has its nodes by leaf.
    """
    most = 0.0
    for leaf in range(len(site.free)):
        if site.free[leaf] == 0 or site.free[leaf] == needed:
            continue
        sent = site.variants[site.variant[job], layout.TRAFFIC] * site.free[leaf] * (1.0 - site.free[leaf] / needed)
        for slot in range(1, site.clock[layout.SLOTS]):
            other = site.slot_job[slot]
            if other >= 0 and site.spread[slot, leaf] > 0.0:
                on_leaf = site.spread[slot, leaf]
                sent += site.variants[site.variant[other], layout.TRAFFIC] * on_leaf * (1.0 - on_leaf / site.slot_nodes[slot])
        most = max(most, sent)
    return most


@apart
def probe(needed, site, waits_s, at):
    """Run both probes on the chosen nodes; write min, max and mean over nodes to ``waits_s``.

    The values are seconds waited to send, to receive and to reduce.
    """
    for k in range(3):
        waits_s[at + 3 * k] = np.inf
        waits_s[at + 3 * k + 1] = -np.inf
        waits_s[at + 3 * k + 2] = 0.0
    worst = 0.0
    for i in range(needed):
        worst = max(worst, exposure(i, needed, site))
    for i in range(needed):
        exposed = exposure(i, needed, site)
        for k in range(3):
            waited = _RING_S * (1.0 + exposed)
            if k == 1:
                waited = _RING_S * (1.0 + 0.5 * (exposed + worst))
            if k == 2:
                waited = _REDUCE_S * (1.0 + worst)
            waited *= 1.0 + site.physics[layout.PROBE_NOISE] * normal(site.random)
            waits_s[at + 3 * k] = min(waits_s[at + 3 * k], waited)
            waits_s[at + 3 * k + 1] = max(waits_s[at + 3 * k + 1], waited)
            waits_s[at + 3 * k + 2] += waited / needed


@kernel
def exposure(i, needed, site):
    """Return the stretch beyond 1 of communication of the chosen node ``i`` with the others."""
    size = site.clock[layout.NODES_PER_LEAF]
    leaf = site.chosen[i] // size
    beside = 0
    for k in range(needed):
        if site.chosen[k] // size == leaf:
            beside += 1
    return (1.0 - beside / needed) * site.leaves[leaf, layout.STRETCH]


@apart
def foresee(now, job, needed, site):
    """Return the runtime in seconds that ``job`` would have if it started now.

    All other jobs go on as they do. The background takes its future course, or for the nowcast stays as it is.
    """
    profile = site.variants[site.variant[job]]
    slot = seat(job, needed, site)
    left, at, tick = site.work[job], now, site.clock[layout.TICK_S]
    lasted = -1.0
    while lasted < 0.0:
        io = 1.0 + strain(at, site)
        factor = slowdown(profile, 1.0 + held_up(slot, site), io)
        until = (at // tick + 1) * tick
        if left * factor <= until - at or site.clock[layout.DECIDER] == layout.NOWCAST:
            lasted = at + left * factor - now
        left -= (until - at) / factor
        at = until
    unseat(slot, site)
    strain(now, site)  # restore the state
    return lasted


@kernel
def variation(x, site):
    """Return the model's probability of variation for the columns ``x`` float64 [columns]."""
    class_probabilities(site.model, x, site.out)
    probability = 0.0
    for label in range(site.clock[layout.FIRST_CLASS], len(site.out)):
        probability += site.out[label]
    return probability


@apart
def decide(job, now, jobs, site):
    """Tell whether ``job``, which could start, must wait.

    A job that has been skipped for as long as its patience starts. One that was asked about a moment ago is skipped
    again.
    """
    first = site.first_skip[job]
    if site.clock[layout.PATIENCE_S] > 0 and first >= 0 and now - first >= site.clock[layout.PATIENCE_S]:
        return False
    if site.answered[job] >= 0 and now - site.answered[job] < site.clock[layout.EVERY_S]:
        return True
    skip = advised(job, now, jobs, site)
    site.answered[job] = now if skip else -1
    if skip and first < 0:
        site.first_skip[job] = now
    return skip


@apart
def advised(job, now, jobs, site):
    """Tell whether the deciding model lets ``job`` wait."""
    needed = jobs.procs[job]
    choose(needed, site)
    site.clock[layout.ASKED_TIMES] += 1
    skip = False
    if site.clock[layout.DECIDER] == layout.COIN:
        skip = uniform(site.random) < site.physics[layout.CUTOFF]
    elif site.clock[layout.DECIDER] == layout.MODEL:
        look(now, job, needed, site.wanted, site, site.x)
        probability = variation(site.x, site)
        site.runs[job, layout.PREDICTED] = probability
        skip = probability >= site.physics[layout.CUTOFF]
    else:
        limit = site.variants[site.variant[job], layout.LIMIT]
        hopeless = site.clock[layout.PATIENCE_S] > 0 and site.work[job] > limit  # its own noise alone exceeds the limit
        skip = not hopeless and foresee(now, job, needed, site) > limit
    if skip:
        site.clock[layout.SKIPPED_TIMES] += 1
    return skip


FULL = 100
"""Stop reason: the record of samples is full."""


@kernel
def drive(settings, inputs, work, now, site, codes):
    """Run :func:`sim.kernel.loop.advance` on ``site``.

    ``codes`` int64 [LOOKS] are 0, 1, 2, ..., the columns of features.
    """
    jobs, state, counters = inputs.jobs, work.state, work.state.counters
    while site.clock[layout.BROUGHT_UP_TO] < 0:  # before the first job
        bring_up(counters[MOMENT], settings.bits, jobs, state, site, codes)
    while True:
        reason, now = advance(settings, inputs, work, now, state.scenarios, work.clusters, state.slurm, work.outside)
        if reason in (MOVED, DECIDE):
            bring_up(now, settings.bits, jobs, state, site, codes)
        if reason == DECIDE:
            if site.clock[layout.DECIDER] == layout.NO_MODEL or site.clock[layout.DECIDER] == layout.OUTSIDE:
                return reason, now
            job = counters[UNDECIDED] - 1
            verdict = SKIP if decide(job, now, jobs, site) else LET_START
            state.verdict[job] = counters[PASS] << 1 | verdict
        elif reason != MOVED:
            return reason, now
        elif site.record.shape[0] > 0 and site.clock[layout.RECORDED] == site.record.shape[0]:
            return FULL, now


@kernel
def bring_up(now, bits, jobs, state, site, codes):
    """Bring the cluster to ``now``, with jobs ended and started by then.

    It sets the next event: the next change of the background or the next sample.
    """
    counters = state.counters
    account(now, site)
    for i in range(counters[SEEN_ENDS], counters[ENDED]):
        vacate(state.ended[i], jobs, state, site)
    counters[SEEN_ENDS] = counters[ENDED]
    while now >= (site.clock[layout.SAMPLES] + 1) * site.clock[layout.INTERVAL_S]:
        sample(site)
    for sequence in range(counters[SEEN_STARTS], counters[STARTED]):
        job = state.running[sequence]
        if site.feature_row[job] >= 0:  # the cluster as a start decision would see it
            settle(now, bits, jobs, state, site)
            choose(jobs.procs[job], site)
            look(now, job, jobs.procs[job], codes, site, site.features[site.feature_row[job]])
        occupy(job, sequence, jobs, site)
    counters[SEEN_STARTS] = counters[STARTED]
    settle(now, bits, jobs, state, site)
    tick = site.clock[layout.TICK_S]
    counters[MOMENT] = min((now // tick + 1) * tick, (site.clock[layout.SAMPLES] + 1) * site.clock[layout.INTERVAL_S])
