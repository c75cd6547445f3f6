"""The state of a machine of clusters in the event loop, and the functions that change it.

Its waiting jobs are plain sorted arrays, not the queues of the single pool: a job's width does not tell whether it fits
on nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel
from sim.kernel.orders import SCORE, look_around
from sim.kernel.passes import backfill_key, order_changes, primary_key
from sim.kernel.planning_seats import Planner
from sim.kernel.profile import forget_searches
from sim.kernel.state import AS_PLANNED, CHANGED, ENDS, LATER, NEVER, NEXT, PLANS, STARVING, WAITING, start_job
from sim.machine.nodes import Hours, Nodes, change, choose
from sim.machine.plan import Plan, foresee_end

KEYED, GAINS, TAKES, RESERVED_FOR, RESERVED_IN, SHADOW_AT, RESERVATIONS, HOUR, NUMBERS = range(9)
"""Slots of ``Clusters.numbers``. KEYED: rows below it have the key of starving jobs. GAINS, TAKES: how often nodes were
given back, taken. EASY's reservation: RESERVED_FOR, its job plus one, 0 for none; RESERVED_IN, its cluster; SHADOW_AT,
its shadow time; RESERVATIONS, the number of the pass that made it. HOUR: the next event of the hours."""

MOST_GAINS = 8
"""Max gains that are looked through one by one; after more of them all nodes are looked at again."""

UNKNOWN = -1
"""Value in ``Refusals``: no job of this kind has been tried yet."""


class Line(NamedTuple):
    """Waiting jobs in order of their keys, then of submission.

    int64 [jobs], ``key`` float64 [jobs]; the first ``counters[WAITING]`` are used. ``kind`` numbers equal requests, as in
    :class:`Refusals`.
    """

    job: np.ndarray
    key: np.ndarray
    kind: np.ndarray


class Refusals(NamedTuple):
    """What is known not to fit, int64. Jobs of one ``kind`` [rows] have equal requests.

    ``refused`` [kinds]: the count of gains at which jobs of the kind fitted nowhere; they cannot fit before the next
    gain. ``fitted`` [kinds]: the sum of gains and takes at which one was last found to fit, in cluster ``room``
    [kinds]. ``looked`` [kinds]: the count of gains at the last look. No node before ``begin`` [kinds] had room then,
    and no cluster had room for more than ``most`` [kinds] chunks, not counting clusters whose limits stop such a job.
    ``beside`` [kinds]: the sum of takes and the number of the reservation at which no job of the kind fitted beside it.
    ``gained`` [jobs]: a ring of the rows whose nodes were given back last.
    """

    kind: np.ndarray
    refused: np.ndarray
    fitted: np.ndarray
    room: np.ndarray
    looked: np.ndarray
    most: np.ndarray
    begin: np.ndarray
    beside: np.ndarray
    gained: np.ndarray


class ShadowRoom(NamedTuple):
    """What the head finds at the shadow time of EASY's reservation.

    ``free`` int64 [nodes, resources], ``left`` int64 [clusters, limits], and ``room`` int64 [clusters], the chunks of
    the head that have room.
    """

    free: np.ndarray
    left: np.ndarray
    room: np.ndarray


class Clusters(NamedTuple):
    """Nodes, plan and waiting jobs.

    ``front`` holds the waiting jobs in the primary order, ``back`` in the backfill order; both are the same arrays if
    the orders are the same. ``searched`` is what searches in the plan ruled out (:mod:`sim.kernel.profile`).
    ``planner`` is minimal for algorithms that keep no plan.
    """

    nodes: Nodes
    front: Line
    back: Line
    plan: Plan
    searched: np.ndarray
    ahead: ShadowRoom
    refusals: Refusals
    numbers: np.ndarray
    planner: Planner
    hours: Hours


@kernel
def closed(job, fit, now, clusters):
    """Tell whether ``job`` may not start at this hour if it runs for ``fit`` seconds."""
    hours = clusters.hours
    return len(hours.latest) > 0 and now + fit > hours.latest[hours.job_kind[clusters.nodes.row[job]]]


@apart
def join(settings, job, now, jobs, estimates, state, clusters):
    """Add ``job`` to the waiting jobs."""
    waiting, kind = state.counters[WAITING], clusters.refusals.kind[clusters.nodes.row[job]]
    insert(clusters.front, waiting, job, primary_key(settings, job, now, jobs, estimates, state.counters), kind)
    if not settings.one_queue:
        insert(clusters.back, waiting, job, backfill_key(settings, job, now, jobs, estimates), kind)
    state.counters[WAITING] = waiting + 1


@apart
def line_up_anew(settings, first, now, jobs, estimates, state, clusters):
    """Line up all waiting jobs in the order of ``settings``, as the policy changes.

    All jobs before row ``first`` have started.
    """
    counters = state.counters
    counters[WAITING] = 0
    counters[CHANGED] = 1
    for job in range(first, counters[NEXT]):
        if state.start[job] < 0:
            join(settings, job, now, jobs, estimates, state, clusters)


@kernel
def insert(line, size, job, key, kind):
    """Insert ``job`` into the first ``size`` entries, which are sorted by (key, job)."""
    i = size
    while i > 0 and (line.key[i - 1] > key or (line.key[i - 1] == key and line.job[i - 1] > job)):
        line.key[i] = line.key[i - 1]
        line.job[i] = line.job[i - 1]
        line.kind[i] = line.kind[i - 1]
        i -= 1
    line.key[i] = key
    line.job[i] = job
    line.kind[i] = kind


@apart
def line_up(settings, now, jobs, estimates, state, clusters):
    """Sort the waiting jobs again if their order may have changed."""
    counters, numbers = state.counters, clusters.numbers
    waiting = counters[WAITING]
    starves = numbers[KEYED] < counters[STARVING]
    numbers[KEYED] = counters[STARVING]
    if not (starves or order_changes(settings)):
        return
    front, back = clusters.front, clusters.back
    if settings.order == SCORE or settings.backfill == SCORE:
        look_around(settings.scoring, front.job, 0, waiting, jobs, estimates, counters)
    for i in range(waiting):
        insert(front, i, front.job[i], primary_key(settings, front.job[i], now, jobs, estimates, counters), front.kind[i])
    if settings.backfill_changing and not settings.one_queue:
        for i in range(waiting):
            insert(back, i, back.job[i], backfill_key(settings, back.job[i], now, jobs, estimates), back.kind[i])


@apart
def start_in(job, cluster, now, jobs, estimates, state, clusters, bits):
    """Start ``job`` on the first nodes of ``cluster`` with room; return whether it started.

    The job stays in line until :func:`leave`.
    """
    choose_now(clusters.nodes.row[job], cluster, clusters)
    return start_planned(job, now, jobs, estimates, state, clusters, bits)


@kernel
def choose_now(row, cluster, clusters):
    """Choose nodes that are free now for a job that was found to fit.

    No nodes may have been given back since it was found to fit.
    """
    return choose(row, cluster, clusters.refusals.begin[clusters.refusals.kind[row]], clusters.nodes, clusters.nodes.free)


@apart
def start_planned(job, now, jobs, estimates, state, clusters, bits):
    """Start ``job`` on its chosen nodes; return False if a start decision holds it back."""
    nodes = clusters.nodes
    if not start_job(job, now, jobs, estimates, state, bits):
        return False
    change(nodes.row[job], -1, nodes, nodes.free, nodes.left)
    clusters.numbers[TAKES] += 1
    return True


@kernel
def give_back(job, clusters):
    """Give back the nodes of a job, and note the gain."""
    nodes, numbers, gained = clusters.nodes, clusters.numbers, clusters.refusals.gained
    change(nodes.row[job], 1, nodes, nodes.free, nodes.left)
    gained[numbers[GAINS] % len(gained)] = nodes.row[job]
    numbers[GAINS] += 1


@kernel
def plan_running(bits, state, clusters):
    """Begin a new plan that holds only the predicted ends of running jobs."""
    nodes, plan = clusters.nodes, clusters.plan
    forget_searches(clusters.searched)
    for cluster in range(len(plan.size)):
        plan.size[cluster] = 0
    for i in range(state.counters[PLANS]):
        foresee_end(nodes.row[state.running[state.plan[i] & ((1 << bits) - 1)]], state.plan[i] >> bits, nodes, plan)


@apart
def leave(settings, state, clusters):
    """Remove started jobs from the lines."""
    size = state.counters[WAITING]
    state.counters[WAITING] = drop_started(clusters.front, size, state)
    if not settings.one_queue:
        drop_started(clusters.back, size, state)


@kernel
def drop_started(line, size, state):
    """Remove started jobs from the first ``size`` entries; return how many are left."""
    left = 0
    for i in range(size):
        if state.start[line.job[i]] < 0:
            line.job[left] = line.job[i]
            line.key[left] = line.key[i]
            line.kind[left] = line.kind[i]
            left += 1
    return left


@kernel
def next_hour(state, jobs, clusters):
    """Return when hours next begin; NEVER if no job is left that this could affect."""
    counters, hours, i = state.counters, clusters.hours, clusters.numbers[HOUR]
    jobs_left = counters[ENDS] > 0 or counters[WAITING] > 0 or counters[NEXT] < len(jobs.submit)
    return hours.time[i] if jobs_left and i < len(hours.time) else NEVER


@apart
def change_hours(now, state, clusters):
    """Apply the begins of hours up to ``now``."""
    numbers, hours = clusters.numbers, clusters.hours
    while numbers[HOUR] < len(hours.time) and hours.time[numbers[HOUR]] <= now:
        hours.latest[hours.kind[numbers[HOUR]]] = hours.until[numbers[HOUR]]
        numbers[HOUR] += 1
    numbers[GAINS] += MOST_GAINS + 1  # more than are looked through one by one: all jobs may fit now
    state.counters[CHANGED] = 1
    state.counters[AS_PLANNED] = LATER
