"""What makes a plan better: planned waits, slowdowns and fairness (Klusacek & Chlumsky).

Three criteria are made less: the sum of planned waits, the sum of bounded slowdowns with requested times for runtimes, and unfairness.
A user's NUWT is the time that its jobs have waited and will by the plan, over what they have consumed so far. A plan is better if the
weighted sum of relative improvements is positive.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel
from sim.kernel.planning_seats import (
    BITS,
    LEAST,
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
"""The least value that improvements are relative to."""
WAIT, SLOWDOWN, UNFAIRNESS = range(3)
(
    ITERATION,  # the next
    ACCEPTED,  # moves so far
    JOBS,  # planned jobs
    SEARCHES,  # so far
    FOUND,  # accepted moves in the log
    STARTED_FROM,  # orders that were tried
    SLOTS,
) = range(7)


class Rules(NamedTuple):
    """What is searched for, and how.

    ``iterations`` of one search, ``per_cluster``: of the jobs of each cluster. ``wait``, ``slowdown`` and ``fairness``: weights.
    ``least``: the least consumption of a user, processor-seconds.
    """

    method: int
    iterations: int
    per_cluster: bool
    wait: float
    slowdown: float
    fairness: float
    spread: int
    least: float


class Search(NamedTuple):
    """What a search remembers: int64 unless stated.

    ``slots``; ``random`` [2]; ``first``, ``best``, ``trial`` [3]: the criteria, float. ``saved`` [clusters, jobs] and ``saved_size``:
    the lists of the plan before a change of all. ``key`` [jobs], float: what jobs are ordered by; ``steep`` [users + 1], float: by how
    much a second of wait makes the weighted sum worse. ``log`` [rows, 3] and ``gains`` [rows, 3], float: of accepted moves search,
    iteration and planned jobs, and relative improvements.
    """

    slots: np.ndarray
    random: np.ndarray
    first: np.ndarray
    best: np.ndarray
    trial: np.ndarray
    saved: np.ndarray
    saved_size: np.ndarray
    key: np.ndarray
    steep: np.ndarray
    log: np.ndarray
    gains: np.ndarray


@apart
def account(planner, state):
    """Add waits and consumption of jobs that have ended to their users' sums.

    Of those that have since the last search.
    """
    numbers, counters, jobs = planner.numbers, state.counters, planner.jobs
    while numbers[SEEN_ENDS] < counters[ENDED]:
        job = state.ended[numbers[SEEN_ENDS]]
        planner.past[user_of(job, planner)] += state.start[job] - jobs.submit[job]
        planner.usage[user_of(job, planner)] += jobs.runtime[job] * planner.claim[planner.nodes.row[job]]
        numbers[SEEN_ENDS] += 1


@apart
def add_up(rules, planner, state):
    """Add up waits and slowdowns as planned, and find the users that count."""
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
    """Note a user that counts, with what it has consumed in ``inverse``.

    Jobs of unknown users count for none.
    """
    if user != unknown and planner.inverse[user] < 0.0:
        planner.inverse[user] = planner.usage[user]
        planner.present[planner.numbers[USERS]] = user
        planner.numbers[USERS] += 1


@kernel
def evaluate(wait, slowdown, waits, rules, planner, criteria):
    """Write the criteria of a plan with these sums and waits of users."""
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


@apart
def set_steepness(rules, planner, find):
    """Set by how much a second of wait of each user's jobs makes unfairness worse.

    Weighted and relative.
    """
    users = planner.numbers[USERS]
    mean, squares = 0.0, 0.0
    for i in range(users):
        user = planner.present[i]
        mean += (planner.past[user] + planner.waits[user]) * planner.inverse[user]
    mean /= max(users, 1)
    for i in range(users):
        user = planner.present[i]
        off = (planner.past[user] + planner.waits[user]) * planner.inverse[user] - mean
        squares += off * off
    deviation = max(math.sqrt(squares / max(users, 1)), SMALLEST)
    find.steep[len(planner.waits) - 1] = 0.0
    for i in range(users):
        user = planner.present[i]
        off = (planner.past[user] + planner.waits[user]) * planner.inverse[user] - mean
        # of squares, the others' part is the same for all
        slope = 2.0 * off if rules.spread == SQUARES else 1.0 + off / deviation
        slope *= planner.inverse[user] / max(users, 1)
        find.steep[user] = rules.fairness * slope / max(find.best[UNFAIRNESS], SMALLEST)


@kernel
def smith_key(job, rules, planner, find):
    """Return the area of a job over what a second of its wait costs; the smallest goes first."""
    cost = rules.wait * planner.scale[job] / max(find.best[WAIT], SMALLEST) + find.steep[user_of(job, planner)]
    if planner.slowdown[job] > planner.numbers[LEAST] * planner.scale[job]:
        cost += rules.slowdown * planner.rate[job] / UNIT / max(find.best[SLOWDOWN], SMALLEST)
    area = 1.0 * planner.fit[job] * planner.claim[planner.nodes.row[job]]
    return area / cost if cost > 0.0 else 1e300
