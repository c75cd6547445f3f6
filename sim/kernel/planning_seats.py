"""Seat planned jobs in their order, each as early as the jobs before it allow.

A plan is lists of jobs; seating gives them planned starts.

No job overtakes another, so at the time of the last seat all jobs seated so far have begun, and after it they only end.
Free resources never decrease after that time, so a job that fits then fits for its whole duration: no gaps are
searched; time moves from end to end until the job fits. The ends are the sorted ends of running jobs and a heap of the
ends of seated jobs.

A search tries plans that differ from the best plan from some position on. Seating stops once jobs are seated as in the
best plan and every job that is seated elsewhere has ended in both plans.

Plans are compared by three criteria, which are minimised (Klusacek & Chlumsky): the sum of planned waits, the sum of
bounded slowdowns with requested times as runtimes, and unfairness. A user's NUWT is the past and planned waiting time
of its jobs over what they have consumed so far. A plan is better if the weighted sum of relative improvements is
positive.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel
from sim.kernel.state import ENDED, PLANS, Jobs, heap_pop, heap_push
from sim.machine.nodes import Nodes, change, choose, within_limits

(
    PLACED,  # the first job that is not in the plan yet
    BITS,  # the bits of an event that hold the job
    NOW,  # the time from which jobs are seated
    EVERY,  # min time between searches
    TRIAL,  # the number of the trial, noted in ``stamp`` for the jobs seated in it
    SUM_WAIT,  # of the planned jobs: the sum of waits
    SUM_SLOWDOWN,  # of the planned jobs: the sum of slowdowns, in parts of UNIT
    TRIAL_WAIT,  # the same sums of the trial
    TRIAL_SLOWDOWN,
    SEEN_ENDS,  # ends that usage accounts for
    SEEN_AT,  # the time of the last update of usage
    USERS,  # users with planned jobs
    KEEPS,  # of OrigBF: whether reservations are kept
    NUMBERS,
) = range(14)
"""Slots of ``Planner.numbers``."""

UNIT = 1 << 16
"""Slowdowns are whole multiples of 1 / UNIT, so that the order of summing does not change sums."""
BOUND_S = 10
"""The threshold of bounded slowdown."""


class Planner(NamedTuple):
    """A plan and the arrays to change it; int64 unless stated.

    ``order`` [clusters, jobs]: the jobs planned in each cluster, ``size`` [clusters] of them, in order of their planned
    starts ``at`` [jobs]; ``nodes`` has their planned nodes. A trial puts its jobs in ``spare`` and its number in their
    ``stamp`` [jobs]. ``ends`` [clusters, running jobs]: sorted events of the predicted ends of running jobs, NEVER
    last. ``heap`` [jobs]: ends of seated jobs. ``free`` and ``left``: working copies of those of ``nodes``.

    A job with wait w and duration d has slowdown max(UNIT, (w + d) ``rate``); ``slowdown`` [jobs] is that of the plan.
    Waits of planned and running jobs by user are ``waits`` [users + 1], in a trial ``trial_waits``; the last entry is
    for unknown users. ``past`` and ``usage`` [users + 1], float: waits and consumption of ended jobs; ``inverse``: 1
    over consumption, in a search. ``present`` [users]: users with planned jobs. ``claim`` [rows], float: the processors
    that a job counts for. ``queue`` [rows]: the place of its queue in OrigBF.
    """

    numbers: np.ndarray
    jobs: Jobs
    fit: np.ndarray
    nodes: Nodes
    spare: Nodes
    size: np.ndarray
    order: np.ndarray
    at: np.ndarray
    stamp: np.ndarray
    ends: np.ndarray
    heap: np.ndarray
    free: np.ndarray
    left: np.ndarray
    rate: np.ndarray
    slowdown: np.ndarray
    waits: np.ndarray
    trial_waits: np.ndarray
    past: np.ndarray
    usage: np.ndarray
    inverse: np.ndarray
    claim: np.ndarray
    queue: np.ndarray
    present: np.ndarray


@kernel
def user_of(job, planner):
    """Return the user of ``job``; if unknown, the number of users."""
    user = planner.jobs.user[job]
    return user if user >= 0 else len(planner.waits) - 1


@kernel
def slowdown_at(job, time, planner):
    """Return the slowdown of ``job`` if it starts at ``time``, in whole parts of UNIT."""
    response = time - planner.jobs.submit[job] + planner.fit[job]
    return max(UNIT, np.int64(response * planner.rate[job]))


@kernel
def note_best(job, time, planner):
    """Seat ``job`` at ``time`` in the plan, and update the sums."""
    numbers = planner.numbers
    later, slowdown = time - planner.at[job], slowdown_at(job, time, planner)
    numbers[SUM_WAIT] += later
    numbers[SUM_SLOWDOWN] += slowdown - planner.slowdown[job]
    planner.waits[user_of(job, planner)] += later
    planner.slowdown[job] = slowdown
    planner.at[job] = time


@kernel
def note_trial(job, time, planner):
    """Update the trial's sums for ``job`` at ``time``, which is not its time in the plan."""
    numbers = planner.numbers
    later = time - planner.at[job]
    numbers[TRIAL_WAIT] += later
    numbers[TRIAL_SLOWDOWN] += slowdown_at(job, time, planner) - planner.slowdown[job]
    planner.trial_waits[user_of(job, planner)] += later


