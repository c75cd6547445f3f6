"""Conservative backfilling (Mu'alem & Feitelson 2001): every job holds a reservation.

A job gets its reservation on arrival and keeps it or an earlier one. When a job ends early the plan is compressed: waiting jobs
are seated anew in the order of their reserved starts, each at the earliest time that delays none seated before it. This delays no
job: one that moves forward takes nothing from those whose reservations start later. Only an outlived prediction can push
reservations back.
"""

from __future__ import annotations

from features.jit import kernel
from sim.kernel.just_backfill import build_profile, earliest, reserve_from
from sim.kernel.queue import BEGIN, insertion_sort, packed_remove
from sim.kernel.state import PROFILE, RESERVED, UNDECIDED, WAITING, start_job, undecided


@kernel
def compress(again, now, jobs, estimates, queue, profile, state, bits):
    """Seat all waiting jobs, whose keys are their reserved starts, anew; start those due now.

    Continues ``again`` from the job that was undecided.
    """
    counters = state.counters
    if not again:
        counters[RESERVED] = 0
        build_profile(now, profile, state, bits)
    while counters[RESERVED] < counters[WAITING] and (state.deciding is None or counters[UNDECIDED] == 0):
        counters[RESERVED] += seat(queue.bounds[BEGIN] + counters[RESERVED], now, jobs, estimates, queue, profile, state, bits)
    if state.deciding is None or counters[UNDECIDED] == 0:
        insertion_sort(queue, counters[WAITING])


@kernel
def admit(now, jobs, estimates, queue, profile, state, bits):
    """Seat the job at the end of the queue, just arrived, in a plan that still holds."""
    profile.time[0] = now
    seat(queue.bounds[BEGIN] + state.counters[WAITING] - 1, now, jobs, estimates, queue, profile, state, bits)
    insertion_sort(queue, state.counters[WAITING])


@kernel
def seat(at, now, jobs, estimates, queue, profile, state, bits):
    """Give the job at index ``at`` its earliest start; return whether it waits.

    The job starts if that is now.
    """
    counters = state.counters
    procs, seconds = queue.procs[at], queue.fit[at]
    start = earliest(profile, counters[PROFILE], procs, seconds)
    seated = True
    if start == 0:
        job = queue.job[at]
        if undecided(job, state):
            return False
        packed_remove(queue, counters[WAITING], at)
        counters[WAITING] -= 1
        seated = start_job(job, now, jobs, estimates, state, bits)
    if seated:
        reserve_from(profile, counters, start, procs, seconds)
    if start > 0:
        queue.key[at] = profile.time[start]
    return start > 0
