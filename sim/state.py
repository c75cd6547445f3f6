"""The arrays a simulation works on, and the few ways they change. Everything is int64 seconds from the first submission, or counts.

Jobs are rows in order of submission, so a job's row number settles every tie: earlier submission, then file order. A running job
has a sequence number, the order of its start; an event is one integer, ``time << bits | sequence``, so sorting events needs one comparison.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import kernel

(
    NEXT,
    FREE,
    ENDS,
    PLANS,
    WAITING,
    STARTED,
    ENDED,
    SHADOW,
    EXTRA,
    SHADOW_KNOWN,
    ASKED,
    CHANGED,
    STARVING,
    PROFILE,
    RESERVED,
    COUNTERS,
) = range(16)
"""Slots of ``State.counters``: the next job to be submitted; free processors; running jobs (in the heap of ends, in the plan); waiting
jobs; jobs started and ended so far; the reservation last computed and whether it still holds; the jobs just submitted whose
estimates are asked for outside; whether anything but submissions has happened since the last full pass; the row below which every
waiting job starves; the length of the profile, and the jobs at the head of the queue that are planned in it."""


class Jobs(NamedTuple):
    """What is given, int64 [jobs]; ``user`` is a code, -1 for nobody known."""

    submit: np.ndarray
    runtime: np.ndarray
    procs: np.ndarray
    requested: np.ndarray
    user: np.ndarray


class Estimates(NamedTuple):
    """Predicted runtimes for the three questions of :mod:`models.protocol`, int64 [jobs], final once a job is submitted."""

    order: np.ndarray
    fit: np.ndarray
    end: np.ndarray


class Queue(NamedTuple):
    """Waiting jobs sorted by (key, job), from index ``begin[0]`` on: sort key float64, and int64 row, processors and estimate for the question FIT.

    ``begin`` returns to 0 whenever the queue is empty, and the queue moves there when it reaches the end of its arrays.
    """

    begin: np.ndarray

    key: np.ndarray
    job: np.ndarray
    procs: np.ndarray
    fit: np.ndarray


class Profile(NamedTuple):
    """Free processors over time, for algorithms that plan: ``free[i]`` from ``time[i]`` to ``time[i + 1]``, the last one for ever."""

    time: np.ndarray
    free: np.ndarray


class State(NamedTuple):
    """Everything that changes. ``ends`` is a binary heap of actual ends, ``plan`` the sorted predicted ends with ``plan_procs`` beside it."""

    counters: np.ndarray
    ends: np.ndarray
    plan: np.ndarray
    plan_procs: np.ndarray
    running: np.ndarray  # sequence number -> job
    ended: np.ndarray  # jobs in the order of their ends
    start: np.ndarray
    planned: np.ndarray  # job -> its predicted end, as corrected so far
    corrections: np.ndarray


def new_state(jobs: int, procs: int) -> State:
    """Fresh arrays for ``jobs`` jobs on ``procs`` processors.

    No more jobs run at a time than there are processors, but in the second in which they are predicted to end, per-event semantics may
    start as many again before their ends are dealt with.
    """
    most = min(jobs, 2 * procs)
    counters = np.zeros(COUNTERS, np.int64)
    counters[FREE] = procs

    def zeros(length: int) -> np.ndarray:
        return np.zeros(length, np.int64)

    return State(
        counters,
        zeros(most),
        zeros(most),
        zeros(most),
        zeros(jobs),
        zeros(jobs),
        np.full(jobs, -1, np.int64),
        zeros(jobs),
        zeros(jobs),
    )


def new_queue(jobs: int) -> Queue:
    """An empty queue for a simulation of ``jobs`` jobs."""
    return Queue(
        np.zeros(1, np.int64), np.zeros(jobs), np.zeros(jobs, np.int64), np.zeros(jobs, np.int64), np.zeros(jobs, np.int64)
    )


def new_profile(jobs: int) -> Profile:
    """An empty profile for ``jobs`` jobs: each, running or planned, adds at most two steps."""
    return Profile(np.zeros(2 * jobs + 2, np.int64), np.zeros(2 * jobs + 2, np.int64))


@kernel
def heap_push(heap, size, event):
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if heap[parent] <= event:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = event


@kernel
def heap_pop(heap, size):
    """Remove the least event, which is ``heap[0]``, from a heap of ``size``."""
    last = heap[size - 1]
    size -= 1
    i = 0
    child = 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[i] = heap[child]
        i = child
        child = 2 * i + 1
    heap[i] = last


@kernel
def plan_insert(plan, plan_procs, size, event, procs):
    i = size
    while i > 0 and plan[i - 1] > event:
        plan[i] = plan[i - 1]
        plan_procs[i] = plan_procs[i - 1]
        i -= 1
    plan[i] = event
    plan_procs[i] = procs


@kernel
def plan_remove(plan, plan_procs, size, event):
    low, high = 0, size - 1
    while low < high:
        middle = (low + high) >> 1
        if plan[middle] < event:
            low = middle + 1
        else:
            high = middle
    for i in range(low, size - 1):
        plan[i] = plan[i + 1]
        plan_procs[i] = plan_procs[i + 1]


@kernel
def queue_insert(queue, size, key, job, procs, fit):
    """Insert by (key, job), where no job of the same key in the queue of ``size`` is greater than ``job``."""
    if size == 0:
        queue.begin[0] = 0
    begin = queue.begin[0]
    if begin + size == len(queue.key):
        for i in range(size):
            _copy(queue, begin + i, i)
        queue.begin[0] = begin = 0
    i = begin + size
    while i > begin and queue.key[i - 1] > key:
        _copy(queue, i - 1, i)
        i -= 1
    queue.key[i] = key
    queue.job[i] = job
    queue.procs[i] = procs
    queue.fit[i] = fit


@kernel
def queue_remove(queue, size, at):
    """Close the gap that the entry at index ``at`` leaves, from the side where fewer entries move; returns whether those behind it moved."""
    begin = queue.begin[0]
    if at - begin < begin + size - 1 - at:
        for i in range(at, begin, -1):
            _copy(queue, i - 1, i)
        queue.begin[0] = begin + 1
        return False
    for i in range(at, begin + size - 1):
        _copy(queue, i + 1, i)
    return True


@kernel
def _copy(queue, source, target):
    queue.key[target] = queue.key[source]
    queue.job[target] = queue.job[source]
    queue.procs[target] = queue.procs[source]
    queue.fit[target] = queue.fit[source]


@kernel
def queue_find(queue, size, key, job):
    """Index of ``job``, which is in the queue of ``size`` under ``key``."""
    low = queue.begin[0]
    high = low + size - 1
    while low < high:
        middle = (low + high) >> 1
        at = queue.key[middle]
        if at < key or (at == key and queue.job[middle] < job):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def insertion_sort(queue, size):
    """Sort a queue of ``size``, nearly sorted already, by (key, job)."""
    begin = queue.begin[0]
    for i in range(begin + 1, begin + size):
        key = queue.key[i]
        job = queue.job[i]
        procs = queue.procs[i]
        fit = queue.fit[i]
        j = i - 1
        while j >= begin and (queue.key[j] > key or (queue.key[j] == key and queue.job[j] > job)):
            queue.key[j + 1] = queue.key[j]
            queue.job[j + 1] = queue.job[j]
            queue.procs[j + 1] = queue.procs[j]
            queue.fit[j + 1] = queue.fit[j]
            j -= 1
        queue.key[j + 1] = key
        queue.job[j + 1] = job
        queue.procs[j + 1] = procs
        queue.fit[j + 1] = fit


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