@kernel
def next_end(run, size, ends, heap):
    """Return the next end of a running or seated job."""
    return min(ends[run], heap[0]) if size > 0 else ends[run]


@kernel
def pass_end(event, run, size, ends, heap):
    """Pass the next end, ``event``; return the new index in ``ends`` and size of the heap."""
    if event == ends[run]:
        return run + 1, size
    heap_pop(heap, size)
    return run, size - 1


@apart
def seat(cluster, first, past, until, best, planner):
    """Seat the jobs of a cluster of nodes from position ``first`` on.

    The result is the ``best`` plan, or a trial whose order differs from it only up to position ``past``. ``until``: the
    planned end of a job that the trial moved out of the cluster, 0 for none.
    """
    numbers, nodes, spare = planner.numbers, planner.nodes, planner.spare
    bits, row, fit, at, stamp = numbers[BITS], nodes.row, planner.fit, planner.at, planner.stamp
    order, ends, heap = planner.order[cluster], planner.ends[cluster], planner.heap
    free, left = planner.free, planner.left
    mask, total, trial = (1 << bits) - 1, planner.size[cluster], numbers[TRIAL]
    for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
        for resource in range(free.shape[1]):
            free[node, resource] = nodes.free[node, resource]
    for limit in range(left.shape[1]):
        left[cluster, limit] = nodes.left[cluster, limit]
    position, time, run, size = 0, numbers[NOW], 0, 0
    while position < first:  # as planned
        job = order[position]
        position += 1
        time = at[job]
        event = next_end(run, size, ends, heap)
        while event >> bits <= time:
            change(row[event & mask], 1, nodes, free, left)
            run, size = pass_end(event, run, size, ends, heap)
            event = next_end(run, size, ends, heap)
        change(row[job], -1, nodes, free, left)
        heap_push(heap, size, (time + fit[job]) << bits | job)
        size += 1
    while position < total:
        job = order[position]
        position += 1
        event = next_end(run, size, ends, heap)
        fits = placed(row[job], cluster, best, planner)
        while not fits:
            time = event >> bits
            while event >> bits == time:
                if stamp[event & mask] == trial:
                    change(row[event & mask], 1, spare, free, left)
                else:
                    change(row[event & mask], 1, nodes, free, left)
                run, size = pass_end(event, run, size, ends, heap)
                event = next_end(run, size, ends, heap)
            fits = placed(row[job], cluster, best, planner)
        end = time + fit[job]
        if best:
            note_best(job, time, planner)
            change(row[job], -1, nodes, free, left)
        else:
            stays = time == at[job]
            if not stays:
                note_trial(job, time, planner)
            if not (stays and same_place(row[job], nodes, spare)):
                until = max(until, end, at[job] + fit[job])
            elif position > past and time >= until:
                return
            stamp[job] = trial
            change(row[job], -1, spare, free, left)
        heap_push(heap, size, end << bits | job)
        size += 1


@kernel
def placed(row, cluster, best, planner):
    """Put a job on the first nodes with room for it; return whether it fits.

    The nodes go to the ``best`` plan or else to the trial.
    """
    return within_limits(row, cluster, planner.nodes, planner.left) and choose(
        row, cluster, 0, planner.nodes if best else planner.spare, planner.free
    )


@kernel
def same_place(row, one, other):
    """Tell whether a job has the same chunks on the same nodes in both."""
    if one.cluster[row] != other.cluster[row] or one.held[row] != other.held[row]:
        return False
    at, end = one.begin[row], one.begin[row] + one.held[row]
    while at < end and one.node[at] == other.node[at] and one.chunk[at] == other.chunk[at]:
        at += 1
    return at == end


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
            user = user_of(job, planner)
            if user != unknown and planner.inverse[user] < 0.0:  # listed once, with its past consumption
                planner.inverse[user] = planner.usage[user]
                planner.present[numbers[USERS]] = user
                numbers[USERS] += 1
            planner.slowdown[job] = slowdown_at(job, planner.at[job], planner)
            planner.waits[user] += planner.at[job] - jobs.submit[job]
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
