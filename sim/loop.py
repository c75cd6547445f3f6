"""The event loop: the only one. It advances a simulation until it is over or needs an answer from outside, and says which.

Per-second semantics (Goponenko et al. 2022): everything that happens in one second, ends first, then submissions in file order,
and then one scheduling pass. Expired predictions are corrected when a pass or the job's own end looks at them; they cause no pass.
"""

from __future__ import annotations

from typing import NamedTuple

from features.jit import kernel
from models.compiled import OUTSIDE, TABLE, estimate, learn
from sim.corrections import corrected
from sim.orders import order_key
from sim.passes import full_pass, submit_pass
from sim.state import ASKED, ENDED, ENDS, FREE, NEXT, PLANS, WAITING, heap_pop, plan_insert, plan_remove, queue_insert

DONE, ASK = range(2)
"""Why the loop stopped: everything has ended, or it wants estimates for the jobs submitted in this second, rows from ``counters[NEXT]`` on."""

NEVER = 1 << 62


class Settings(NamedTuple):
    """Integer codes of one simulation; ``bits`` is the width of a sequence number inside an event."""

    algorithm: int
    order: int
    backfill: int
    correction: int
    predictor: int
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
        corrections = correct_expired(settings, now, jobs, state)

        last = counters[NEXT]
        while last < total and jobs.submit[last] == now:
            last += 1
        same_order = settings.order == settings.backfill
        if last - counters[NEXT] == 1 and ended == 0 and corrections == 0 and counters[WAITING] > 0:
            job = submit_job(settings, jobs, estimates, memory, counters)
            head = front.job[front.begin[0]]
            key = order_key(settings.order, jobs.submit[job], jobs.procs[job], estimates.order[job])
            if key >= front.key[front.begin[0]]:
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
    key = order_key(settings.order, jobs.submit[job], procs, estimates.order[job])
    queue_insert(front, counters[WAITING], key, job, procs, estimates.fit[job])
    if settings.order != settings.backfill:
        key = order_key(settings.backfill, jobs.submit[job], procs, estimates.order[job])
        queue_insert(back, counters[WAITING], key, job, procs, estimates.fit[job])
    counters[WAITING] += 1
