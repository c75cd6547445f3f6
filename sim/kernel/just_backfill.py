"""JustBF (Goponenko et al. 2022): every pass plans all waiting jobs anew, in queue order.

Each job is planned at the earliest time that delays none planned before it; those planned for now start. Only starts now matter,
so a job that fits beside what is planned already is looked for first, and the jobs in front of it are planned only as far ahead
as it would run: up to a horizon. A job without a place before the horizon is left open; the plan is exact before the horizon, and
beyond it has room that open jobs may take. A job whose place reaches beyond moves the horizon. All this goes on where it stopped
if a job that fits arrives while nothing else has changed.
"""

from __future__ import annotations

from features.jit import kernel
from sim.kernel.profile import build_profile, class_of, earliest, first_of, fits_now, longest_run, most_free, reserve_from, time_at
from sim.kernel.queue import BEGIN, HOLE, packed_remove
from sim.kernel.state import FREE, NEVER, RESERVED, WAITING, start_job, undecided

HORIZON, OPEN, WIDEST = range(3)
"""Slots of ``Profile.ahead``: the time before which the plan is exact; the index of the first open job, so that the plan of those
in front of it is exact at any time; and how many processors at most are free at once before the horizon."""

MANY = 64
"""Waiting jobs from which on there is a horizon."""


@kernel
def plan_anew(now, jobs, estimates, queue, profile, state, bits):
    """Plan the waiting jobs; start those due now."""
    state.counters[RESERVED] = 0
    profile.ahead[HORIZON] = profile.ahead[OPEN] = 0
    build_profile(now, profile, state, bits)
    plan_on(now, jobs, estimates, queue, profile, state, bits)


@kernel
def plan_on(now, jobs, estimates, queue, profile, state, bits):
    """Plan the waiting jobs from the first that was not looked at; start those due now."""
    counters = state.counters
    fitting = next_that_fits(counters[RESERVED], queue, profile, counters)
    while fitting < counters[WAITING]:
        at = queue.bounds[BEGIN] + fitting
        procs, seconds = queue.procs[at], queue.fit[at]
        look_ahead(fitting, now + seconds if counters[WAITING] >= MANY else NEVER, queue, profile, counters)
        if procs <= counters[FREE] and fits_now(profile, counters, procs, seconds):
            job = queue.job[at]
            if undecided(job, state):
                return
            packed_remove(queue, counters[WAITING], at)
            counters[WAITING] -= 1
            if start_job(job, now, jobs, estimates, state, bits):
                reserve_from(profile, counters, 0, procs, seconds)
        fitting = next_that_fits(fitting, queue, profile, counters)


@kernel
def next_that_fits(index, queue, profile, counters):
    """Return the index of the next job that fits now, or the queue's length.

    Indices count from the queue's head.
    """
    at, end = queue.bounds[BEGIN] + index, queue.bounds[BEGIN] + counters[WAITING]
    wide, long = HOLE, HOLE  # does not fit, and so does none that is no narrower and no shorter
    while at < end:
        procs, seconds = queue.procs[at], queue.fit[at]
        if procs <= counters[FREE] and (procs < wide or seconds < long):
            if fits_now(profile, counters, procs, seconds):
                break
            if procs <= wide and seconds <= long:
                wide, long = procs, seconds
        at += 1
    return at - queue.bounds[BEGIN]


@kernel
def look_ahead(upto, horizon, queue, profile, counters):
    """Make the plan of the first ``upto`` jobs exact before ``horizon``."""
    ahead = profile.ahead
    index = counters[RESERVED]
    if ahead[OPEN] < upto and ahead[HORIZON] < horizon:
        index = move_horizon(horizon, profile, counters)
    while index < upto:
        if index >= counters[RESERVED] or profile.open[index] == 1:
            at = queue.bounds[BEGIN] + index
            procs, seconds = queue.procs[at], queue.fit[at]
            place = -1
            if procs <= ahead[WIDEST] and seconds <= profile.longest[class_of(procs)]:
                place = earliest(profile, counters, procs, seconds, ahead[HORIZON])
                if place < 0:
                    profile.longest[class_of(procs)] = longest_run(profile, counters, first_of(class_of(procs)), ahead[HORIZON])
            if place >= 0:
                end = time_at(profile, place) + seconds
                if ahead[OPEN] < index and end > ahead[HORIZON]:
                    index = move_horizon(end, profile, counters)
                    continue
                reserve_from(profile, counters, place, procs, seconds)
            profile.open[index] = place < 0
        if ahead[OPEN] == index and profile.open[index] == 0:
            ahead[OPEN] += 1
        index += 1
        counters[RESERVED] = max(counters[RESERVED], index)


@kernel
def move_horizon(horizon, profile, counters):
    """Move the horizon; return the index of the first job to look at again."""
    profile.ahead[HORIZON] = horizon
    profile.ahead[WIDEST] = most_free(profile, counters, horizon)
    for i in range(len(profile.longest)):
        profile.longest[i] = NEVER
    return profile.ahead[OPEN]
