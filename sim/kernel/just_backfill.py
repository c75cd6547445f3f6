"""JustBF (Goponenko et al. 2022): every pass plans all waiting jobs anew, in queue order.

Each job is planned at the earliest time that delays none planned before it; those planned for now start. Only starts now matter,
so planning stops where no later job fits the processors that are still free now, and resumes there if a job that fits arrives
while nothing else has changed.
"""

from __future__ import annotations

from features.jit import kernel
from sim.kernel.queue import BEGIN, packed_remove
from sim.kernel.state import FREE, PLANS, PROFILE, RESERVED, WAITING, start_job, undecided


@kernel
def build_profile(now, profile, state, bits):
    """Build the profile of free processors from the running jobs' predicted ends.

    From ``profile.time[i]`` on, ``profile.free[i]`` are free.
    """
    counters = state.counters
    profile.time[0] = now
    profile.free[0] = counters[FREE]
    size = 1
    for i in range(counters[PLANS]):
        end = state.plan[i] >> bits
        if end == profile.time[size - 1]:
            profile.free[size - 1] += state.plan_procs[i]
        else:
            profile.time[size] = end
            profile.free[size] = profile.free[size - 1] + state.plan_procs[i]
            size += 1
    counters[PROFILE] = size


@kernel
def earliest(profile, size, procs, seconds):
    """Return the profile's index from which ``procs`` processors are free for ``seconds``.

    There is always one, the last.
    """
    start = 0
    i = 0
    while i < size:
        if profile.free[i] < procs:
            start = i + 1
        elif i + 1 == size or profile.time[i + 1] - profile.time[start] >= seconds:
            return start
        i += 1
    return start


@kernel
def reserve_from(profile, counters, start, procs, seconds):
    """Take ``procs`` processors for ``seconds`` from index ``start`` of the profile on."""
    size = counters[PROFILE]
    end = profile.time[start] + seconds
    stop = start
    while stop < size and profile.time[stop] < end:
        stop += 1
    if stop == size or profile.time[stop] > end:
        for i in range(size, stop, -1):
            profile.time[i] = profile.time[i - 1]
            profile.free[i] = profile.free[i - 1]
        profile.time[stop] = end
        profile.free[stop] = profile.free[stop - 1]
        counters[PROFILE] = size + 1
    for i in range(start, stop):
        profile.free[i] -= procs


@kernel
def plan_on(now, jobs, estimates, queue, profile, state, bits):
    """Plan the waiting jobs from the first without a reservation; start those due now."""
    counters = state.counters
    at = queue.bounds[BEGIN] + counters[RESERVED]
    fits = 0  # waiting jobs from here on that fit the processors free now
    for i in range(at, queue.bounds[BEGIN] + counters[WAITING]):
        if queue.procs[i] <= counters[FREE]:
            fits += 1
    while fits > 0:
        procs = queue.procs[at]
        fitted = procs <= counters[FREE]
        seconds = queue.fit[at]
        start = earliest(profile, counters[PROFILE], procs, seconds)
        seated = True
        if start == 0:
            job = queue.job[at]
            if undecided(job, state):
                return
            if not packed_remove(queue, counters[WAITING], at):
                at += 1
            counters[WAITING] -= 1
            seated = start_job(job, now, jobs, estimates, state, bits)
        if seated:
            reserve_from(profile, counters, start, procs, seconds)
        if start > 0:
            fits -= fitted
            counters[RESERVED] += 1
            at += 1
            continue
        fits = 0
        for i in range(at, queue.bounds[BEGIN] + counters[WAITING]):
            if queue.procs[i] <= counters[FREE]:
                fits += 1
