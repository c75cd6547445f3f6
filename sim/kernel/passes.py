"""The scheduling passes: start waiting jobs, given the plan of the running ones.

``full_pass`` covers the whole queue. ``submit_pass`` covers one job just submitted, if all others were rejected before
and no job has ended or been corrected since: a rejected candidate stays rejected while no processor comes free and the
reservation stands, because time only brings the reservation nearer.
"""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.kernel import state as slots
from sim.kernel.orders import MIXED, SCORE, look_around, order_key, score
from sim.kernel.pool_plans import admit, compress, go_on, plan_anew, plan_on, reserve_heads
from sim.kernel.profile import fits_now, reserve_from, set_now
from sim.kernel.queue import (
    BEGIN,
    BLOCK_BITS,
    END,
    FEW,
    GROUP_BITS,
    HOLE,
    LONG,
    append,
    find,
    gapped_insert,
    insertion_sort,
    look_through,
    look_through_group,
    make_hole,
    may_hold,
    pack,
    settle,
    tidy,
)
from sim.kernel.state import start_job, undecided

STRICT, LIST, EASY, JUSTBF, CONSERVATIVE, HARM, PLANRS, ORIGBF = range(8)
"""Algorithms. STRICT: no backfilling. LIST: start each job that fits. EASY: one reservation for the head (Lifka 1995;
Mu'alem & Feitelson 2001). JUSTBF: a plan for all jobs, made again at each pass. CONSERVATIVE: reservations for all
jobs, kept. HARM: expected harm, with its own queue and passes (:mod:`sim.kernel.harm`). On clusters, PLANRS: a plan of
all jobs, improved by a search (:mod:`sim.kernel.planning`), and ORIGBF: backfilling of several queues by fair share
(:mod:`sim.kernel.cluster_passes`)."""


@kernel
def reserve(needed, state, bits):
    """Write the shadow time and extra processors of a head job that does not fit now.

    The head needs ``needed`` processors. The shadow time is the earliest predicted end by which they are free; all jobs
    predicted to end in that very second count towards the extra processors.
    """
    counters = state.counters
    available = counters[slots.FREE]
    size = counters[slots.PLANS]
    i = 0
    while i < size and available < needed:
        available += state.plan_procs[i]
        i += 1
    shadow = state.plan[i - 1] >> bits
    while i < size and state.plan[i] >> bits == shadow:
        available += state.plan_procs[i]
        i += 1
    counters[slots.SHADOW] = shadow
    counters[slots.EXTRA] = available - needed
    counters[slots.SHADOW_KNOWN] = 1


@kernel
def may_backfill(algorithm, procs, fit, now, head, jobs, state, bits):
    """Tell whether a job that fits may start now, although the ``head`` of the queue waits.

    EASY computes its reservation when it is first needed. Call :func:`started_behind` if the job starts.
    """
    if algorithm == LIST:
        return True
    if algorithm == STRICT:
        return False
    counters = state.counters
    if counters[slots.SHADOW_KNOWN] == 0:
        reserve(jobs.procs[head], state, bits)
    return now + fit <= counters[slots.SHADOW] or procs <= counters[slots.EXTRA]


@kernel
def started_behind(algorithm, procs, fit, now, counters):
    """Account for a job started after :func:`may_backfill`.

    It takes extra processors if it runs beyond the shadow time.
    """
    if algorithm == EASY and now + fit > counters[slots.SHADOW]:
        counters[slots.EXTRA] -= procs


