"""The scheduling passes: given the waiting jobs and the plan of the running ones, which start now?

``full_pass`` looks at the whole queue; ``submit_pass`` at one job just submitted, where everything else was looked at before
and nothing has ended or been corrected since: a rejected candidate stays rejected while no processor comes free and
the reservation stands, because time only brings the reservation nearer.
"""

from __future__ import annotations

import numpy as np

from features.jit import kernel
from sim.orders import order_key
from sim.state import (
    ENDS,
    EXTRA,
    FREE,
    PLANS,
    SHADOW,
    SHADOW_KNOWN,
    STARTED,
    STARVING,
    WAITING,
    heap_push,
    plan_insert,
    queue_find,
    queue_remove,
)

STRICT, LIST, EASY = range(3)
"""Algorithms: no backfilling; start what fits; one reservation for the head (Lifka 1995; Mu'alem & Feitelson 2001)."""


@kernel
def start_job(job, now, jobs, estimates, state, bits):
    """``job`` leaves for the machine; the caller takes it out of the queue."""
    counters = state.counters
    sequence = counters[STARTED]
    counters[STARTED] = sequence + 1
    state.running[sequence] = job
    state.start[job] = now
    procs = jobs.procs[job]
    counters[FREE] -= procs
    planned = now + estimates.end[job]
    state.planned[job] = planned
    heap_push(state.ends, counters[ENDS], (now + jobs.runtime[job]) << bits | sequence)
    counters[ENDS] += 1
    plan_insert(state.plan, state.plan_procs, counters[PLANS], planned << bits | sequence, procs)
    counters[PLANS] += 1


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
def full_pass(settings, now, jobs, estimates, front, back, state):
    """Start every job that may start. With one queue, ``front`` gives the backfill order too and ``back`` is not used."""
    counters = state.counters
    bits = settings.bits
    counters[SHADOW_KNOWN] = 0
    while counters[WAITING] > 0 and front.procs[front.begin[0]] <= counters[FREE]:
        job = front.job[front.begin[0]]
        if not settings.one_queue:
            leave(back, backfill_key(settings, job, jobs, estimates), job, counters[WAITING])
        queue_remove(front, counters[WAITING], front.begin[0])
        counters[WAITING] -= 1
        start_job(job, now, jobs, estimates, state, bits)
    if counters[WAITING] < 2 or settings.algorithm == STRICT:
        return
    head = front.job[front.begin[0]]
    candidates = front if settings.one_queue else back
    i = candidates.begin[0]
    while i < candidates.begin[0] + counters[WAITING] and counters[FREE] > 0:
        procs = candidates.procs[i]
        if procs <= counters[FREE] and may_backfill(settings.algorithm, procs, candidates.fit[i], now, head, jobs, state, bits):
            job = candidates.job[i]
            if not settings.one_queue:
                leave(front, primary_key(settings, job, jobs, estimates, counters), job, counters[WAITING])
            moved_up = queue_remove(candidates, counters[WAITING], i)
            counters[WAITING] -= 1
            start_job(job, now, jobs, estimates, state, bits)
            if moved_up:
                continue
        i += 1


@kernel
def primary_key(settings, job, jobs, estimates, counters):
    """Sort key of ``job`` in the primary queue: before all others once it starves."""
    if job < counters[STARVING]:
        return -np.inf
    return order_key(settings.order, jobs.submit[job], jobs.procs[job], estimates.order[job])


@kernel
def backfill_key(settings, job, jobs, estimates):
    """Sort key of ``job`` in the backfill queue."""
    return order_key(settings.backfill, jobs.submit[job], jobs.procs[job], estimates.order[job])


@kernel
def leave(queue, key, job, size):
    """Take ``job``, which waits under ``key``, out of a queue of ``size``."""
    queue_remove(queue, size, queue_find(queue, size, key, job))


@kernel
def submit_pass(algorithm, job, now, jobs, estimates, head, state, bits):
    """Start ``job``, just submitted behind ``head``, if it may; returns whether it did."""
    procs = jobs.procs[job]
    if procs > state.counters[FREE] or not may_backfill(algorithm, procs, estimates.fit[job], now, head, jobs, state, bits):
        return False
    start_job(job, now, jobs, estimates, state, bits)
    return True
