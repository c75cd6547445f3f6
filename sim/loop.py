"""The event loop: the only one. It advances a simulation until it is over or needs an answer from outside, and says which.

Two semantics are published. Per-second (Goponenko et al. 2022): everything that happens in one second, ends first, then submissions
in file order, and then one scheduling pass. Per-event (Gaussier et al. 2015): submissions before ends, one at a time, each followed by a
pass. In both, an expired prediction only extends the plan of running jobs and causes no pass by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import kernel
from models.compiled import OUTSIDE, TABLE, estimate, learn
from sim.corrections import corrected
from sim.passes import enqueue, full_pass, leave, primary_key, submit_pass
from sim.state import (
    ASKED,
    CHANGED,
    ENDED,
    ENDS,
    FREE,
    NEXT,
    PLANS,
    STARVING,
    WAITING,
    heap_pop,
    plan_insert,
    plan_remove,
    queue_insert,
)

DONE, ASK = range(2)
"""Why the loop stopped: everything has ended, or it wants estimates for the jobs submitted in this second, rows from ``counters[NEXT]`` on."""

NEVER = 1 << 62
LEFT = -1
"""In ``State.planned``: the job has left the plan of running jobs."""


class Settings(NamedTuple):
    """Integer codes of one simulation.

    ``reservations``: how many EASY gives. ``weights`` and ``backfill_weights`` [6] are of mixed policies. ``one_queue``: the primary
    queue is the backfill queue too (same order, and nothing that reorders one alone). ``changing``: the order of waiting jobs can
    change. ``steady``: while nothing but submissions happens, whoever was looked at before need not be looked at again.
    ``starvation``: seconds of waiting after which a job goes to the head. ``gated``: a submission causes a pass only if the job fits in
    the processors free now. ``bits``: width of a sequence number inside an event.
    """

    algorithm: int
    reservations: int
    order: int
    weights: np.ndarray
    backfill: int
    backfill_weights: np.ndarray
    one_queue: bool
    changing: bool
    steady: bool
    correction: int
    predictor: int
    starvation: int
    per_event: bool
    gated: bool
    bits: int


@kernel
def advance(settings, jobs, estimates, front, back, profile, state, memory, now):
    """Run until done or in need of answers; returns (reason, now). ``now`` is 0 at first and what was returned last after that."""
    counters = state.counters
    total = len(jobs.submit)
    while True:
        arriving = counters[ASKED]
        counters[ASKED] = 0
        if arriving == 0:
            now = jobs.submit[counters[NEXT]] if counters[NEXT] < total else NEVER
            if counters[ENDS] > 0:
                now = min(now, state.ends[0] >> settings.bits)
            if now == NEVER:
                return DONE, now
            refresh_plan(settings, now, jobs, estimates, state)
            while counters[NEXT] + arriving < total and jobs.submit[counters[NEXT] + arriving] == now:
                arriving += 1
            if settings.per_event:
                arriving = min(arriving, 1)
                if arriving == 0:
                    end_job(settings, jobs, state, memory)
            else:
                while counters[ENDS] > 0 and state.ends[0] >> settings.bits == now:
                    end_job(settings, jobs, state, memory)
            if arriving > 0 and settings.predictor == OUTSIDE:
                counters[ASKED] = arriving
                return ASK, now
        promote_starving(settings, now, jobs, estimates, front, state)

        if arriving == 1 and counters[CHANGED] == 0 and counters[WAITING] > 0 and settings.steady:
            job = submit_job(settings, jobs, estimates, memory, counters)
            if submit_pass(settings, job, now, jobs, estimates, front, back, profile, state):
                continue
        else:
            for _ in range(arriving):
                job = submit_job(settings, jobs, estimates, memory, counters)
                enqueue(settings, job, now, jobs, estimates, front, back, counters)
            if settings.gated and arriving == 1 and jobs.procs[counters[NEXT] - 1] > counters[FREE]:
                counters[CHANGED] = 1
                continue
        full_pass(settings, now, jobs, estimates, front, back, profile, state)
        counters[CHANGED] = 0


@kernel
def refresh_plan(settings, now, jobs, estimates, state):
    """Bring the plan of running jobs up to ``now``: who was predicted to have ended and has not is corrected; who ends this very
    second, as predicted, leaves the plan and its processors are free, even if its end is still to be dealt with."""
    counters = state.counters
    bits = settings.bits
    while counters[PLANS] > 0 and state.plan[0] >> bits <= now:
        planned = state.plan[0] >> bits
        sequence = state.plan[0] & ((1 << bits) - 1)
        job = state.running[sequence]
        plan_remove(state.plan, state.plan_procs, counters[PLANS], state.plan[0])
        counters[PLANS] -= 1
        counters[CHANGED] = 1
        if planned == state.start[job] + jobs.runtime[job]:
            counters[FREE] += jobs.procs[job]
            state.planned[job] = LEFT
            continue
        planned = corrected(
            settings.correction, state.corrections[job], planned, state.start[job], estimates.end[job], jobs.requested[job]
        )
        plan_insert(state.plan, state.plan_procs, counters[PLANS], planned << bits | sequence, jobs.procs[job])
        counters[PLANS] += 1
        state.planned[job] = planned
        state.corrections[job] += 1


@kernel
def end_job(settings, jobs, state, memory):
    """The next running job ends: its processors are free, and the predictor learns its runtime."""
    counters = state.counters
    sequence = state.ends[0] & ((1 << settings.bits) - 1)
    heap_pop(state.ends, counters[ENDS])
    counters[ENDS] -= 1
    job = state.running[sequence]
    if state.planned[job] != LEFT:
        plan_remove(state.plan, state.plan_procs, counters[PLANS], state.planned[job] << settings.bits | sequence)
        counters[PLANS] -= 1
        counters[FREE] += jobs.procs[job]
    counters[CHANGED] = 1
    state.ended[counters[ENDED]] = job
    counters[ENDED] += 1
    learn(settings.predictor, memory, jobs.user[job], jobs.runtime[job])


@kernel
def promote_starving(settings, now, jobs, estimates, front, state):
    """Move waiting jobs that have waited longer than the threshold to the head of the primary queue, first come first served
    among them (Legrand et al., paper 000). Rows below ``counters[STARVING]`` have been dealt with."""
    counters = state.counters
    while counters[STARVING] < counters[NEXT] and now - jobs.submit[counters[STARVING]] > settings.starvation:
        job = counters[STARVING]
        waits = state.start[job] < 0
        if waits:
            leave(settings, front, primary_key(settings, job, now, jobs, estimates, counters), job, counters[WAITING])
        counters[STARVING] = job + 1
        if waits:
            key = primary_key(settings, job, now, jobs, estimates, counters)
            queue_insert(front, counters[WAITING] - 1, key, job, jobs.procs[job], estimates.fit[job])
            counters[CHANGED] = 1


@kernel
def submit_job(settings, jobs, estimates, memory, counters):
    """The next job arrives and, if a compiled predictor is at work, gets its estimates; returns its row."""
    job = counters[NEXT]
    counters[NEXT] = job + 1
    if settings.predictor != OUTSIDE and settings.predictor != TABLE:
        seconds = estimate(settings.predictor, memory, jobs.user[job], jobs.requested[job])
        estimates.order[job] = seconds
        estimates.fit[job] = seconds
        estimates.end[job] = seconds
    return job
