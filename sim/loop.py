"""The event loop: the only one. It advances a simulation until it is over or needs an answer from outside, and says which.

Per-second semantics (Goponenko et al. 2022): everything that happens in one second, ends first, then submissions in file order,
and then one scheduling pass. Expired predictions are corrected when a pass or the job's own end looks at them; they cause no pass.
"""

from __future__ import annotations

from typing import NamedTuple

from features.jit import kernel
from models.compiled import OUTSIDE, TABLE, estimate, learn
from sim.corrections import corrected
from sim.passes import backfill_key, full_pass, leave, primary_key, submit_pass
from sim.state import ASKED, ENDED, ENDS, FREE, NEXT, PLANS, STARVING, WAITING, heap_pop, plan_insert, plan_remove, queue_insert

DONE, ASK = range(2)
"""Why the loop stopped: everything has ended, or it wants estimates for the jobs submitted in this second, rows from ``counters[NEXT]`` on."""

NEVER = 1 << 62


class Settings(NamedTuple):
    """Integer codes of one simulation.

    ``one_queue``: the primary queue is the backfill queue too (same order, and nothing that reorders one alone). ``starvation``: seconds of waiting after which
    a job goes to the head. ``bits``: width of a sequence number inside an event.
    """

    algorithm: int
    order: int
    backfill: int
    one_queue: bool
    correction: int
    predictor: int
    starvation: int
    bits: int


@kernel
def advance(settings, jobs, estimates, front, back, state, memory, now):
    """Run until done or in need of answers; returns (reason, now). ``now`` is 0 at first and what was returned last after that."""
    counters = state.counters
    total = len(jobs.submit)
    while True:
        ended = 0
        if counters[ASKED] == 0:
            now = jobs.submit[counters[NEXT]] if counters[NEXT] < total else NEVER
            if counters[ENDS] > 0:
                now = min(now, state.ends[0] >> settings.bits)
            if now == NEVER:
                return DONE, now
            ended = end_jobs(settings, now, jobs, state, memory)
            if settings.predictor == OUTSIDE and counters[NEXT] < total and jobs.submit[counters[NEXT]] == now:
                counters[ASKED] = 1 + ended
                return ASK, now
        else:
            ended = counters[ASKED] - 1
            counters[ASKED] = 0
        changed = (
            ended + correct_expired(settings, now, jobs, state) + promote_starving(settings, now, jobs, estimates, front, state)
        )

        last = counters[NEXT]
        while last < total and jobs.submit[last] == now:
            last += 1
        if last - counters[NEXT] == 1 and changed == 0 and counters[WAITING] > 0:
            job = submit_job(settings, jobs, estimates, memory, counters)
            head = front.job[front.begin[0]]
            if primary_key(settings, job, jobs, estimates, counters) >= front.key[front.begin[0]]:
                if not submit_pass(settings.algorithm, job, now, jobs, estimates, head, state, settings.bits):
                    enqueue(settings, job, jobs, estimates, front, back, counters)
                continue
            enqueue(settings, job, jobs, estimates, front, back, counters)
        while counters[NEXT] < last:
            enqueue(settings, submit_job(settings, jobs, estimates, memory, counters), jobs, estimates, front, back, counters)
        full_pass(settings, now, jobs, estimates, front, back, state)


@kernel
def end_jobs(settings, now, jobs, state, memory):
    """Take the jobs that end now off the machine, in order of their starts; returns how many."""
    counters = state.counters
    bits = settings.bits
    count = 0
    while counters[ENDS] > 0 and state.ends[0] >> bits == now:
        sequence = state.ends[0] & ((1 << bits) - 1)
        heap_pop(state.ends, counters[ENDS])
        counters[ENDS] -= 1
        job = state.running[sequence]
        planned = state.planned[job]
        plan_remove(state.plan, state.plan_procs, counters[PLANS], planned << bits | sequence)
        counters[PLANS] -= 1
        counters[FREE] += jobs.procs[job]
        while planned < now:  # outlived between two passes
            planned = corrected(settings.correction, state.start[job], jobs.requested[job])
            state.corrections[job] += 1
        state.ended[counters[ENDED]] = job
        counters[ENDED] += 1
        learn(settings.predictor, memory, jobs.user[job], jobs.runtime[job])
        count += 1
    return count


@kernel
def correct_expired(settings, now, jobs, state):
    """Give every running job whose predicted end has come a new one; returns how many were corrected."""
    counters = state.counters
    bits = settings.bits
    count = 0
    while counters[PLANS] > 0 and state.plan[0] >> bits <= now:
        sequence = state.plan[0] & ((1 << bits) - 1)
        job = state.running[sequence]
        plan_remove(state.plan, state.plan_procs, counters[PLANS], state.plan[0])
        planned = corrected(settings.correction, state.start[job], jobs.requested[job])
        plan_insert(state.plan, state.plan_procs, counters[PLANS] - 1, planned << bits | sequence, jobs.procs[job])
        state.planned[job] = planned
        state.corrections[job] += 1
        count += 1
    return count


@kernel
def promote_starving(settings, now, jobs, estimates, front, state):
    """Move waiting jobs that have waited longer than the threshold to the head of the primary queue, first come first served
    among them (Legrand et al., paper 000); returns how many. Rows below ``counters[STARVING]`` have been dealt with."""
    counters = state.counters
    count = 0
    while counters[STARVING] < counters[NEXT] and now - jobs.submit[counters[STARVING]] > settings.starvation:
        job = counters[STARVING]
        waits = state.start[job] < 0
        if waits:
            leave(front, primary_key(settings, job, jobs, estimates, counters), job, counters[WAITING])
        counters[STARVING] = job + 1
        if waits:
            key = primary_key(settings, job, jobs, estimates, counters)
            queue_insert(front, counters[WAITING] - 1, key, job, jobs.procs[job], estimates.fit[job])
            count += 1
    return count


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


@kernel
def enqueue(settings, job, jobs, estimates, front, back, counters):
    """``job`` takes its place among the waiting jobs, in the primary queue and, where its order differs, in the backfill queue."""
    procs = jobs.procs[job]
    queue_insert(front, counters[WAITING], primary_key(settings, job, jobs, estimates, counters), job, procs, estimates.fit[job])
    if not settings.one_queue:
        queue_insert(back, counters[WAITING], backfill_key(settings, job, jobs, estimates), job, procs, estimates.fit[job])
    counters[WAITING] += 1
