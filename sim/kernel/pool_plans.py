"""Plans of waiting jobs on a pool: several reservations, JustBF and Conservative.

**EASY with k reservations**: the first k waiting jobs that cannot start hold one each. Backfilling may delay none of
these jobs. The algorithm lies between EASY (k = 1) and a reservation for every job (Chiang, Arpaci-Dusseau & Vernon
2002 compare k). Jobs are tried in primary order until k hold a reservation, the rest in backfill order.

**JustBF** (Goponenko et al. 2022): every pass plans all waiting jobs again, in queue order. Each job is planned at the
earliest time that delays none planned before it; jobs planned for now start. Only starts now matter. So the pass first
finds a job that fits now beside the plans made so far, and plans the jobs in front of it only up to a horizon, the time
until which it would run. A job without a place before the horizon stays open: the plan is exact before the horizon, and
beyond it open jobs may still take room. A job planned to run beyond the horizon moves it. While all runs as planned and
new jobs join the end of the queue, a new plan would be the same, so before the horizon planning continues where it
stopped.

**Conservative backfilling** (Mu'alem & Feitelson 2001): every job holds a reservation. A job gets its reservation on
arrival and keeps it or gets an earlier one. When a job ends early the plan is compressed: in the order of their
reserved starts, waiting jobs are seated again, each at the earliest time that delays no job seated before it. This
delays no job: a job that moves forward takes nothing from jobs with later reservations. So the search for a new seat
can leave the job in the plan: before its reserved start no later job holds anything, and from then on the job itself
holds what it needs. Only an outlived prediction can move reservations back; then all jobs are seated again.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.kernel import state as slots
from sim.kernel.profile import (
    build_profile,
    earliest,
    fits_now,
    forget_searches,
    free_for,
    free_now,
    give_back,
    longest_run,
    most_free,
    pass_on,
    reserve_from,
    set_now,
    time_at,
)
from sim.kernel.queue import (
    BEGIN,
    BLOCK_BITS,
    END,
    HOLE,
    LONG,
    class_of,
    forget,
    insert_last,
    insertion_sort,
    is_hole,
    make_hole,
    narrowest,
    next_held,
    packed_remove,
)
from sim.kernel.state import start_job, undecided


@apart
def reserve_heads(reservations, now, jobs, estimates, front, profile, state, bits):
    """Walk the primary queue until ``reservations`` jobs hold one; return the next to start.

    The result is the index of the next job that may start now, or -1 if there is none. It is not started here; call
    this again after each start.
    """
    counters = state.counters
    build_profile(now, profile, state, bits)
    reserved = 0
    at = front.bounds[BEGIN]
    while at < front.bounds[END] and reserved < reservations:
        if is_hole(front, at, state.start):
            at += 1
            continue
        start = earliest(profile, counters, front.procs[at], front.fit[at], slots.NEVER, slots.NEVER)
        if start == 0:
            return at
        reserve_from(profile, counters, start, front.procs[at], front.fit[at])
        reserved += 1
        at += 1
    return -1


HORIZON, OPEN, WIDEST = range(3)
"""Slots of ``Profile.ahead``: the time before which the plan is exact; the index of the first open job (plans of all
jobs in front of it are exact at any time); a bound on the processors free at once before the horizon."""

AHEAD, NOW = range(2)
"""Rows of ``Profile.longest``, max seconds by class: for places that begin before the horizon, and for places that
begin now."""

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
    due, index = counters[slots.FREE] - free_now(profile), 0
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
    state.counters[slots.RESERVED] = 0
    state.counters[slots.AS_PLANNED] = slots.PLANNED
    profile.ahead[HORIZON] = profile.ahead[OPEN] = 0
    build_profile(now, profile, state, bits)
    plan_on(now, jobs, estimates, queue, profile, state, bits)


@apart
def plan_on(now, jobs, estimates, queue, profile, state, bits):
    """Plan the waiting jobs from the first not yet planned; start those due now."""
    counters = state.counters
    fitting = next_that_fits(counters[slots.RESERVED], queue, profile, counters)
    while fitting < queue.bounds[END] - queue.bounds[BEGIN]:
        at = queue.bounds[BEGIN] + fitting
        procs, seconds = queue.procs[at], queue.fit[at]
        look_ahead(fitting, now + seconds if counters[slots.WAITING] >= MANY else slots.NEVER, queue, profile, counters)
        if procs <= counters[slots.FREE] and fits_now(profile, counters, procs, seconds):
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
        state.counters[slots.AS_PLANNED] = slots.LATER
    make_hole(queue, at)
    forget(queue, at >> BLOCK_BITS)
    state.counters[slots.WAITING] -= 1
    return start_job(job, now, jobs, estimates, state, bits)


@kernel
def next_that_fits(index, queue, profile, counters):
    """Return the index of the next job that fits now, or the queue's length.

    Indices count from the queue's head.
    """
    begin, end, free = queue.bounds[BEGIN], queue.bounds[END], counters[slots.FREE]
    if free == 0:
        return end - begin
    at, singly_until, longest = begin + index, end, profile.longest[NOW]
    if end - at > LONG:
        singly_until = at
        for class_ in range(1, class_of(queue, free) + 1):
            longest[class_] = free_for(profile, counters, narrowest(class_), slots.NEVER)
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
    index, singly_until = counters[slots.RESERVED], upto
    if ahead[OPEN] < upto and ahead[HORIZON] < horizon:
        index = move_horizon(horizon, profile, counters)
    if upto - index > LONG:
        singly_until = index
    while index < upto:
        if index >= singly_until:
            held = next_held(queue, begin + index, begin + upto, ahead[WIDEST], longest) - begin
            for skipped in range(max(index, counters[slots.RESERVED]), held):
                profile.planned[skipped] = STARTED if queue.procs[begin + skipped] == HOLE else slots.NEVER
            index, singly_until = held, (((begin + held) >> BLOCK_BITS) + 1 << BLOCK_BITS) - begin
            counters[slots.RESERVED] = max(counters[slots.RESERVED], index)
            continue
        if index >= counters[slots.RESERVED] or profile.planned[index] == slots.NEVER:
            at = begin + index
            procs, seconds = queue.procs[at], queue.fit[at]
            place, planned = -1, STARTED if procs == HOLE else slots.NEVER
            if procs <= ahead[WIDEST] and seconds <= longest[class_of(queue, procs)]:
                place = earliest(profile, counters, procs, seconds, ahead[HORIZON], slots.NEVER)
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
        if ahead[OPEN] == index and profile.planned[index] != slots.NEVER:
            ahead[OPEN] += 1
        index += 1
        counters[slots.RESERVED] = max(counters[slots.RESERVED], index)


@kernel
def move_horizon(horizon, profile, counters):
    """Move the horizon; return the index of the first job to plan again."""
    profile.ahead[HORIZON] = horizon
    profile.ahead[WIDEST] = most_free(profile, counters, horizon)
    profile.longest[AHEAD, :] = slots.NEVER
    return profile.ahead[OPEN]


@kernel
def compress(again, steady, now, jobs, estimates, work, bits):
    """Seat all waiting jobs again; start those due now. Their keys are their reserved starts.

    With ``again`` the pass continues from the job that was undecided. If the plan is ``steady`` and no job may run
    longer than planned, only jobs that can start earlier are moved.
    """
    queue, profile, state = work.front, work.profile, work.state
    counters, advanced = state.counters, state.counters[slots.ADVANCED]
    if not again:
        if (
            not steady
            or counters[slots.AS_PLANNED] == slots.LATER
            or not advance_reservations(now, jobs, estimates, queue, profile, state, bits)
        ):
            counters[slots.RESERVED] = counters[slots.ADVANCED] = 0
            build_profile(now, profile, state, bits)
        counters[slots.HEARD] = counters[slots.ENDED]
    moved = again or counters[slots.ADVANCED] != advanced or counters[slots.RESERVED] < counters[slots.WAITING]
    while counters[slots.RESERVED] < counters[slots.WAITING] and counters[slots.UNDECIDED] == 0:
        seat(queue.bounds[BEGIN] + counters[slots.RESERVED], now, jobs, estimates, queue, profile, state, bits)
    if counters[slots.UNDECIDED] == 0:
        if moved:
            insertion_sort(queue, counters[slots.WAITING])
        counters[slots.AS_PLANNED] = slots.PLANNED


@kernel
def advance_reservations(now, jobs, estimates, queue, profile, state, bits):
    """Start the jobs due now, and move others into processors that came free early.

    A job can only start earlier before ``freed``, the end of the last time given back. A time that a search has ruled
    out for a kind of jobs stays ruled out: the search looked no further than the reserved start of its job, and later
    jobs that move give back processors only from their own reserved starts on. Returns False after so many moves that
    rebuilding the profile is better, as moves only add entries to it.
    """
    counters = state.counters
    pass_on(profile, counters, now)
    freed = now
    for i in range(counters[slots.HEARD], counters[slots.ENDED]):
        job = state.ended[i]
        if state.planned[job] > now:
            give_back(profile, counters, now, state.planned[job], jobs.procs[job])
            freed = max(freed, state.planned[job])
    forget_searches(profile.searched)
    kept = 0
    while kept < counters[slots.RESERVED]:
        at = queue.bounds[BEGIN] + kept
        procs, seconds, due = queue.procs[at], queue.fit[at], np.int64(queue.key[at])
        if due > now:
            if freed == now:
                break
            place = earliest(profile, counters, procs, seconds, min(due, freed), due)
            if place < 0:
                kept += 1
                continue
            if counters[slots.ADVANCED] > counters[slots.PLANS] + counters[slots.WAITING]:
                return False
            counters[slots.ADVANCED] += 1
            start = time_at(profile, place)
            give_back(profile, counters, due, due + seconds, procs)
            reserve_from(profile, counters, place, procs, seconds)
            freed = max(freed, due + seconds)
            if start > now:
                queue.key[at] = start
                kept += 1
                continue
        job = queue.job[at]
        packed_remove(queue, counters[slots.WAITING], at)
        counters[slots.WAITING] -= 1
        counters[slots.RESERVED] -= 1
        start_job(job, now, jobs, estimates, state, bits)
    return True


@kernel
def admit(now, jobs, estimates, queue, profile, state, bits):
    """Seat the job just arrived, at the end of the queue, in a plan that still holds."""
    set_now(profile, now)
    if seat(queue.bounds[BEGIN] + state.counters[slots.WAITING] - 1, now, jobs, estimates, queue, profile, state, bits):
        insert_last(queue, state.counters[slots.WAITING])


@apart
def seat(at, now, jobs, estimates, queue, profile, state, bits):
    """Reserve the earliest start for the job at index ``at``; return whether the job waits.

    The job starts if that is now, and the pass stops if the job is undecided.
    """
    counters = state.counters
    procs, seconds = queue.procs[at], queue.fit[at]
    start = earliest(profile, counters, procs, seconds, slots.NEVER, slots.NEVER)
    seated = True
    if start == 0:
        job = queue.job[at]
        if undecided(job, state):
            return False
        packed_remove(queue, counters[slots.WAITING], at)
        counters[slots.WAITING] -= 1
        seated = start_job(job, now, jobs, estimates, state, bits)
    else:
        counters[slots.RESERVED] += 1
        queue.key[at] = time_at(profile, start)
    if seated:
        reserve_from(profile, counters, start, procs, seconds)
    return start > 0
