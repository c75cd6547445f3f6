"""The scheduling passes: given the waiting jobs and the plan of the running ones, which start now?

``full_pass`` looks at the whole queue; ``submit_pass`` at one job just submitted, where everything else was looked at before
and nothing has ended or been corrected since: a rejected candidate stays rejected while no processor comes free and
the reservation stands, because time only brings the reservation nearer.
"""

from __future__ import annotations

import numpy as np

from features.jit import kernel
from sim.conservative import admit, compress
from sim.just_backfill import build_profile, plan_on, reserve_from
from sim.orders import order_key
from sim.reservations import fits_now, reserve_heads
from sim.state import (
    EXTRA,
    FREE,
    PLANS,
    RESERVED,
    SHADOW,
    SHADOW_KNOWN,
    STARVING,
    WAITING,
    insertion_sort,
    queue_find,
    queue_insert,
    queue_remove,
    start_job,
)

STRICT, LIST, EASY, JUSTBF, CONSERVATIVE = range(5)
"""Algorithms: no backfilling; start what fits; one reservation for the head (Lifka 1995; Mu'alem & Feitelson 2001); a plan for
everyone, made anew at each pass; reservations for everyone, kept."""


@kernel
def reserve(needed, state, bits):
    """Shadow time and extra processors of a head job that needs ``needed`` processors and does not fit now.

    The shadow time is the earliest predicted end by which enough processors are free; all jobs predicted to end at that very second count
    towards the extra processors.
    """
    counters = state.counters
    available = counters[FREE]
    size = counters[PLANS]
    i = 0
    while i < size and available < needed:
        available += state.plan_procs[i]
        i += 1
    shadow = state.plan[i - 1] >> bits
    while i < size and state.plan[i] >> bits == shadow:
        available += state.plan_procs[i]
        i += 1
    counters[SHADOW] = shadow
    counters[EXTRA] = available - needed
    counters[SHADOW_KNOWN] = 1


@kernel
def may_backfill(algorithm, procs, fit, now, head, jobs, state, bits):
    """May a job that fits in the free processors start now, although ``head`` waits in front of it? EASY computes its reservation when first needed."""
    if algorithm == LIST:
        return True
    if algorithm == STRICT:
        return False
    counters = state.counters
    if counters[SHADOW_KNOWN] == 0:
        reserve(jobs.procs[head], state, bits)
    if now + fit <= counters[SHADOW]:
        return True
    if procs <= counters[EXTRA]:
        counters[EXTRA] -= procs
        return True
    return False


@kernel
def full_pass(settings, now, jobs, estimates, front, back, profile, state):
    """Start every job that may start. With one queue, ``front`` gives the backfill order too and ``back`` is not used."""
    counters = state.counters
    bits = settings.bits
    if settings.changing:
        sort_anew(settings, now, jobs, estimates, front, back, counters)
    if settings.algorithm == JUSTBF:
        counters[RESERVED] = 0
        if counters[WAITING] > 0:
            build_profile(now, profile, state, bits)
            plan_on(now, jobs, estimates, front, profile, state, bits)
        return
    if settings.algorithm == CONSERVATIVE:
        compress(now, jobs, estimates, front, profile, state, bits)
        return
    counters[SHADOW_KNOWN] = 0
    while counters[WAITING] > 0 and front.procs[front.begin[0]] <= counters[FREE]:
        job = front.job[front.begin[0]]
        if not settings.one_queue:
            leave(settings, back, backfill_key(settings, job, now, jobs, estimates), job, counters[WAITING])
        queue_remove(front, counters[WAITING], front.begin[0])
        counters[WAITING] -= 1
        start_job(job, now, jobs, estimates, state, bits)
    if counters[WAITING] < 2 or settings.algorithm == STRICT:
        return
    several = settings.algorithm == EASY and settings.reservations > 1
    if several:
        at = reserve_heads(settings.reservations, now, jobs, estimates, front, profile, state, bits)
        while at >= 0:
            job = front.job[at]
            if not settings.one_queue:
                leave(settings, back, backfill_key(settings, job, now, jobs, estimates), job, counters[WAITING])
            queue_remove(front, counters[WAITING], at)
            counters[WAITING] -= 1
            start_job(job, now, jobs, estimates, state, bits)
            at = reserve_heads(settings.reservations, now, jobs, estimates, front, profile, state, bits)
        if counters[WAITING] == 0:
            return
    head = front.job[front.begin[0]]
    candidates = front if settings.one_queue else back
    i = candidates.begin[0]
    while i < candidates.begin[0] + counters[WAITING] and counters[FREE] > 0:
        procs = candidates.procs[i]
        may = procs <= counters[FREE]
        if may and several:
            may = fits_now(profile, counters, procs, candidates.fit[i])
        elif may:
            may = may_backfill(settings.algorithm, procs, candidates.fit[i], now, head, jobs, state, bits)
        if may:
            job = candidates.job[i]
            if several:
                reserve_from(profile, counters, 0, procs, candidates.fit[i])
            if not settings.one_queue:
                leave(settings, front, primary_key(settings, job, now, jobs, estimates, counters), job, counters[WAITING])
            moved_up = queue_remove(candidates, counters[WAITING], i)
            counters[WAITING] -= 1
            start_job(job, now, jobs, estimates, state, bits)
            if moved_up:
                continue
        i += 1


