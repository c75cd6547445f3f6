"""OrigBF: backfilling of several queues by fair share.

It is the scheduler that PlanRS replaced (Klusacek & Chlumsky 2016).

The waiting jobs stand in the order of their queues' priorities, in a queue in the order of their users' usage, least first, then of
submission. Usage is processor-seconds, of running jobs up to now, halved every so many hours; the order is made anew so often. In
that order each job gets the earliest start that delays none before it (conservative backfilling), if it has waited long enough for
a reservation; others start now or not at all. Reservations are made anew at each pass, so that a job of a user with less usage can take
the place of one that had a reservation; or they are kept, and jobs that have one come first, in the order of these.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel.clusters import RETURNED, insert
from sim.kernel.planning_seats import BITS, EVERY, HALF_LIFE, KEEPS, PLACED, SEEN_AT, SEEN_ENDS, THRESHOLD, user_of
from sim.kernel.state import ENDED, NEXT, PLANS, WAITING
from sim.machine.plan import NO_START

PRIORITY = 1 << 46
"""Usage of a user, in whole processor-seconds, is below this."""
BEFORE_ALL = 1 << 52
"""Reservations that are kept come by so much before all queues; keys are whole numbers that a float holds."""


@apart
def line_up_by_usage(now, bits, state, clusters):
    """Put the waiting jobs in order."""
    planner, counters, line = clusters.planner, state.counters, clusters.front
    numbers = planner.numbers
    numbers[BITS] = bits
    while numbers[PLACED] < counters[NEXT]:
        planner.at[numbers[PLACED]] = NO_START
        numbers[PLACED] += 1
    for i in range(clusters.numbers[RETURNED]):
        planner.at[clusters.outages.returned[i]] = NO_START
    clusters.numbers[RETURNED] = 0
    if now - numbers[SEEN_AT] >= numbers[EVERY]:
        account(now, planner, state)
    for i in range(counters[WAITING]):
        job = line.job[i]
        key = planner.queue[planner.nodes.row[job]] * 1.0 * PRIORITY + min(
            planner.usage[user_of(job, planner)] // 1.0, PRIORITY - 1.0
        )
        if numbers[KEEPS] != 0 and planner.at[job] < NO_START:
            key = planner.at[job] - 1.0 * BEFORE_ALL
        insert(line, i, job, key, line.kind[i])


@kernel
def latest_start(job, now, planner):
    """Return the latest start that ``job`` may be planned for.

    Any, or now if it has not waited enough for a reservation.
    """
    return NO_START if now - planner.jobs.submit[job] >= planner.numbers[THRESHOLD] else now


@apart
def account(now, planner, state):
    """Add what jobs have consumed since the last time to their users' usage.

    Then it is halved where that is due.
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
    if numbers[HALF_LIFE] == 0:
        return
    halvings = now // numbers[HALF_LIFE] - last // numbers[HALF_LIFE]
    if halvings > 0:
        for user in range(len(planner.usage)):
            planner.usage[user] *= 0.5**halvings


@kernel
def consume(job, until, last, planner, state):
    """Add what ``job`` has consumed from ``last`` until then."""
    seconds = until - max(state.start[job], last)
    if seconds > 0:
        planner.usage[user_of(job, planner)] += seconds * planner.claim[planner.nodes.row[job]]
