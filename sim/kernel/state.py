"""The arrays of a simulation and the functions that change them; int64 seconds or counts.

Seconds count from the first submission. Jobs are rows in order of submission, so the row number settles every tie:
earlier submission, then file order. A running job's sequence number counts starts. An event is one integer,
``time << bits | sequence``, so one comparison orders two events.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from features.jit import apart, kernel

(
    NEXT,  # the next job to be submitted
    FREE,  # free processors
    ENDS,  # running jobs in the heap of ends
    PLANS,  # running jobs in the plan
    WAITING,  # waiting jobs
    STARTED,  # jobs started so far
    ENDED,  # jobs ended so far
    SHADOW,  # the shadow time of EASY's last reservation
    EXTRA,  # the extra processors at that time
    SHADOW_KNOWN,  # whether that reservation still holds
    ASKED,  # jobs just submitted for which the loop asks outside for estimates
    CHANGED,  # whether anything but submissions has happened since the last full pass
    STARVING,  # the row below which every waiting job starves
    BLOCKS,  # blocks of the profile
    RESERVED,  # jobs at the head of the queue that the profile already covers
    DOUBTED,  # the running job for which the loop asks outside for a new runtime
    ANSWER,  # the answer: seconds from the job's start, 0 for none
    STATED,  # with dependencies: the next row that is submitted at a given time
    DUE,  # with dependencies: jobs in the heap of known submissions
    TOLD,  # starts passed to the compiled predictor
    CLAMPED,  # answers of the compiled predictor that were clamped
    UNUSABLE,  # the last job for which its answer was not finite, plus one
    EXPIRED,  # whether predictions have expired since the last pass that an expiry caused
    TICKED,  # the last second handled with a timer, plus one
    MOST_SKIPS,  # with start decisions: the max skips of a job; else 0
    PASS,  # the number of the pass
    UNDECIDED,  # the job for which the loop asks outside for a decision, plus one
    HELD,  # jobs skipped in this pass
    WAKE,  # when a pass is due because of skipped jobs; 0 for never
    MOMENT,  # when a monitored cluster must next be brought up to date
    SEEN_STARTS,  # starts that the monitored cluster has handled
    SEEN_ENDS,  # ends that it has handled
    AS_PLANNED,  # whether all went as planned since Conservative's last pass
    HEARD,  # jobs that had ended by that pass
    ADVANCED,  # jobs moved forward in Conservative's plan since it was last rebuilt
    EVENTS,  # the work left until a pause, counted in events and searches of a plan
    CHOICE,  # when a plan may be searched next; NEVER if none is
    CHOSEN,  # whether jobs or a plan were just chosen outside, so that a pass is due
    WANTED,  # the job at whose start the simulation may end, plus one; 0 for none
    COUNTERS,
) = range(40)
"""Slots of ``State.counters``. A record with named fields was tried: JustBF is 3 % faster with it, and EASY 4 %
slower."""


NEVER = 1 << 62
"""A time that never comes, or an amount of work that is never used up."""

LATER, PLANNED, EARLIER = range(3)
"""Values of ``counters[AS_PLANNED]``: some job may run longer than planned, all runs as planned, some job has ended
early."""

LEFT = -1
"""Value in ``State.planned``: the job is no longer in the plan of running jobs."""

LET_START, SKIP = range(2)
"""Start decisions. ``State.verdict`` holds ``pass << 1 | decision``, with the number of the pass of the decision."""


class Jobs(NamedTuple):
    """The given jobs, int64 [jobs]; ``user`` is a code, -1 for unknown."""

    submit: np.ndarray
    runtime: np.ndarray
    procs: np.ndarray
    requested: np.ndarray
    user: np.ndarray


class Estimates(NamedTuple):
    """Predicted runtimes for the three questions, int64 [jobs], final once a job is submitted.

    The questions are those of :mod:`models.runtime.protocol`.
    """

    order: np.ndarray
    fit: np.ndarray
    end: np.ndarray


class State(NamedTuple):
    """All arrays that change.

    ``ends`` is a binary heap of actual ends. ``plan`` holds the sorted predicted ends, ``plan_procs`` their processors.
    """

    counters: np.ndarray
    ends: np.ndarray
    plan: np.ndarray
    plan_procs: np.ndarray
    running: np.ndarray  # sequence number -> job
    ended: np.ndarray  # jobs in order of their ends
    start: np.ndarray
    planned: np.ndarray  # job -> its predicted end, after corrections
    corrections: np.ndarray
    held: np.ndarray  # jobs skipped in this pass
    verdict: np.ndarray  # job -> its last start decision, with the number of the pass
    skips: np.ndarray  # job -> how often it was skipped
    scenarios: Any  # sim.kernel.scenarios.Scenarios; None without Harm, which is compiled separately
    slurm: Any = None  # sim.slurm.state.Slurm; None without Slurm's scheduler, which is compiled separately


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
    """Remove the smallest event, ``heap[0]``, from a heap of ``size``."""
    last = heap[size - 1]
    size -= 1
    i = 0
    child = 1
    while child < size:
        if child + 1 < size:
            child += heap[child + 1] < heap[child]  # an addition instead of a branch that would often be mispredicted
        if heap[child] >= last:
            break
        heap[i] = heap[child]
        i = child
        child = 2 * i + 1
    heap[i] = last


@kernel
def heap_remove(heap, size, event):
    """Remove an event from a heap of ``size``; the heap must hold it."""
    i = 0
    while heap[i] != event:
        i += 1
    while i > 0:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[0] = -1
    heap_pop(heap, size)


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
    low, left = 0, size
    while left > 1:
        half = left >> 1
        low += half * (plan[low + half - 1] < event)  # a product instead of a branch that would often be mispredicted
        left -= half
    for i in range(low, size - 1):
        plan[i] = plan[i + 1]
        plan_procs[i] = plan_procs[i + 1]


@kernel
def start_job(job, now, jobs, estimates, state, bits):
    """Start ``job`` unless a start decision holds it back; return whether it started.

    The caller takes the job out of the queue in both cases. A job held back returns to its place after the pass.
    """
    counters = state.counters
    if counters[MOST_SKIPS] > 0 and held_back(job, now, state):
        return False
    sequence = counters[STARTED]
    counters[STARTED] = sequence + 1
    state.running[sequence] = job
    begin_to_run(job, sequence, now, jobs, estimates, state, bits)
    return True


@kernel
def begin_to_run(job, sequence, now, jobs, estimates, state, bits):
    """Let ``job`` run from ``now`` on: take its processors and enter its ends."""
    counters = state.counters
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
def take_out(bits, job, sequence, jobs, state):
    """Remove a job from the running jobs."""
    counters = state.counters
    plan_remove(state.plan, state.plan_procs, counters[PLANS], state.planned[job] << bits | sequence)
    counters[PLANS] -= 1
    counters[FREE] += jobs.procs[job]
    heap_remove(state.ends, counters[ENDS], (state.start[job] + jobs.runtime[job]) << bits | sequence)
    counters[ENDS] -= 1


@kernel
def place_of(job, state):
    """Return the job's sequence number, which counts first starts; -1 if it has not run."""
    sequence = state.counters[STARTED] - 1
    while sequence >= 0 and state.running[sequence] != job:
        sequence -= 1
    return sequence


@kernel
def undecided(job, state):
    """Tell whether ``job``, which may start, still needs a start decision.

    If so, the pass stops here and continues with the answer. Call this before taking the job out of the queue.
    """
    return state.counters[MOST_SKIPS] > 0 and to_be_asked(job, state)


@apart
def to_be_asked(job, state):
    """Tell whether ``job`` needs a start decision; if so, write it to ``counters[UNDECIDED]``."""
    counters = state.counters
    if state.skips[job] >= counters[MOST_SKIPS] or state.verdict[job] >> 1 == counters[PASS]:
        return False
    counters[UNDECIDED] = job + 1
    return True


@apart
def held_back(job, now, state):
    """Tell whether ``job``, which may start, is skipped in this pass; if so, hold it."""
    counters = state.counters
    if state.skips[job] >= counters[MOST_SKIPS] or state.verdict[job] != counters[PASS] << 1 | SKIP:
        return False
    state.held[counters[HELD]] = job
    counters[HELD] += 1
    state.start[job] = now  # counts as started until the pass ends
    return True