@kernel
def submit_pass(settings, job, now, jobs, estimates, front, back, profile, state):
    """Start ``job``, just submitted, or let it wait; returns False if its arrival calls for a full pass after all."""
    counters = state.counters
    if settings.algorithm == CONSERVATIVE:
        enqueue(settings, job, now, jobs, estimates, front, back, counters)
        admit(now, jobs, estimates, front, profile, state, settings.bits)
        return True
    key = primary_key(settings, job, now, jobs, estimates, counters)
    first = front.begin[0]
    if settings.algorithm == JUSTBF:
        behind = counters[RESERVED] == 0 or key >= front.key[first + counters[RESERVED] - 1]
        enqueue(settings, job, now, jobs, estimates, front, back, counters)
        if behind:
            profile.time[0] = now
            plan_on(now, jobs, estimates, front, profile, state, settings.bits)
        return behind
    behind = key >= front.key[first]
    procs = jobs.procs[job]
    if (
        behind
        and procs <= counters[FREE]
        and may_backfill(settings.algorithm, procs, estimates.fit[job], now, front.job[first], jobs, state, settings.bits)
    ):
        start_job(job, now, jobs, estimates, state, settings.bits)
    else:
        enqueue(settings, job, now, jobs, estimates, front, back, counters)
    return behind


@kernel
def enqueue(settings, job, now, jobs, estimates, front, back, counters):
    """``job`` takes its place among the waiting jobs, in the primary queue and, where its order differs, in the backfill queue."""
    procs = jobs.procs[job]
    queue_insert(
        front, counters[WAITING], primary_key(settings, job, now, jobs, estimates, counters), job, procs, estimates.fit[job]
    )
    if not settings.one_queue:
        queue_insert(back, counters[WAITING], backfill_key(settings, job, now, jobs, estimates), job, procs, estimates.fit[job])
    counters[WAITING] += 1


@kernel
def primary_key(settings, job, now, jobs, estimates, counters):
    """Sort key of ``job`` in the primary queue: before all others once it starves, behind all who hold a reservation when it comes
    to ask for one."""
    if settings.algorithm == CONSERVATIVE:
        return np.inf
    if job < counters[STARVING]:
        return -np.inf
    return order_key(settings.order, settings.weights, jobs.submit[job], jobs.procs[job], estimates.order[job], now)


@kernel
def backfill_key(settings, job, now, jobs, estimates):
    """Sort key of ``job`` in the backfill queue."""
    return order_key(settings.backfill, settings.backfill_weights, jobs.submit[job], jobs.procs[job], estimates.order[job], now)


@kernel
def leave(settings, queue, key, job, size):
    """Take ``job``, which waits under ``key``, out of a queue of ``size``."""
    if settings.changing:  # keys are of the last sorting: look for the job itself
        at = queue.begin[0]
        while queue.job[at] != job:
            at += 1
    else:
        at = queue_find(queue, size, key, job)
    queue_remove(queue, size, at)


@kernel
def sort_anew(settings, now, jobs, estimates, front, back, counters):
    """Give all waiting jobs the keys they have now and sort them again; they were nearly sorted before."""
    begin = front.begin[0]
    for i in range(begin, begin + counters[WAITING]):
        front.key[i] = primary_key(settings, front.job[i], now, jobs, estimates, counters)
    insertion_sort(front, counters[WAITING])
    if not settings.one_queue:
        begin = back.begin[0]
        for i in range(begin, begin + counters[WAITING]):
            back.key[i] = backfill_key(settings, back.job[i], now, jobs, estimates)
        insertion_sort(back, counters[WAITING])
