"""The event loop on a simulated cluster: answers the loop's requests, compiled.

The loop is :mod:`sim.kernel.loop`. It stops for start decisions, and before time advances if jobs have started or ended or the
cluster's next event is due.
"""

from __future__ import annotations

from features.jit import kernel
from sim.cluster.contention import account, settle
from sim.cluster.placement import choose, occupy, vacate
from sim.cluster.sampling import sample
from sim.cluster.site import BROUGHT_UP_TO, DECIDER, INTERVAL_S, NO_MODEL, OUTSIDE, RECORDED, SAMPLES, TICK_S
from sim.cluster.start_models import decide, look
from sim.kernel.loop import DECIDE, MOVED, advance
from sim.kernel.state import ENDED, LET_START, MOMENT, PASS, SEEN_ENDS, SEEN_STARTS, SKIP, STARTED, UNDECIDED

FULL = 100
"""Stop reason: the record of samples is full."""


@kernel
def drive(settings, jobs, estimates, dependencies, front, back, profile, state, clusters, outside, memory, now, site, codes):
    """Run :func:`sim.kernel.loop.advance` on ``site``.

    ``codes`` int64 [LOOKS] are 0, 1, 2, ..., the columns of features.
    """
    counters = state.counters
    while site.clock[BROUGHT_UP_TO] < 0:  # before the first job
        bring_up(counters[MOMENT], settings.bits, jobs, state, site, codes)
    while True:
        reason, now = advance(
            settings,
            jobs,
            estimates,
            dependencies,
            front,
            back,
            profile,
            state,
            memory,
            now,
            state.scenarios,
            clusters,
            state.slurm,
            outside,
        )
        if reason in (MOVED, DECIDE):
            bring_up(now, settings.bits, jobs, state, site, codes)
        if reason == DECIDE:
            if site.clock[DECIDER] == NO_MODEL or site.clock[DECIDER] == OUTSIDE:
                return reason, now
            job = counters[UNDECIDED] - 1
            verdict = SKIP if decide(job, now, jobs, site) else LET_START
            state.verdict[job] = counters[PASS] << 1 | verdict
        elif reason != MOVED:
            return reason, now
        elif site.record.shape[0] > 0 and site.clock[RECORDED] == site.record.shape[0]:
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
    while now >= (site.clock[SAMPLES] + 1) * site.clock[INTERVAL_S]:
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
    tick = site.clock[TICK_S]
    counters[MOMENT] = min((now // tick + 1) * tick, (site.clock[SAMPLES] + 1) * site.clock[INTERVAL_S])
