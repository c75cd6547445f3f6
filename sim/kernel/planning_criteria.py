"""The criteria of a plan: planned waits, slowdowns and fairness (Klusacek & Chlumsky).

Three criteria are minimised: the sum of planned waits, the sum of bounded slowdowns with requested times as runtimes, and
unfairness. A user's NUWT is the past and planned waiting time of its jobs over what they have consumed so far. A plan is better
if the weighted sum of relative improvements is positive.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel
from sim.kernel.planning_seats import (
    BITS,
    NOW,
    SEEN_ENDS,
    SUM_SLOWDOWN,
    SUM_WAIT,
    UNIT,
    USERS,
    slowdown_at,
    user_of,
)
from sim.kernel.state import ENDED, PLANS

SMALLEST = 1e-9
"""Min value that an improvement is divided by."""
LEAST_USED = 3600.0
"""Min consumption of a user, processor-seconds."""
WAIT, SLOWDOWN, UNFAIRNESS = range(3)


class SearchRules(NamedTuple):
    """The ``iterations`` of a search, and the weights of the criteria."""

    iterations: int
    wait: float
    slowdown: float
    fairness: float


class Search(NamedTuple):
    """The arrays of a search.

    ``random`` int64 [2]; the criteria of the ``best`` plan and of a ``trial``, float64 [3].
    """

    random: np.ndarray
    best: np.ndarray
    trial: np.ndarray


@apart
def account(planner, state):
    """Add waits and consumption of ended jobs to the sums of their users.

    Only jobs that ended since the last search are added.
    """
    numbers, counters, jobs = planner.numbers, state.counters, planner.jobs
    while numbers[SEEN_ENDS] < counters[ENDED]:
        job = state.ended[numbers[SEEN_ENDS]]
        planner.past[user_of(job, planner)] += state.start[job] - jobs.submit[job]
        planner.usage[user_of(job, planner)] += jobs.runtime[job] * planner.claim[planner.nodes.row[job]]
        numbers[SEEN_ENDS] += 1


@apart
def add_up(planner, state):
    """Sum up planned waits and slowdowns, and list the users with planned jobs."""
    numbers, counters, jobs = planner.numbers, state.counters, planner.jobs
    for user in range(len(planner.waits)):
        planner.waits[user] = 0
        planner.inverse[user] = -1.0
    numbers[SUM_WAIT] = numbers[SUM_SLOWDOWN] = numbers[USERS] = 0
    unknown = len(planner.waits) - 1
    for cluster in range(len(planner.size)):
        for position in range(planner.size[cluster]):
            job = planner.order[cluster, position]
            let_count(user_of(job, planner), unknown, planner)
            planner.slowdown[job] = slowdown_at(job, planner.at[job], planner)
            planner.waits[user_of(job, planner)] += planner.at[job] - jobs.submit[job]
            numbers[SUM_WAIT] += planner.at[job] - jobs.submit[job]
            numbers[SUM_SLOWDOWN] += planner.slowdown[job]
    bits = numbers[BITS]
    for i in range(counters[PLANS]):
        job = state.running[state.plan[i] & ((1 << bits) - 1)]
        start, user = state.start[job], user_of(job, planner)
        if planner.inverse[user] >= 0.0:
            planner.inverse[user] += (numbers[NOW] - start) * planner.claim[planner.nodes.row[job]]
            planner.waits[user] += start - jobs.submit[job]
    for i in range(numbers[USERS]):
        user = planner.present[i]
        planner.inverse[user] = 1.0 / max(planner.inverse[user], LEAST_USED)


@kernel
def let_count(user, unknown, planner):
    """List a user with planned jobs, and write its past consumption to ``inverse``.

    Jobs of unknown users count for no user.
    """
    if user != unknown and planner.inverse[user] < 0.0:
        planner.inverse[user] = planner.usage[user]
        planner.present[planner.numbers[USERS]] = user
        planner.numbers[USERS] += 1


@kernel
def evaluate(wait, slowdown, waits, planner, criteria):
    """Write the ``criteria`` of a plan, given its sums and the waits of users."""
    criteria[WAIT] = 1.0 * wait
    criteria[SLOWDOWN] = slowdown / UNIT
    users = planner.numbers[USERS]
    mean, squares = 0.0, 0.0
    for i in range(users):
        user = planner.present[i]
        mean += (planner.past[user] + waits[user]) * planner.inverse[user]
    mean /= max(users, 1)
    for i in range(users):
        user = planner.present[i]
        nuwt = (planner.past[user] + waits[user]) * planner.inverse[user]
        squares += (mean - nuwt) * (mean - nuwt)
    criteria[UNFAIRNESS] = mean + math.sqrt(squares / max(users, 1))


@kernel
def gain(before, after, rules):
    """Return the weighted sum of relative improvements from ``before`` to ``after``."""
    improvement = rules.wait * ((before[WAIT] - after[WAIT]) / max(before[WAIT], SMALLEST))
    improvement += rules.slowdown * ((before[SLOWDOWN] - after[SLOWDOWN]) / max(before[SLOWDOWN], SMALLEST))
    return improvement + rules.fairness * ((before[UNFAIRNESS] - after[UNFAIRNESS]) / max(before[UNFAIRNESS], SMALLEST))
