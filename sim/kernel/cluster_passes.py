"""The scheduling passes on a machine of clusters: which jobs start now, and where.

The algorithms are those of :mod:`sim.kernel.passes`; on one cluster of one node they give the same schedules. A job
starts in the first cluster, in their order, in which it may start. If the algorithm reserves for a waiting job, the job
gets the earliest start of all clusters. One walk through the predicted ends finds EASY's single reservation; all others
are made in the plan.

OrigBF backfills several queues by fair share. It is the scheduler that PlanRS replaced (Klusacek & Chlumsky 2016).

Waiting jobs are sorted by their queue, then by the usage of their user, least first, then by submission. Usage is in
processor-seconds, of running jobs up to now, and halved every half-life. In this order each job gets the earliest start
that delays none before it (conservative backfilling). By option, reservations are made again at each pass, so that a
user with less usage can take the place of a reservation, or they are kept, and jobs with a reservation come first, in
order of their reserved starts.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.kernel.cluster_room import first_room, known_to_wait, start_behind
from sim.kernel.clusters import (
    RESERVATIONS,
    RESERVED_FOR,
    closed,
    insert,
    join,
    leave,
    line_up,
    plan_running,
    start_in,
    start_planned,
)
from sim.kernel.passes import CONSERVATIVE, EASY, JUSTBF, LIST, ORIGBF, PLANRS, STRICT, primary_key
from sim.kernel.planning import planned_pass
from sim.kernel.planning_seats import BITS, KEEPS, PLACED, SEEN_AT, SEEN_ENDS, user_of
from sim.kernel.profile import forget_searches, rule_out, ruled_out
from sim.kernel.state import AS_PLANNED, EARLIER, ENDED, EVENTS, LATER, NEVER, NEXT, PLANNED, PLANS, WAITING
from sim.machine.nodes import NOWHERE
from sim.machine.plan import NO_START, drop_past, foresee_end, reserve, seat, withdraw


@apart
def clusters_pass(settings, now, jobs, estimates, state, clusters):
    """Start every job that may start."""
    clusters.numbers[RESERVED_FOR] = 0  # a reservation holds until the next pass
    clusters.numbers[RESERVATIONS] += 1
    if state.counters[WAITING] == 0:
        return
    running = state.counters[PLANS]
    if settings.algorithm == ORIGBF:
        line_up_by_usage(now, settings.bits, state, clusters)
    elif settings.algorithm != PLANRS:
        line_up(settings, now, jobs, estimates, state, clusters)
    if settings.algorithm == PLANRS:
        planned_pass(now, jobs, estimates, state, clusters, settings.bits)
    elif settings.algorithm == CONSERVATIVE:
        compress(settings, now, jobs, estimates, state, clusters)
    elif settings.algorithm == JUSTBF or settings.algorithm == ORIGBF:
        plan_all(settings, now, jobs, estimates, state, clusters)
    else:
        first = start_in_order(settings, now, jobs, estimates, state, clusters)
        if settings.algorithm == EASY and first < state.counters[WAITING]:
            if settings.reservations == 1:
                backfill(settings, first, now, jobs, estimates, state, clusters)
            else:
                backfill_behind_several(settings, now, jobs, estimates, state, clusters)
    if state.counters[PLANS] > running:
        leave(settings, state, clusters)


@kernel
def start_in_order(settings, now, jobs, estimates, state, clusters):
    """Start jobs that fit now, in primary order; return the index of the first that does not.

    Strict and EASY stop there; List goes on. Jobs that may not start at this hour are passed over.
    """
    first = NEVER
    i = 0
    while i < state.counters[WAITING]:
        job = clusters.front.job[i]
        if closed(job, estimates.fit[job], now, clusters):
            i += 1
            continue
        cluster = first_room(job, clusters)
        if cluster != NOWHERE:
            start_in(job, cluster, now, jobs, estimates, state, clusters, settings.bits)
        else:
            first = min(first, i)
            if settings.algorithm == STRICT or settings.algorithm == EASY:
                break
        i += 1
    return first


@kernel
def backfill(settings, first, now, jobs, estimates, state, clusters):
    """Backfill: start jobs that may start while the head, at index ``first``, waits."""
    head, line = clusters.front.job[first], clusters.front if settings.one_queue else clusters.back
    for i in range(first + 1 if settings.one_queue else 0, state.counters[WAITING]):
        if not known_to_wait(line.kind[i], estimates.fit[line.job[i]], now, clusters) and state.start[line.job[i]] < 0:
            start_behind(head, line.job[i], now, jobs, estimates, state, clusters, settings.bits)


@kernel
def submit_alone(settings, job, now, jobs, estimates, state, clusters):
    """Start ``job``, just submitted, or let it wait; return False if a pass is needed.

    Nothing has changed since the last pass, so jobs that could not start then still cannot.
    """
    counters, front = state.counters, clusters.front
    if len(clusters.hours.latest) > 0:  # the first in line may not be allowed to start at this hour
        join(settings, job, now, jobs, estimates, state, clusters)
        return False
    behind = settings.algorithm == LIST or (
        (settings.algorithm == STRICT or settings.algorithm == EASY)
        and primary_key(settings, job, now, jobs, estimates, counters) >= front.key[0]
    )
    started = False
    if behind and settings.algorithm == LIST:
        cluster = first_room(job, clusters)
        started = cluster != NOWHERE
        if started:
            start_in(job, cluster, now, jobs, estimates, state, clusters, settings.bits)
    elif behind and settings.algorithm == EASY:
        waits = known_to_wait(clusters.refusals.kind[clusters.nodes.row[job]], estimates.fit[job], now, clusters)
        started = not waits and start_behind(front.job[0], job, now, jobs, estimates, state, clusters, settings.bits)
    if not started:
        join(settings, job, now, jobs, estimates, state, clusters)
    return behind


@kernel
def backfill_behind_several(settings, now, jobs, estimates, state, clusters):
    """Reserve for the first jobs that cannot start, then start others that delay none of them.

    If one of the first jobs starts, all reservations are made again.
    """
    line, begun = clusters.front if settings.one_queue else clusters.back, True
    while begun:
        begun, reserved, i = False, 0, 0
        plan_running(settings.bits, state, clusters)
        while not begun and reserved < settings.reservations and i < state.counters[WAITING]:
            job = clusters.front.job[i]
            if state.start[job] < 0:
                start = seat_job(job, now, NO_START, jobs, estimates, state, clusters, settings.bits)
                begun = start == now
                reserved += 1 if start < NO_START else 0
            i += 1
    for i in range(state.counters[WAITING]):
        job = line.job[i]
        if state.start[job] < 0 and first_room(job, clusters) != NOWHERE:
            seat_job(job, now, now, jobs, estimates, state, clusters, settings.bits)


@kernel
def plan_all(settings, now, jobs, estimates, state, clusters):
    """Plan the waiting jobs in order, each at its earliest start that delays none before it.

    Stop after the last job that may start now, unless planned starts are kept.
    """
    planner = clusters.planner
    keeps = planner.numbers[KEEPS] != 0
    last = state.counters[WAITING] - 1 if keeps else last_that_fits(state.counters[WAITING] - 1, state, clusters)
    if last >= 0:
        plan_running(settings.bits, state, clusters)
    i = 0
    while i <= last:
        job = clusters.front.job[i]
        start = seat_job(job, now, NO_START, jobs, estimates, state, clusters, settings.bits)
        if keeps:
            planner.at[job] = start
        elif start == now:
            last = last_that_fits(last, state, clusters)
        i += 1


@kernel
def last_that_fits(last, state, clusters):
    """Return the index, up to ``last``, of the last waiting job that fits now, or -1."""
    while last >= 0 and (state.start[clusters.front.job[last]] >= 0 or first_room(clusters.front.job[last], clusters) == NOWHERE):
        last -= 1
    return last


@kernel
def compress(settings, now, jobs, estimates, state, clusters):
    """Seat waiting jobs earlier where that has become possible, then new ones.

    Their keys are their planned starts. If all jobs run as planned, the jobs due start. After early ends each job in
    turn is planned again among the plans of all others, so it is never planned later than before. If some job may run
    longer than planned, plans may no longer hold: all are made again, in the order of the old ones.
    """
    counters, nodes, plan, line = state.counters, clusters.nodes, clusters.plan, clusters.front
    held = counters[AS_PLANNED] if settings.steady else LATER
    if held == PLANNED:
        drop_past(now, plan)
    else:
        plan_running(settings.bits, state, clusters)
    for i in range(counters[WAITING]):
        job = line.job[i]
        if held == EARLIER and line.key[i] < NO_START:
            reserve(nodes.row[job], np.int64(line.key[i]), estimates.fit[job], nodes, plan)
    for i in range(counters[WAITING]):
        job = line.job[i]
        if line.key[i] < NO_START and held == PLANNED:
            if line.key[i] <= now:
                start_planned(job, now, jobs, estimates, state, clusters, settings.bits)
            continue
        if line.key[i] < NO_START and held == EARLIER:
            withdraw(nodes.row[job], np.int64(line.key[i]), estimates.fit[job], nodes, plan)
            forget_searches(clusters.searched)
        start = seat_job(job, now, NO_START, jobs, estimates, state, clusters, settings.bits)
        line.key[i] = start if start < NO_START else np.inf
    for i in range(counters[WAITING]):
        insert(line, i, line.job[i], line.key[i], line.kind[i])
    counters[AS_PLANNED] = PLANNED


@apart
def seat_job(job, now, latest, jobs, estimates, state, clusters, bits):
    """Seat ``job`` in the plan, not after ``latest``; return its start, or NO_START.

    The job starts if that is now.
    """
    nodes, row, seconds = clusters.nodes, clusters.nodes.row[job], estimates.fit[job]
    searched, kind = clusters.searched, clusters.refusals.kind[row]
    state.counters[EVENTS] -= 1
    start = seat(row, seconds, max(now, ruled_out(searched, kind, seconds)), latest, nodes, clusters.plan)
    if start < NO_START:
        rule_out(searched, kind, seconds, start)
    if start == now:
        start_planned(job, now, jobs, estimates, state, clusters, bits)
        foresee_end(row, now + seconds, nodes, clusters.plan)
    elif start < NO_START:
        reserve(row, start, seconds, nodes, clusters.plan)
    return start


HALF_LIFE_S = 72 * 3600
"""Usage is halved at each multiple of it."""
PRIORITY = 1 << 46
"""Upper bound of a user's usage in a key, in whole processor-seconds."""
BEFORE_ALL = 1 << 52
"""Subtracted from the keys of kept reservations, to put them before all queues. Floats hold these whole numbers
exactly."""