@kernel
def full_pass(settings, again, now, jobs, estimates, work):
    """Start every job that may start.

    With one queue, ``front`` gives the backfill order too and ``back`` is not used. With ``again`` the pass that
    stopped at an undecided job continues: order, reservations and plan are unchanged.
    """
    front, profile, state, counters = work.front, work.profile, work.state, work.state.counters
    bits = settings.bits
    if not again and order_changes(settings):
        if not anyone_fits(settings, front, counters):
            return
        sort_anew(settings, now, jobs, estimates, work)
    if settings.algorithm == JUSTBF:
        if counters[slots.WAITING] > 0:
            if again:
                plan_on(now, jobs, estimates, front, profile, state, bits)
            elif not plan_holds(settings, front, counters) or not go_on(now, jobs, estimates, front, profile, state, bits):
                settle(front, state.start)
                tidy(front, counters[slots.WAITING], state.start)
                plan_anew(now, jobs, estimates, front, profile, state, bits)
        return
    if settings.algorithm == CONSERVATIVE:
        compress(again, settings.steady, now, jobs, estimates, work, bits)
        return
    if not again:
        counters[slots.SHADOW_KNOWN] = 0
    settle(front, state.start)
    while counters[slots.WAITING] > 0 and front.procs[front.bounds[BEGIN]] <= counters[slots.FREE]:
        if undecided(front.job[front.bounds[BEGIN]], state):
            return
        counters[slots.WAITING] -= 1
        start_job(front.job[front.bounds[BEGIN]], now, jobs, estimates, state, bits)
        settle(front, state.start)
    if counters[slots.WAITING] > 1 and counters[slots.FREE] > 0 and settings.algorithm != STRICT:
        if settings.algorithm == EASY and settings.reservations > 1 and counters[slots.SHADOW_KNOWN] == 0:
            at = reserve_heads(settings.reservations, now, jobs, estimates, front, profile, state, bits)
            while at >= 0:
                if undecided(front.job[at], state):
                    return
                counters[slots.WAITING] -= 1
                start_job(front.job[at], now, jobs, estimates, state, bits)
                at = reserve_heads(settings.reservations, now, jobs, estimates, front, profile, state, bits)
            counters[slots.SHADOW_KNOWN] = 1
        backfill(settings, now, jobs, estimates, work)
        settle(front, state.start)
    tidy(front, counters[slots.WAITING], state.start)
    if not settings.one_queue:
        tidy(work.back, counters[slots.WAITING], state.start)


@kernel
def plan_holds(settings, queue, counters):
    """Tell whether JustBF's plan would be the same if it were made again.

    A new plan is made, too, when there are so many holes that the queue is to be tidied.
    """
    holes = queue.bounds[END] - queue.bounds[BEGIN] - counters[slots.WAITING]
    in_order = settings.steady and not order_changes(settings)
    return in_order and counters[slots.AS_PLANNED] == slots.PLANNED and holes <= counters[slots.WAITING] + FEW


@kernel
def order_changes(settings):
    """Tell whether the order of two waiting jobs can change.

    In a sweep this may differ between mixed policies: waiting moves all keys alike unless the expansion has a weight.
    """
    return settings.changing and (settings.order != MIXED or settings.weights[4] != 0.0 or settings.backfill_changing)


@kernel
def anyone_fits(settings, queue, counters):
    """Tell whether a waiting job fits in the free processors.

    If none does, the queue need not be sorted again.
    """
    i = queue.bounds[BEGIN]
    end = queue.bounds[END]
    while i < end and queue.procs[i] > counters[slots.FREE]:
        i += 1
    return i < end


@apart
def line_up_anew(settings, first, now, jobs, estimates, work):
    """Line up all waiting jobs in the order of ``settings``, as the policy changes.

    All jobs before row ``first`` have started.
    """
    state, counters = work.state, work.state.counters
    counters[slots.WAITING] = 0
    counters[slots.CHANGED] = 1
    for job in range(first, counters[slots.NEXT]):
        if state.start[job] < 0:
            enqueue(settings, job, now, jobs, estimates, work)


@kernel
def head_of(work):
    """Return the first job of the primary queue."""
    return work.front.job[work.front.bounds[BEGIN]]


