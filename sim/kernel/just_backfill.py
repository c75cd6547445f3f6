"""JustBF (Goponenko et al. 2022): every pass plans all waiting jobs anew, in queue order.

Each job is planned at the earliest time that delays none planned before it; those planned for now start. Only starts now matter,
so a job that fits beside what is planned already is looked for first, and the jobs in front of it are planned only as far ahead
as it would run: up to a horizon. A job without a place before the horizon is left open; the plan is exact before the horizon, and
beyond it has room that open jobs may take. A job whose place reaches beyond moves the horizon. All this goes on where it stopped
if a job that fits arrives while nothing else has changed.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel.profile import build_profile, earliest, fits_now, free_for, longest_run, most_free, reserve_from, time_at
from sim.kernel.queue import BEGIN, BLOCK_BITS, END, HOLE, LONG, class_of, forget, make_hole, narrowest, next_held
from sim.kernel.state import FREE, NEVER, RESERVED, WAITING, start_job, undecided

HORIZON, OPEN, WIDEST = range(3)
"""Slots of ``Profile.ahead``: the time before which the plan is exact; the index of the first open job, so that the plan of those
in front of it is exact at any time; and how many processors at most are free at once before the horizon."""

AHEAD, NOW = range(2)
"""Rows of ``Profile.longest``: of places that begin before the horizon; now, as far as it is looked for."""

MANY = 64
"""Waiting jobs from which on there is a horizon."""


@kernel
def plan_anew(now, jobs, estimates, queue, profile, state, bits):
    """Plan the waiting jobs; start those due now."""
    state.counters[RESERVED] = 0
    profile.ahead[HORIZON] = profile.ahead[OPEN] = 0
    build_profile(now, profile, state, bits)
    plan_on(now, jobs, estimates, queue, profile, state, bits)


@apart
def plan_on(now, jobs, estimates, queue, profile, state, bits):
    """Plan the waiting jobs from the first that was not looked at; start those due now."""
    counters = state.counters
    fitting = next_that_fits(counters[RESERVED], queue, profile, counters)
    while fitting < queue.bounds[END] - queue.bounds[BEGIN]:
        at = queue.bounds[BEGIN] + fitting
        procs, seconds = queue.procs[at], queue.fit[at]
        look_ahead(fitting, now + seconds if counters[WAITING] >= MANY else NEVER, queue, profile, counters)
        if procs <= counters[FREE] and fits_now(profile, counters, procs, seconds):
            job = queue.job[at]
            if undecided(job, state):
                return
            make_hole(queue, at)
            forget(queue, at >> BLOCK_BITS)
            counters[WAITING] -= 1
            if start_job(job, now, jobs, estimates, state, bits):
                reserve_from(profile, counters, 0, procs, seconds)
        fitting = next_that_fits(fitting, queue, profile, counters)


@kernel
def next_that_fits(index, queue, profile, counters):
    """Return the index of the next job that fits now, or the queue's length.

    Indices count from the queue's head.
    """
    begin, end, free = queue.bounds[BEGIN], queue.bounds[END], counters[FREE]
    if free == 0:
        return end - begin
    at, singly_until, longest = begin + index, end, profile.longest[NOW]
    if end - at > LONG:
        singly_until = at
        for class_ in range(1, class_of(queue, free) + 1):
            longest[class_] = free_for(profile, counters, narrowest(class_), NEVER)
    wide, long = HOLE, HOLE  # does not fit, and so does none that is no narrower and no shorter
    while at < end:
        if at >= singly_until:
            at = next_held(queue, at, end, free, longest)
            singly_until = ((at >> BLOCK_BITS) + 1) << BLOCK_BITS
            continue
        procs, seconds = queue.procs[at], queue.fit[at]
        if procs <= free and (procs < wide or seconds < long):
            if fits_now(profile, counters, procs, seconds):
                break
            if procs <= wide and seconds <= long:
                wide, long = procs, seconds
        at += 1
    return at - begin


@kernel
def look_ahead(upto, horizon, queue, profile, counters):
    """Make the plan of the first ``upto`` jobs exact before ``horizon``."""
    ahead, begin, longest = profile.ahead, queue.bounds[BEGIN], profile.longest[AHEAD]
    index, singly_until = counters[RESERVED], upto
    if ahead[OPEN] < upto and ahead[HORIZON] < horizon:
        index = move_horizon(horizon, profile, counters)
    if upto - index > LONG:
        singly_until = index
    while index < upto:
        if index >= singly_until:
            held = next_held(queue, begin + index, begin + upto, ahead[WIDEST], longest) - begin
            for skipped in range(max(index, counters[RESERVED]), held):
                profile.open[skipped] = queue.procs[begin + skipped] != HOLE
            index, singly_until = held, (((begin + held) >> BLOCK_BITS) + 1 << BLOCK_BITS) - begin
            counters[RESERVED] = max(counters[RESERVED], index)
            continue
        if index >= counters[RESERVED] or profile.open[index] == 1:
            at = begin + index
            procs, seconds = queue.procs[at], queue.fit[at]
            place = -1
            if procs <= ahead[WIDEST] and seconds <= longest[class_of(queue, procs)]:
                place = earliest(profile, counters, procs, seconds, ahead[HORIZON], NEVER)
                if place < 0:
                    class_ = class_of(queue, procs)
                    longest[class_] = longest_run(profile, counters, narrowest(class_), ahead[HORIZON])
            if place >= 0:
                end = time_at(profile, place) + seconds
                if ahead[OPEN] < index and end > ahead[HORIZON]:
                    index = move_horizon(end, profile, counters)
                    singly_until = index if upto - index > LONG else upto
                    continue
                reserve_from(profile, counters, place, procs, seconds)
            profile.open[index] = place < 0 and procs != HOLE
        if ahead[OPEN] == index and profile.open[index] == 0:
            ahead[OPEN] += 1
        index += 1
        counters[RESERVED] = max(counters[RESERVED], index)


@kernel
def move_horizon(horizon, profile, counters):
    """Move the horizon; return the index of the first job to look at again."""
    profile.ahead[HORIZON] = horizon
    profile.ahead[WIDEST] = most_free(profile, counters, horizon)
    profile.longest[AHEAD, :] = NEVER
    return profile.ahead[OPEN]
