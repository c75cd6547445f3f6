"""OrigBF: backfilling of several queues by fair share.

It is the scheduler that PlanRS replaced (Klusacek & Chlumsky 2016).

Waiting jobs are sorted by their queue, then by the usage of their user, least first, then by submission. Usage is in
processor-seconds, of running jobs up to now, and halved every half-life. In this order each job gets the earliest start that
delays none before it (conservative backfilling). By option, reservations are made again at each pass, so that a user with less
usage can take the place of a reservation, or they are kept, and jobs with a reservation come first, in order of their reserved
starts.
"""

from __future__ import annotations

from features.jit import apart, kernel
from sim.kernel.clusters import insert
from sim.kernel.planning_seats import BITS, KEEPS, PLACED, SEEN_AT, SEEN_ENDS, user_of
from sim.kernel.state import ENDED, NEXT, PLANS, WAITING
from sim.machine.plan import NO_START

HALF_LIFE_S = 72 * 3600
"""Usage is halved at each multiple of it."""
PRIORITY = 1 << 46
"""Upper bound of a user's usage in a key, in whole processor-seconds."""
BEFORE_ALL = 1 << 52
"""Subtracted from the keys of kept reservations, to put them before all queues. Floats hold these whole numbers exactly."""


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
