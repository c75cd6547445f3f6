"""Decisions from outside the kernel: jobs that a policy starts, jobs that a model skips.

A policy chooses the jobs that start now, and where. The loop stops, and its caller writes the answer. Jobs
``Outside.waiting[table[FIRST_WAITING] : counters[NEXT]]`` wait, in order of submission.

A start decision skips a job that could start (RUSH: Nichols et al., algorithm 2). The paper's text and listing disagree
on skipped jobs. Here a skipped job keeps its place in the queue, holds no reservation in that pass, as if it were
absent, and is decided on again at the next pass; if no event causes one, a timed wake-up does. After a max number of
skips a job starts without a decision. This holds for every order and algorithm, as all start jobs by the same function.

The deciding model is outside the event loop. A pass stops at an undecided job, the loop asks, and the pass
continues there with the answer; its starts, reservations and skips so far remain.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from features.jit import apart, kernel
from sim.kernel.cluster_room import first_room
from sim.kernel.clusters import closed, start_planned
from sim.kernel.passes import CONSERVATIVE, backfill_key, primary_key
from sim.kernel.queue import append, insertion_sort, pack
from sim.kernel.state import CHANGED, FREE, HELD, LET_START, NEXT, PASS, SKIP, UNDECIDED, WAITING, WAKE, State, start_job
from sim.machine.nodes import NOWHERE, choose, fits

WAKE_S = 30
"""Seconds from a pass that skipped a job to the next pass, if no event causes an earlier one."""


class StartDecision(Protocol):
    """A callback that decides whether a job that could start now is skipped."""

    name: str

    def skip(self, row: int, now_s: int) -> bool:
        """Tell whether to skip the job in ``row`` of the table, which could start.

        ``now_s`` is in seconds from the trace's origin.
        """
        ...


def decide(decision: StartDecision, state: State, now_s: int, rows: np.ndarray | None) -> None:
    """Write the ``decision`` for which the loop stopped at ``now_s``.

    ``rows`` maps the kernel's jobs to rows of the table; None if they are the same.
    """
    job = int(state.counters[UNDECIDED]) - 1
    skipped = decision.skip(job if rows is None else int(rows[job]), now_s)
    state.verdict[job] = int(state.counters[PASS]) << 1 | (SKIP if skipped else LET_START)


@apart
def put_back(settings, now, jobs, estimates, work, scenarios):
    """After a pass, return skipped jobs to the queue, count their skips, and set WAKE."""
    front, back, state, counters = work.front, work.back, work.state, work.state.counters
    held = counters[HELD]
    counters[PASS] += 1
    counters[WAKE] = now + WAKE_S if held > 0 else 0
    if held == 0:
        return
    if scenarios is not None:  # Harm has a queue of its own
        for i in range(held):
            state.start[state.held[i]] = -1
            state.skips[state.held[i]] += 1
        counters[WAITING] += held
        counters[HELD] = 0
        return
    gaps = settings.algorithm != CONSERVATIVE
    if gaps:  # skipped jobs count as started until here, so this removes them
        pack(front, state.start)
        if not settings.one_queue:
            pack(back, state.start)
    for i in range(held):
        job = state.held[i]
        state.start[job] = -1
        state.skips[job] += 1
        key = 1.0 * now  # a reservation that would begin now
        if settings.algorithm != CONSERVATIVE:
            key = primary_key(settings, job, now, jobs, estimates, counters)
        procs, fit = jobs.procs[job], estimates.fit[job]
        append(front, counters[WAITING], gaps, key, job, procs, fit)
        if not settings.one_queue:
            append(back, counters[WAITING], gaps, backfill_key(settings, job, now, jobs, estimates), job, procs, fit)
        counters[WAITING] += 1
    counters[HELD] = 0
    insertion_sort(front, counters[WAITING])
    if not settings.one_queue:
        insertion_sort(back, counters[WAITING])


CHOSEN_JOBS, FIRST_WAITING, REFUSED, SLOTS = range(4)
"""Slots of ``Outside.table``. CHOSEN_JOBS: the number of chosen jobs, UNASKED before the policy is asked.
FIRST_WAITING: the index of the first waiting job. REFUSED: the index of a wrong choice in ``chosen``, plus one."""

UNASKED = -1


class Outside(NamedTuple):
    """The choice of a policy, int64: the ``chosen`` jobs, and ``where`` each starts.

    Both are [jobs + 1]; ``where`` is a cluster, or NOWHERE for the first with room. ``waiting`` [jobs]: see the module.
    """

    table: np.ndarray
    waiting: np.ndarray
    chosen: np.ndarray
    where: np.ndarray


@kernel
def wait_for_policy(job, state, outside):
    """Add ``job``, just submitted, to the waiting jobs."""
    outside.waiting[job] = job
    state.counters[WAITING] += 1


@kernel
def outside_pass(now, jobs, estimates, state, outside, clusters, bits):
    """Start the jobs that the policy chose; return True if it must be asked, or was wrong.

    It is asked if a job waits and, on a pool, a processor is free. On clusters it is asked again until it starts no
    job, as what fits depends on where the chosen jobs were put.
    """
    counters, table = state.counters, outside.table
    while True:
        if table[CHOSEN_JOBS] == UNASKED:
            return counters[WAITING] > 0 and (clusters is not None or counters[FREE] > 0)
        chosen = table[CHOSEN_JOBS]
        table[CHOSEN_JOBS] = UNASKED
        counters[CHANGED] = 0
        if chosen == 0:
            return False
        if start_chosen(chosen, now, jobs, estimates, state, outside, clusters, bits):
            return True
        if clusters is None:
            return False


@apart
def start_chosen(chosen, now, jobs, estimates, state, outside, clusters, bits):
    """Start the ``chosen`` jobs in their order; return True at the first that cannot start."""
    counters, table, waiting = state.counters, outside.table, outside.waiting
    for i in range(chosen):  # if more are chosen than wait, one of them is wrong
        job, place = outside.chosen[i], NOWHERE
        if 0 <= job < counters[NEXT] and state.start[job] < 0:
            place = place_for(job, outside.where[i], now, jobs, estimates, state, clusters)
        if place == NOWHERE:
            table[REFUSED] = i + 1
            return True
        if clusters is None:
            start_job(job, now, jobs, estimates, state, bits)
        else:
            choose(clusters.nodes.row[job], place, 0, clusters.nodes, clusters.nodes.free)
            start_planned(job, now, jobs, estimates, state, clusters, bits)
    counters[WAITING] -= chosen
    last, left = table[FIRST_WAITING] - 1, chosen
    while left > 0:
        last += 1
        left -= state.start[waiting[last]] >= 0
    to = last
    for i in range(last, table[FIRST_WAITING] - 1, -1):  # waiting jobs in front move up
        if state.start[waiting[i]] < 0:
            waiting[to] = waiting[i]
            to -= 1
    table[FIRST_WAITING] += chosen
    return False


@apart
def place_for(job, cluster, now, jobs, estimates, state, clusters):
    """Return ``cluster`` if ``job`` fits there now, else NOWHERE.

    If ``cluster`` is NOWHERE, return the first in which the job fits. The single pool is cluster 0.
    """
    if clusters is None:
        return 0 if cluster <= 0 and jobs.procs[job] <= state.counters[FREE] else NOWHERE
    if closed(job, estimates.fit[job], now, clusters):
        return NOWHERE
    if cluster == NOWHERE:
        return first_room(job, clusters)
    nodes = clusters.nodes
    if 0 <= cluster < len(nodes.first) - 1 and fits(nodes.row[job], cluster, nodes, nodes.free, nodes.left):
        return cluster
    return NOWHERE
