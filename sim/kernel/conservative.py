"""Conservative backfilling (Mu'alem & Feitelson 2001): every job holds a reservation.

A job gets its reservation on arrival and keeps it or an earlier one. When a job ends early the plan is compressed: waiting jobs
are seated anew in the order of their reserved starts, each at the earliest time that delays none seated before it. This delays no
job: one that moves forward takes nothing from those whose reservations start later. Only an outlived prediction can push
reservations back. While all goes as planned, compressing would change nothing, and jobs start as they are due.
"""

from __future__ import annotations

from features.jit import kernel
from sim.kernel.profile import build_profile, earliest, pass_on, reserve_from, set_now, time_at
from sim.kernel.queue import BEGIN, insert_last, insertion_sort, packed_remove
from sim.kernel.state import AS_PLANNED, NEVER, RESERVED, UNDECIDED, WAITING, start_job, undecided


@kernel
def compress(again, steady, now, jobs, estimates, queue, profile, state, bits):
    """Seat all waiting jobs, whose keys are their reserved starts, anew; start those due now.

    Continues ``again`` from the job that was undecided. Where a plan is ``steady`` and all went as planned, only new jobs are
    seated.
    """
    counters = state.counters
    if not again:
        if steady and counters[AS_PLANNED] == 1:
            go_on(now, jobs, estimates, queue, profile, state, bits)
        else:
            counters[RESERVED] = 0
            build_profile(now, profile, state, bits)
    while counters[RESERVED] < counters[WAITING] and counters[UNDECIDED] == 0:
        seat(queue.bounds[BEGIN] + counters[RESERVED], now, jobs, estimates, queue, profile, state, bits)
    if counters[UNDECIDED] == 0:
        insertion_sort(queue, counters[WAITING])
        counters[AS_PLANNED] = 1


@kernel
def go_on(now, jobs, estimates, queue, profile, state, bits):
    """Let time pass in a plan that still holds: start the jobs due now."""
    counters = state.counters
    pass_on(profile, counters, now)
    while counters[RESERVED] > 0 and queue.key[queue.bounds[BEGIN]] <= now:
        job = queue.job[queue.bounds[BEGIN]]
        packed_remove(queue, counters[WAITING], queue.bounds[BEGIN])
        counters[WAITING] -= 1
        counters[RESERVED] -= 1
        start_job(job, now, jobs, estimates, state, bits)


@kernel
def admit(now, jobs, estimates, queue, profile, state, bits):
    """Seat the job at the end of the queue, just arrived, in a plan that still holds."""
    set_now(profile, now)
    if seat(queue.bounds[BEGIN] + state.counters[WAITING] - 1, now, jobs, estimates, queue, profile, state, bits):
        insert_last(queue, state.counters[WAITING])


@kernel
def seat(at, now, jobs, estimates, queue, profile, state, bits):
    """Give the job at index ``at`` its earliest start; return whether it waits.

    The job starts if that is now.
    """
    counters = state.counters
    procs, seconds = queue.procs[at], queue.fit[at]
    start = earliest(profile, counters, procs, seconds, NEVER)
    seated = True
    if start == 0:
        job = queue.job[at]
        if undecided(job, state):
            return False
        packed_remove(queue, counters[WAITING], at)
        counters[WAITING] -= 1
        seated = start_job(job, now, jobs, estimates, state, bits)
    else:
        counters[RESERVED] += 1
        queue.key[at] = time_at(profile, start)
    if seated:
        reserve_from(profile, counters, start, procs, seconds)
    return start > 0