@kernel
def backfill(settings, now, jobs, estimates, work):
    """Start jobs that may start although the head waits, in the order of backfilling."""
    candidates, counters = work.front if settings.one_queue else work.back, work.state.counters
    i, end = candidates.bounds[BEGIN], candidates.bounds[END]
    if end - i <= LONG or settings.reservations > 1:
        backfill_from(settings, i, end, now, jobs, estimates, work)
        return
    longest, extra = HOLE - 1, 0  # List starts jobs of any length
    if settings.algorithm == EASY:
        if counters[slots.SHADOW_KNOWN] == 0:
            reserve(jobs.procs[head_of(work)], work.state, settings.bits)
        longest = counters[slots.SHADOW] - now
    while i < end and counters[slots.FREE] > 0:
        group = i >> GROUP_BITS
        end_of_group = min(end, (group + 1) << GROUP_BITS)
        extra = counters[slots.EXTRA] if settings.algorithm == EASY else 0
        if not may_hold(candidates, candidates.group_least, group, counters[slots.FREE], longest, extra):
            i = end_of_group
            continue
        while i < end_of_group and counters[slots.FREE] > 0:
            block = i >> BLOCK_BITS
            end_of_block = min(end, (block + 1) << BLOCK_BITS)
            extra = counters[slots.EXTRA] if settings.algorithm == EASY else 0
            if may_hold(candidates, candidates.least, block, counters[slots.FREE], longest, extra):
                backfill_from(settings, i, end_of_block, now, jobs, estimates, work)
                if counters[slots.UNDECIDED] > 0:
                    return
                look_through(candidates, block)
            i = end_of_block
        look_through_group(candidates, group)


@apart
def backfill_from(settings, i, end, now, jobs, estimates, work):
    """Backfill the candidates from index ``i`` to ``end``."""
    candidates, profile = work.front if settings.one_queue else work.back, work.profile
    head, state, counters = head_of(work), work.state, work.state.counters
    several = settings.algorithm == EASY and settings.reservations > 1
    free = counters[slots.FREE]
    while free > 0:
        while i < end and candidates.procs[i] > free:
            i += 1
        if i == end:
            break
        procs = candidates.procs[i]
        job = candidates.job[i]
        fit = candidates.fit[i]
        if state.start[job] >= 0:
            candidates.procs[i] = HOLE
        elif several:
            if fits_now(profile, counters, procs, fit):
                if undecided(job, state):
                    return
                candidates.procs[i] = HOLE
                counters[slots.WAITING] -= 1
                if start_job(job, now, jobs, estimates, state, settings.bits):
                    reserve_from(profile, counters, 0, procs, fit)
        elif may_backfill(settings.algorithm, procs, fit, now, head, jobs, state, settings.bits):
            if undecided(job, state):
                return
            candidates.procs[i] = HOLE
            counters[slots.WAITING] -= 1
            if start_job(job, now, jobs, estimates, state, settings.bits):
                started_behind(settings.algorithm, procs, fit, now, counters)
        free = counters[slots.FREE]
        i += 1


@kernel
def submit_pass(settings, job, now, jobs, estimates, work):
    """Start ``job``, just submitted, or let it wait; return False if a full pass is needed."""
    front, profile, state, counters = work.front, work.profile, work.state, work.state.counters
    if settings.algorithm == CONSERVATIVE:
        enqueue(settings, job, now, jobs, estimates, work)
        admit(now, jobs, estimates, front, profile, state, settings.bits)
        return True
    if settings.algorithm == JUSTBF:
        moved = enqueue(settings, job, now, jobs, estimates, work)
        behind = moved >= front.bounds[BEGIN] + counters[slots.RESERVED]
        if behind:
            set_now(profile, now)
            if jobs.procs[job] <= counters[slots.FREE] and fits_now(profile, counters, jobs.procs[job], estimates.fit[job]):
                plan_on(now, jobs, estimates, front, profile, state, settings.bits)
        return behind
    behind = primary_key(settings, job, now, jobs, estimates, counters) >= front.key[front.bounds[BEGIN]]
    procs = jobs.procs[job]
    if (
        behind
        and procs <= counters[slots.FREE]
        and may_backfill(settings.algorithm, procs, estimates.fit[job], now, head_of(work), jobs, state, settings.bits)
    ):
        if start_job(job, now, jobs, estimates, state, settings.bits):  # with start decisions no job comes here
            started_behind(settings.algorithm, procs, estimates.fit[job], now, counters)
    else:
        enqueue(settings, job, now, jobs, estimates, work)
    return behind


