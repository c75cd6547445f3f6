"""JustBF (Goponenko et al. 2022): every pass plans all waiting jobs anew, in queue order.

Each job is planned at the earliest time that delays none planned before it; those planned for now start. Only starts now matter,
so planning stops behind the last job that fits beside what is planned already, and resumes there if a job that fits arrives while
nothing else has changed.
"""

from __future__ import annotations

from features.jit import kernel
from sim.kernel.profile import earliest, fits_now, reserve_from
from sim.kernel.queue import BEGIN, HOLE, packed_remove
from sim.kernel.state import FREE, RESERVED, WAITING, start_job, undecided


@kernel
def next_that_fits(at, queue, profile, counters):
    """Return the index of the next job that fits now from ``at`` on, or the queue's end."""
    end = queue.bounds[BEGIN] + counters[WAITING]
    wide, long = HOLE, HOLE  # does not fit, and so does none that is no narrower and no shorter
    while at < end:
        procs, seconds = queue.procs[at], queue.fit[at]
        if procs <= counters[FREE] and (procs < wide or seconds < long):
            if fits_now(profile, counters, procs, seconds):
                break
            if procs <= wide and seconds <= long:
                wide, long = procs, seconds
        at += 1
    return at


@kernel
def plan_on(now, jobs, estimates, queue, profile, state, bits):
    """Plan the waiting jobs from the first without a reservation; start those due now."""
    counters = state.counters
    at = queue.bounds[BEGIN] + counters[RESERVED]
    fitting = next_that_fits(at, queue, profile, counters)
    while fitting < queue.bounds[BEGIN] + counters[WAITING]:
        procs, seconds = queue.procs[at], queue.fit[at]
        start = earliest(profile, counters, procs, seconds)
        seated = True
        if start == 0:
            job = queue.job[at]
            if undecided(job, state):
                return
            if packed_remove(queue, counters[WAITING], at):
                fitting -= 1
            else:
                at += 1
            counters[WAITING] -= 1
            seated = start_job(job, now, jobs, estimates, state, bits)
        else:
            counters[RESERVED] += 1
            at += 1
        if seated:
            reserve_from(profile, counters, start, procs, seconds)
        if fitting < at or not (
            queue.procs[fitting] <= counters[FREE] and fits_now(profile, counters, queue.procs[fitting], queue.fit[fitting])
        ):
            fitting = next_that_fits(max(at, fitting), queue, profile, counters)
