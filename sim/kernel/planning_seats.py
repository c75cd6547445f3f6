"""Seat planned jobs in their order, each as early as those before it allow.

A plan is its lists of jobs, and this makes times of them.

None overtakes another, so that at the time of the last seat all jobs seated so far have begun, and from then on they only end. What
is free never decreases after that time, so a job that fits then fits for all of its duration: no gap is searched, but time goes from
end to end until the job fits. Ends are those of running jobs, sorted, and a heap of those of seated jobs.

A search tries plans that differ from the best one from some position on. What was free and which seated jobs had not ended are kept
every few positions of the best plan, so that seating begins at the last such position before. It ends where jobs are seated as in the
best plan and all that are not have ended by then in both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel
from sim.kernel.state import NEVER, Jobs, heap_pop, heap_push
from sim.machine.nodes import Nodes, change, choose, within_limits

(
    PLACED,  # the first job that is not in the plan yet
    OUT,  # jobs before it that are in no plan, as no node is left that could hold them
    POOL,  # whether the machine is one pool of processors
    BITS,  # of an event that number jobs
    NOW,  # the time from which jobs are seated
    EVERY,  # the least time between searches; of OrigBF between two orders
    STRIDE,  # positions from one kept state to the next
    TRIAL,  # the number of the trial, noted for the jobs seated in it
    SUM_WAIT,  # of the planned jobs: the sum of weighted waits
    SUM_SLOWDOWN,  # and of slowdowns, in parts of UNIT
    TRIAL_WAIT,  # the same sums of the trial
    TRIAL_SLOWDOWN,
    LEAST,  # the least slowdown, in parts of UNIT over the scale of a job
    WIDTH,  # whether jobs count by the square root of their processors
    BOUND,  # the threshold of bounded slowdown
    SEEN_ENDS,  # ends that are accounted for
    SEEN_AT,  # and when
    USERS,  # users with planned jobs
    TOLD,  # rows in the log of plans
    TOLD_NODES,  # and of their nodes
    TELLS,  # whether changes of planned starts are logged
    WHOLE,  # whether all jobs are planned, not only up to the last that may start
    KEEPS,  # of OrigBF: whether reservations are kept
    THRESHOLD,  # how long a job must have waited for one, seconds
    HALF_LIFE,  # after so many seconds usage is halved; 0 for never
    NUMBERS,
) = range(26)
"""Slots of ``Planner.numbers``."""

UNIT = 1 << 16
"""Slowdowns are counted in whole parts of this, so that sums are the same in whatever order they are taken."""
FINE = 1 << 10
"""The square root of processors is counted in whole parts of this."""


class Kept(NamedTuple):
    """States of the best plan: what was free, and which seated jobs had not ended.

    Every STRIDE positions, int64.

    ``states`` [clusters] are kept; ``time``, ``run``, ``size`` and ``place`` [state, clusters]: the time, the running jobs that
    had ended, the heap's size, and where in ``heap`` [clusters, room] it is. ``free`` and ``left`` [state, ...] as of Nodes.
    """

    states: np.ndarray
    time: np.ndarray
    run: np.ndarray
    size: np.ndarray
    place: np.ndarray
    heap: np.ndarray
    free: np.ndarray
    left: np.ndarray


class Planner(NamedTuple):
    """A plan and what it takes to change it; int64 unless stated.

    ``order`` [clusters, jobs]: the jobs planned in each cluster, ``size`` [clusters] many, in order of their planned starts ``at``
    [jobs]; where they are planned is in ``nodes``. In a trial it is in ``spare`` for jobs whose ``stamp`` [jobs] is its number.
    ``ends`` [clusters, running jobs]: events of the predicted ends of running jobs, sorted, NEVER last. ``heap`` [jobs] of the ends
    of seated jobs; ``room`` [jobs] to sort in; ``free`` and ``left``: tables as those of ``nodes`` to work on.

    ``scale`` [jobs]: for how much a second of wait counts; a job of wait w and duration d has slowdown max(LEAST ``scale``, (w + d)
    ``rate``), ``slowdown`` [jobs] as planned. ``waits`` [users + 1] of planned and running jobs, those of a trial ``trial_waits``, in
    the last place of unknown users; ``past`` and ``usage`` [users + 1], float: waits and consumption of ended jobs, ``inverse`` 1 over that in the search,
    ``present`` [users]: those that count. ``claim`` [rows], float: the processors that a job counts for, ``queue`` [rows]: the place of
    its queue in OrigBF. ``logged_start`` [jobs]: the planned start last logged, ``logged_nodes`` a digest of where; ``log`` [rows, 5]: job, time,
    planned start, cluster, nodes; ``log_nodes``.
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
    room: np.ndarray
    free: np.ndarray
    left: np.ndarray
    kept: Kept
    scale: np.ndarray
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
    logged_start: np.ndarray
    logged_nodes: np.ndarray
    log: np.ndarray
    log_nodes: np.ndarray