@apart
def line_up_by_usage(now, bits, state, clusters):
    """Sort the waiting jobs, after an update of usage."""
    planner, counters, line = clusters.planner, state.counters, clusters.front
    numbers = planner.numbers
    numbers[BITS] = bits
    while numbers[PLACED] < counters[NEXT]:
        planner.at[numbers[PLACED]] = NO_START
        numbers[PLACED] += 1
    account(now, planner, state)
    for i in range(counters[WAITING]):
        job = line.job[i]
        key = planner.queue[planner.nodes.row[job]] * 1.0 * PRIORITY + min(
            planner.usage[user_of(job, planner)] // 1.0, PRIORITY - 1.0
        )
        if numbers[KEEPS] != 0 and planner.at[job] < NO_START:
            key = planner.at[job] - 1.0 * BEFORE_ALL
        insert(line, i, job, key, line.kind[i])


@apart
def account(now, planner, state):
    """Add what jobs have consumed since the last update to their users' usage.

    Then usage is halved if that is due.
    """
    numbers, counters, jobs = planner.numbers, state.counters, planner.jobs
    last, bits = numbers[SEEN_AT], numbers[BITS]
    while numbers[SEEN_ENDS] < counters[ENDED]:
        job = state.ended[numbers[SEEN_ENDS]]
        consume(job, state.start[job] + jobs.runtime[job], last, planner, state)
        numbers[SEEN_ENDS] += 1
    for i in range(counters[PLANS]):
        consume(state.running[state.plan[i] & ((1 << bits) - 1)], now, last, planner, state)
    numbers[SEEN_AT] = now
    halvings = now // HALF_LIFE_S - last // HALF_LIFE_S
    if halvings > 0:
        for user in range(len(planner.usage)):
            planner.usage[user] *= 0.5**halvings


@kernel
def consume(job, until, last, planner, state):
    """Add what ``job`` has consumed from ``last`` to ``until`` to the usage of its user."""
    seconds = until - max(state.start[job], last)
    if seconds > 0:
        planner.usage[user_of(job, planner)] += seconds * planner.claim[planner.nodes.row[job]]