@kernel
def enqueue(settings, job, now, jobs, estimates, work):
    """Insert ``job`` into the primary queue and, if there is one, the backfill queue.

    Return the first entry of the primary queue that has changed, -1 if all may have.
    """
    front, state, counters = work.front, work.state, work.state.counters
    moved = line_up(settings, front, primary_key(settings, job, now, jobs, estimates, counters), job, jobs, estimates, state)
    if settings.algorithm == JUSTBF and moved < front.bounds[BEGIN] + counters[slots.RESERVED]:
        counters[slots.AS_PLANNED] = slots.LATER
    if not settings.one_queue:
        line_up(settings, work.back, backfill_key(settings, job, now, jobs, estimates), job, jobs, estimates, state)
    counters[slots.WAITING] += 1
    return moved


@kernel
def line_up(settings, queue, key, job, jobs, estimates, state):
    """Insert ``job`` into a queue of ``counters[WAITING]`` other jobs.

    Return the first entry that has changed, -1 if all may have. Conservative's packed queue returns 0.
    """
    waiting = state.counters[slots.WAITING]
    if settings.algorithm == CONSERVATIVE:
        append(queue, waiting, False, key, job, jobs.procs[job], estimates.fit[job])
        return 0
    return gapped_insert(queue, waiting, key, job, jobs.procs[job], estimates.fit[job], state.start)


@kernel
def move_up(settings, job, now, jobs, estimates, front, state):
    """Move ``job``, which waits, to the place of its current key in the primary queue."""
    counters = state.counters
    at = find(front, job)
    counters[slots.WAITING] -= 1
    counters[slots.AS_PLANNED] = slots.LATER
    make_hole(front, at)
    line_up(settings, front, primary_key(settings, job, now, jobs, estimates, counters), job, jobs, estimates, state)
    counters[slots.WAITING] += 1


@kernel
def primary_key(settings, job, now, jobs, estimates, counters):
    """Return the sort key of ``job`` in the primary queue.

    Once the job starves it goes before all others. With Conservative it goes behind all jobs that hold a reservation.
    """
    if settings.algorithm == CONSERVATIVE:
        return np.inf
    if job < counters[slots.STARVING]:
        return -np.inf
    if settings.order == SCORE:
        return score(settings.scoring.primary, settings.weights, settings.scoring, job, now, jobs, estimates)
    return order_key(settings.order, settings.weights, jobs.submit[job], jobs.procs[job], estimates.order[job], now)


@kernel
def backfill_key(settings, job, now, jobs, estimates):
    """Return the sort key of ``job`` in the backfill queue."""
    if settings.backfill == SCORE:
        return score(settings.scoring.backfill, settings.backfill_weights, settings.scoring, job, now, jobs, estimates)
    return order_key(settings.backfill, settings.backfill_weights, jobs.submit[job], jobs.procs[job], estimates.order[job], now)


@kernel
def sort_anew(settings, now, jobs, estimates, work):
    """Sort all waiting jobs, nearly sorted already, by their current keys."""
    front, back, state, counters = work.front, work.back, work.state, work.state.counters
    pack(front, state.start)
    begin = front.bounds[BEGIN]
    if settings.order == SCORE or settings.backfill == SCORE:
        look_around(settings.scoring, front.job, begin, counters[slots.WAITING], jobs, estimates, counters)
    for i in range(begin, begin + counters[slots.WAITING]):
        front.key[i] = primary_key(settings, front.job[i], now, jobs, estimates, counters)
    insertion_sort(front, counters[slots.WAITING])
    if settings.backfill_changing and not settings.one_queue:
        pack(back, state.start)
        begin = back.bounds[BEGIN]
        for i in range(begin, begin + counters[slots.WAITING]):
            back.key[i] = backfill_key(settings, back.job[i], now, jobs, estimates)
        insertion_sort(back, counters[slots.WAITING])