@kernel
def load(cluster, first, planner):
    """Load the last state kept at or before position ``first``.

    Return position, time, and where ends are: those of running jobs (index in ``ends``) and of seated ones (size of the heap).
    """
    numbers, kept, nodes = planner.numbers, planner.kept, planner.nodes
    state = min(first // numbers[STRIDE], kept.states[cluster] - 1)
    if state < 0:
        for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
            for resource in range(planner.free.shape[1]):
                planner.free[node, resource] = nodes.free[node, resource]
        for limit in range(planner.left.shape[1]):
            planner.left[cluster, limit] = nodes.left[cluster, limit]
        return 0, numbers[NOW], 0, 0
    for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
        for resource in range(planner.free.shape[1]):
            planner.free[node, resource] = kept.free[state, node, resource]
    for limit in range(planner.left.shape[1]):
        planner.left[cluster, limit] = kept.left[state, cluster, limit]
    size, place = kept.size[state, cluster], kept.place[state, cluster]
    for i in range(size):
        planner.heap[i] = kept.heap[cluster, place + i]
    return state * numbers[STRIDE], kept.time[state, cluster], kept.run[state, cluster], size


@kernel
def keep(cluster, position, time, run, size, planner):
    """Keep the state before ``position`` if it is one of every STRIDE and there is room."""
    numbers, kept, nodes = planner.numbers, planner.kept, planner.nodes
    state = position // numbers[STRIDE]
    if position % numbers[STRIDE] != 0 or state >= len(kept.time) or state != kept.states[cluster]:
        return
    place = kept.place[state - 1, cluster] + kept.size[state - 1, cluster] if state > 0 else 0
    if place + size > kept.heap.shape[1]:
        return
    kept.states[cluster] = state + 1
    kept.time[state, cluster], kept.run[state, cluster] = time, run
    kept.size[state, cluster], kept.place[state, cluster] = size, place
    for i in range(size):
        kept.heap[cluster, place + i] = planner.heap[i]
    for node in range(nodes.first[cluster], nodes.first[cluster + 1]):
        for resource in range(planner.free.shape[1]):
            kept.free[state, node, resource] = planner.free[node, resource]
    for limit in range(planner.left.shape[1]):
        kept.left[state, cluster, limit] = planner.left[cluster, limit]


@kernel
def user_of(job, planner):
    """Return the user of ``job``; the number of users where it is unknown."""
    user = planner.jobs.user[job]
    return user if user >= 0 else len(planner.waits) - 1


@kernel
def slowdown_at(job, time, planner):
    """Return the slowdown of ``job`` if it starts at ``time``, in whole parts of UNIT."""
    response = time - planner.jobs.submit[job] + planner.fit[job]
    return max(planner.numbers[LEAST] * planner.scale[job], np.int64(response * planner.rate[job]))


@kernel
def note_best(job, time, planner):
    """Seat ``job`` at ``time`` in the plan, and bring the sums up to date."""
    numbers = planner.numbers
    later, slowdown = time - planner.at[job], slowdown_at(job, time, planner)
    numbers[SUM_WAIT] += later * planner.scale[job]
    numbers[SUM_SLOWDOWN] += slowdown - planner.slowdown[job]
    planner.waits[user_of(job, planner)] += later
    planner.slowdown[job] = slowdown
    planner.at[job] = time


@kernel
def note_trial(job, time, planner):
    """Account for ``job`` at ``time`` in the trial, which differs from the plan."""
    numbers = planner.numbers
    later = time - planner.at[job]
    numbers[TRIAL_WAIT] += later * planner.scale[job]
    numbers[TRIAL_SLOWDOWN] += slowdown_at(job, time, planner) - planner.slowdown[job]
    planner.trial_waits[user_of(job, planner)] += later


@kernel
def next_end(run, size, ends, heap):
    """Return the next end of a running or seated job."""
    return min(ends[run], heap[0]) if size > 0 else ends[run]


@kernel
def pass_end(event, run, size, ends, heap):
    """Pass the next end, ``event``; return where ends are then."""
    if event == ends[run]:
        return run + 1, size
    heap_pop(heap, size)
    return run, size - 1


@apart
def seat_pool(first, past, best, planner):
    """Seat the jobs of a pool of processors from position ``first`` on.

    As the ``best`` plan, or as a trial that differs from it in jobs before position ``past``.
    """
    numbers, bits, procs, fit = planner.numbers, planner.numbers[BITS], planner.jobs.procs, planner.fit
    order, ends, heap, at = planner.order[0], planner.ends[0], planner.heap, planner.at
    mask, total = (1 << bits) - 1, planner.size[0]
    position, time, run, size = load(0, first, planner)
    free = planner.free[0, 0]
    while position < first:  # as planned
        job = order[position]
        time = at[job]
        event = next_end(run, size, ends, heap)
        while event >> bits <= time:
            free += procs[event & mask]
            run, size = pass_end(event, run, size, ends, heap)
            event = next_end(run, size, ends, heap)
        free -= procs[job]
        heap_push(heap, size, (time + fit[job]) << bits | job)
        size += 1
        position += 1
    until = 0
    if best:
        planner.kept.states[0] = min(planner.kept.states[0], (first + numbers[STRIDE] - 1) // numbers[STRIDE])
    while position < total:
        if best:
            planner.free[0, 0] = free
            keep(0, position, time, run, size, planner)
        job = order[position]
        while free < procs[job]:
            event = next_end(run, size, ends, heap)
            time = max(time, event >> bits)
            free += procs[event & mask]
            run, size = pass_end(event, run, size, ends, heap)
        end = time + fit[job]
        if best:
            note_best(job, time, planner)
        elif time != at[job]:
            note_trial(job, time, planner)
            until = max(until, end, at[job] + fit[job])
        elif position >= past and time >= until:
            return
        free -= procs[job]
        heap_push(heap, size, end << bits | job)
        size += 1
        position += 1


@apart
def seat_nodes(cluster, first, past, until, best, planner):
    """Seat the jobs of a cluster of nodes from position ``first`` on.

    As :func:`seat_pool`; return whether all fit.

    ``until``: when a job has ended that the trial took from the cluster, 0 for none. Of the best plan a job
    that fits at no time is planned for NEVER: take it out, and seat the others anew.
    """
    numbers, nodes, spare = planner.numbers, planner.nodes, planner.spare
    bits, row, fit, at, stamp = numbers[BITS], nodes.row, planner.fit, planner.at, planner.stamp
    order, ends, heap = planner.order[cluster], planner.ends[cluster], planner.heap
    free, left = planner.free, planner.left
    mask, total, trial = (1 << bits) - 1, planner.size[cluster], numbers[TRIAL]
    position, time, run, size = load(cluster, first, planner)
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
    if best:
        planner.kept.states[cluster] = min(planner.kept.states[cluster], (first + numbers[STRIDE] - 1) // numbers[STRIDE])
    while position < total:
        if best:
            keep(cluster, position, time, run, size, planner)
        job = order[position]
        position += 1
        event = next_end(run, size, ends, heap)
        fits = placed(row[job], cluster, best, planner)
        while not fits and event != NEVER:
            time = event >> bits
            while event >> bits == time:
                if stamp[event & mask] == trial:
                    change(row[event & mask], 1, spare, free, left)
                else:
                    change(row[event & mask], 1, nodes, free, left)
                run, size = pass_end(event, run, size, ends, heap)
                event = next_end(run, size, ends, heap)
            fits = placed(row[job], cluster, best, planner)
        if not fits:
            if best:
                at[job] = NEVER
            return False
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
                return True
            stamp[job] = trial
            change(row[job], -1, spare, free, left)
        heap_push(heap, size, end << bits | job)
        size += 1
    return True


@kernel
def placed(row, cluster, best, planner):
    """Put a job on the first nodes that have room for it, and return whether it fits.

    In the best plan or a trial.
    """
    return within_limits(row, cluster, planner.nodes, planner.left) and choose(
        row, cluster, 0, planner.nodes if best else planner.spare, planner.free
    )


@kernel
def same_place(row, one, other):
    """Tell whether a job is on the same nodes in both."""
    if one.cluster[row] != other.cluster[row] or one.held[row] != other.held[row]:
        return False
    at, end = one.begin[row], one.begin[row] + one.held[row]
    while at < end and one.node[at] == other.node[at] and one.chunk[at] == other.chunk[at]:
        at += 1
    return at == end


@kernel
def seat(cluster, first, past, until, best, planner):
    """Seat the jobs of a cluster from position ``first`` on; return whether all fit."""
    if planner.numbers[POOL] != 0:
        seat_pool(first, past, best, planner)
        return True
    return seat_nodes(cluster, first, past, until, best, planner)
