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

SPREADS = ("sum", "squares")
SUM, SQUARES = range(2)
"""Unfairness: mean plus standard deviation of NUWT, or the sum over users of (1 + mean - NUWT) squared."""

SMALLEST = 1e-9
"""Min value that an improvement is divided by."""
WAIT, SLOWDOWN, UNFAIRNESS = range(3)
(
    ITERATION,  # the next iteration of this search
    ACCEPTED,  # moves accepted in this search
    JOBS,  # planned jobs
    SEARCHES,  # finished searches
    FOUND,  # accepted moves in the log
    SLOTS,
) = range(6)


class SearchRules(NamedTuple):
    """The criteria's weights and the length of a search.

    ``iterations`` of one search; ``per_cluster``: so many for the jobs of each cluster. ``wait``, ``slowdown`` and ``fairness``:
    weights. ``least``: min consumption of a user, processor-seconds.
    """

    iterations: int
    per_cluster: bool
    wait: float
    slowdown: float
    fairness: float
    spread: int
    least: float


class Search(NamedTuple):
    """The arrays of a search: int64 unless stated.

    ``slots``; ``random`` [2]; criteria, float [3]: ``first``, ``best``, ``trial``. For each accepted move ``log`` [rows, 3] has
    search, iteration and number of planned jobs, ``gains`` [rows, 3], float, the relative improvements.
    """

    slots: np.ndarray
    random: np.ndarray
    first: np.ndarray
    best: np.ndarray
    trial: np.ndarray
    log: np.ndarray
    gains: np.ndarray


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
def add_up(rules, planner, state):
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
            numbers[SUM_WAIT] += (planner.at[job] - jobs.submit[job]) * planner.scale[job]
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
        planner.inverse[user] = 1.0 / max(planner.inverse[user], rules.least)


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
def evaluate(wait, slowdown, waits, rules, planner, criteria):
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
        off = 1.0 + mean - nuwt if rules.spread == SQUARES else mean - nuwt
        squares += off * off
    if rules.spread == SQUARES:
        criteria[UNFAIRNESS] = squares
        return
    criteria[UNFAIRNESS] = mean + math.sqrt(squares / max(users, 1))


@kernel
def gain(before, after, rules):
    """Return the weighted sum of relative improvements from ``before`` to ``after``."""
    improvement = rules.wait * ((before[WAIT] - after[WAIT]) / max(before[WAIT], SMALLEST))
    improvement += rules.slowdown * ((before[SLOWDOWN] - after[SLOWDOWN]) / max(before[SLOWDOWN], SMALLEST))
    return improvement + rules.fairness * ((before[UNFAIRNESS] - after[UNFAIRNESS]) / max(before[UNFAIRNESS], SMALLEST))
