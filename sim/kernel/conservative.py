"""Conservative backfilling (Mu'alem & Feitelson 2001): every job holds a reservation.

A job gets its reservation on arrival and keeps it or gets an earlier one. When a job ends early the plan is compressed: in the
order of their reserved starts, waiting jobs are seated again, each at the earliest time that delays no job seated before it. This
delays no job: a job that moves forward takes nothing from jobs with later reservations. So the search for a new seat can leave
the job in the plan: before its reserved start no later job holds anything, and from then on the job itself holds what it needs.
Only an outlived prediction can move reservations back; then all jobs are seated again.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.kernel.profile import (
    build_profile,
    earliest,
    give_back,
    pass_on,
    reserve_from,
    set_now,
    time_at,
)
from sim.kernel.queue import BEGIN, insert_last, insertion_sort, packed_remove
from sim.kernel.searched import forget_searches
from sim.kernel.state import (
    ADVANCED,
    AS_PLANNED,
    ENDED,
    HEARD,
    LATER,
    NEVER,
    PLANNED,
    PLANS,
    RESERVED,
    UNDECIDED,
    WAITING,
    start_job,
    undecided,
)


@kernel
def compress(again, steady, now, jobs, estimates, queue, profile, state, bits):
    """Seat all waiting jobs again; start those due now. Their keys are their reserved starts.

    With ``again`` the pass continues from the job that was undecided. If the plan is ``steady`` and no job may run longer than
    planned, only jobs that can start earlier are moved.
    """
    counters, advanced = state.counters, state.counters[ADVANCED]
    if not again:
        if not steady or counters[AS_PLANNED] == LATER or not go_on(now, jobs, estimates, queue, profile, state, bits):
            counters[RESERVED] = counters[ADVANCED] = 0
            build_profile(now, profile, state, bits)
        counters[HEARD] = counters[ENDED]
    moved = again or counters[ADVANCED] != advanced or counters[RESERVED] < counters[WAITING]
    while counters[RESERVED] < counters[WAITING] and counters[UNDECIDED] == 0:
        seat(queue.bounds[BEGIN] + counters[RESERVED], now, jobs, estimates, queue, profile, state, bits)
    if counters[UNDECIDED] == 0:
        if moved:
            insertion_sort(queue, counters[WAITING])
        counters[AS_PLANNED] = PLANNED


@kernel
def go_on(now, jobs, estimates, queue, profile, state, bits):
    """Start the jobs due now, and move others into processors that came free early.

    A job can only start earlier before ``freed``, the end of the last time given back. A time that a search has ruled out for a
    kind of jobs stays ruled out: the search looked no further than the reserved start of its job, and later jobs that move give
    back processors only from their own reserved starts on. Returns False after so many moves that rebuilding the profile is
    better, as moves only add entries to it.
    """
    counters = state.counters
    pass_on(profile, counters, now)
    freed = now
    for i in range(counters[HEARD], counters[ENDED]):
        job = state.ended[i]
        if state.planned[job] > now:
            give_back(profile, counters, now, state.planned[job], jobs.procs[job])
            freed = max(freed, state.planned[job])
    forget_searches(profile.searched)
    kept = 0
    while kept < counters[RESERVED]:
        at = queue.bounds[BEGIN] + kept
        procs, seconds, due = queue.procs[at], queue.fit[at], np.int64(queue.key[at])
        if due > now:
            if freed == now:
                break
            place = earliest(profile, counters, procs, seconds, min(due, freed), due)
            if place < 0:
                kept += 1
                continue
            if counters[ADVANCED] > counters[PLANS] + counters[WAITING]:
                return False
            counters[ADVANCED] += 1
            start = time_at(profile, place)
            give_back(profile, counters, due, due + seconds, procs)
            reserve_from(profile, counters, place, procs, seconds)
            freed = max(freed, due + seconds)
            if start > now:
                queue.key[at] = start
                kept += 1
                continue
        job = queue.job[at]
        packed_remove(queue, counters[WAITING], at)
        counters[WAITING] -= 1
        counters[RESERVED] -= 1
        start_job(job, now, jobs, estimates, state, bits)
    return True


@kernel
def admit(now, jobs, estimates, queue, profile, state, bits):
    """Seat the job just arrived, at the end of the queue, in a plan that still holds."""
    set_now(profile, now)
    if seat(queue.bounds[BEGIN] + state.counters[WAITING] - 1, now, jobs, estimates, queue, profile, state, bits):
        insert_last(queue, state.counters[WAITING])


@apart
def seat(at, now, jobs, estimates, queue, profile, state, bits):
    """Reserve the earliest start for the job at index ``at``; return whether the job waits.

    The job starts if that is now, and the pass stops if the job is undecided.
    """
    counters = state.counters
    procs, seconds = queue.procs[at], queue.fit[at]
    start = earliest(profile, counters, procs, seconds, NEVER, NEVER)
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
