"""JustBF (Goponenko et al. 2022): every pass plans all waiting jobs again, in queue order.

Each job is planned at the earliest time that delays none planned before it; jobs planned for now start. Only starts now matter.
So the pass first finds a job that fits now beside the plans made so far, and plans the jobs in front of it only up to a horizon,
the time until which it would run. A job without a place before the horizon stays open: the plan is exact before the horizon, and
beyond it open jobs may still take room. A job planned to run beyond the horizon moves it. While all runs as planned and new jobs
join the end of the queue, a new plan would be the same, so before the horizon planning continues where it stopped.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel.profile import (
    build_profile,
    earliest,
    fits_now,
    free_for,
    free_now,
    longest_run,
    most_free,
    pass_on,
    reserve_from,
    time_at,
)
from sim.kernel.queue import BEGIN, BLOCK_BITS, END, HOLE, LONG, class_of, forget, make_hole, narrowest, next_held
from sim.kernel.state import AS_PLANNED, FREE, LATER, NEVER, PLANNED, RESERVED, WAITING, start_job, undecided

HORIZON, OPEN, WIDEST = range(3)
"""Slots of ``Profile.ahead``: the time before which the plan is exact; the index of the first open job (plans of all jobs in
front of it are exact at any time); a bound on the processors free at once before the horizon."""

AHEAD, NOW = range(2)
"""Rows of ``Profile.longest``, max seconds by class: for places that begin before the horizon, and for places that begin now."""

MANY = 64
"""Min waiting jobs for which a horizon is used."""

STARTED = -1
"""Planned start of a job that has started. That of an open job is NEVER."""


@kernel
def go_on(now, jobs, estimates, queue, profile, state, bits):
    """Start the jobs planned for now, and plan on; return False if a new plan is needed.

    Until now all has run as planned. A job left open has no place before the horizon, so at that time the plan ends.
    """
    counters = state.counters
    if now >= profile.ahead[HORIZON]:
        return False
    pass_on(profile, counters, now)
    due, index = counters[FREE] - free_now(profile), 0
    while due > 0:
        while profile.planned[index] != now:
            index += 1
        at = queue.bounds[BEGIN] + index
        profile.planned[index] = STARTED
        due -= queue.procs[at]
        start_at(at, now, jobs, estimates, queue, state, bits)
    plan_on(now, jobs, estimates, queue, profile, state, bits)
    return True


@kernel
def plan_anew(now, jobs, estimates, queue, profile, state, bits):
    """Begin a new plan, plan the waiting jobs, and start those due now."""
    state.counters[RESERVED] = 0
    state.counters[AS_PLANNED] = PLANNED
    profile.ahead[HORIZON] = profile.ahead[OPEN] = 0
    build_profile(now, profile, state, bits)
    plan_on(now, jobs, estimates, queue, profile, state, bits)


@apart
def plan_on(now, jobs, estimates, queue, profile, state, bits):
    """Plan the waiting jobs from the first not yet planned; start those due now."""
    counters = state.counters
    fitting = next_that_fits(counters[RESERVED], queue, profile, counters)
    while fitting < queue.bounds[END] - queue.bounds[BEGIN]:
        at = queue.bounds[BEGIN] + fitting
        procs, seconds = queue.procs[at], queue.fit[at]
        look_ahead(fitting, now + seconds if counters[WAITING] >= MANY else NEVER, queue, profile, counters)
        if procs <= counters[FREE] and fits_now(profile, counters, procs, seconds):
            if undecided(queue.job[at], state):
                return
            if start_at(at, now, jobs, estimates, queue, state, bits):
                reserve_from(profile, counters, 0, procs, seconds)
        fitting = next_that_fits(fitting, queue, profile, counters)


@kernel
def start_at(at, now, jobs, estimates, queue, state, bits):
    """Start the job at index ``at`` of the queue; return whether a start decision let it.

    If it is not predicted to end when its place in the plan does, the plan does not hold.
    """
    job = queue.job[at]
    if estimates.end[job] != queue.fit[at]:
        state.counters[AS_PLANNED] = LATER
    make_hole(queue, at)
    forget(queue, at >> BLOCK_BITS)
    state.counters[WAITING] -= 1
    return start_job(job, now, jobs, estimates, state, bits)


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
    wide, long = HOLE, HOLE  # does not fit; nor does a job at least as wide and as long
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
    """Make the plan of the first ``upto`` jobs exact, at least before ``horizon``."""
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
                profile.planned[skipped] = STARTED if queue.procs[begin + skipped] == HOLE else NEVER
            index, singly_until = held, (((begin + held) >> BLOCK_BITS) + 1 << BLOCK_BITS) - begin
            counters[RESERVED] = max(counters[RESERVED], index)
            continue
        if index >= counters[RESERVED] or profile.planned[index] == NEVER:
            at = begin + index
            procs, seconds = queue.procs[at], queue.fit[at]
            place, planned = -1, STARTED if procs == HOLE else NEVER
            if procs <= ahead[WIDEST] and seconds <= longest[class_of(queue, procs)]:
                place = earliest(profile, counters, procs, seconds, ahead[HORIZON], NEVER)
                if place < 0:
                    class_ = class_of(queue, procs)
                    longest[class_] = longest_run(profile, counters, narrowest(class_), ahead[HORIZON])
            if place >= 0:
                planned = time_at(profile, place)
                if ahead[OPEN] < index and planned + seconds > ahead[HORIZON]:
                    index = move_horizon(planned + seconds, profile, counters)
                    singly_until = index if upto - index > LONG else upto
                    continue
                reserve_from(profile, counters, place, procs, seconds)
            profile.planned[index] = planned
        if ahead[OPEN] == index and profile.planned[index] != NEVER:
            ahead[OPEN] += 1
        index += 1
        counters[RESERVED] = max(counters[RESERVED], index)


@kernel
def move_horizon(horizon, profile, counters):
    """Move the horizon; return the index of the first job to plan again."""
    profile.ahead[HORIZON] = horizon
    profile.ahead[WIDEST] = most_free(profile, counters, horizon)
    profile.longest[AHEAD, :] = NEVER
    return profile.ahead[OPEN]
