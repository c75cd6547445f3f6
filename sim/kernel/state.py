"""The arrays of a simulation, and the few ways they change: int64 seconds or counts.

Seconds count from the first submission. Jobs are rows in order of submission, so a job's row number settles every tie: earlier
submission, then file order. A running job has a sequence number, the order of its start; an event is one integer, ``time << bits
| sequence``, so sorting events needs one comparison.
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
    SHADOW,  # the reservation last computed: its time
    EXTRA,  # and the processors left over at it
    SHADOW_KNOWN,  # whether it still holds
    ASKED,  # jobs just submitted whose estimates are asked for outside
    CHANGED,  # whether anything but submissions has happened since the last full pass
    STARVING,  # the row below which every waiting job starves
    BLOCKS,  # blocks of the profile
    RESERVED,  # jobs at the head of the queue that are planned in it
    DOUBTED,  # the running job whose end is asked for anew outside
    ANSWER,  # and the answer; 0 for none
    STATED,  # with dependencies: the next row that is submitted at a stated time
    DUE,  # and the rows in the heap of those due
    TOLD,  # of a compiled predictor: the starts it was told of
    CLAMPED,  # its answers that were clamped
    UNUSABLE,  # and the last job for which it had none that is a number, plus one
    EXPIRED,  # whether predictions have expired since the last pass for that reason
    TICKED,  # the second of the last pass of the timer, plus one
    MOST_SKIPS,  # of start decisions: how often a job may be skipped
    PASS,  # the number of the pass
    UNDECIDED,  # the job whose decision is asked for outside, plus one
    HELD,  # jobs skipped in this pass
    WAKE,  # when a pass is due for their sake; 0 for never
    MOMENT,  # on a monitored cluster: when it has to be seen to next
    SEEN_STARTS,  # the starts it was told of
    SEEN_ENDS,  # and the ends
    AS_PLANNED,  # whether all went as planned since Conservative's last pass
    HEARD,  # the jobs that had ended by then
    ADVANCED,  # jobs moved forward in its plan since that was made anew
    EVENTS,  # the work left until a pause, in events and in jobs that are planned
    CHOICE,  # when a policy may be chosen next; NEVER unless it is one of several
    CHOSEN,  # whether it has just been, so that a pass is due
    WANTED,  # the job with whose start a simulation may end, plus one; 0 for none
    COUNTERS,
) = range(40)
"""Slots of ``State.counters``. A record with named fields was tried: JustBF is 3 % faster with it, and EASY 4 % slower."""


NEVER = 1 << 62
"""A time that never comes, and an amount of work that is never done."""

LATER, PLANNED, EARLIER = range(3)
"""Values of ``counters[AS_PLANNED]``: some job may stay longer than planned, all goes as planned, some job has ended earlier."""

LEFT = -1
"""Value in ``State.planned``: the job has left the plan of running jobs."""

LET_START, SKIP = range(2)
"""Start decisions: ``State.verdict`` holds one with the number of the pass in which it was made."""


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
    """Everything that changes.

    ``ends`` is a binary heap of actual ends, ``plan`` the sorted predicted ends with ``plan_procs`` beside it.
    """

    counters: np.ndarray
    ends: np.ndarray
    plan: np.ndarray
    plan_procs: np.ndarray
    running: np.ndarray  # sequence number -> job
    ended: np.ndarray  # jobs in the order of their ends
    start: np.ndarray
    planned: np.ndarray  # job -> its predicted end, as corrected so far
    corrections: np.ndarray
    held: np.ndarray  # jobs skipped in this pass
    verdict: np.ndarray  # job -> the last decision on its start, and its pass
    skips: np.ndarray  # job -> how often it was skipped
    scenarios: Any  # None without the algorithm Harm, which is compiled separately; else sim.kernel.scenarios.Scenarios
    slurm: Any = None  # None without Slurm's scheduler, which is compiled separately; else sim.slurm.state.Slurm


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
            child += heap[child + 1] < heap[child]  # added, as a jump here would often be predicted wrongly
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
    low, left = 0, size
    while left > 1:
        half = left >> 1
        low += half * (plan[low + half - 1] < event)  # multiplied, as a jump here would often be predicted wrongly
        left -= half
    for i in range(low, size - 1):
        plan[i] = plan[i + 1]
        plan_procs[i] = plan_procs[i + 1]


@kernel
def start_job(job, now, jobs, estimates, state, bits):
    """Start ``job``, or hold it back by a start decision; return whether it started.

    A job held back returns to its place after the pass. In both cases the caller takes it out of the queue.
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
    """Let ``job`` run from ``now`` on."""
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
def undecided(job, state):
    """Tell whether ``job``, which may start, still needs a decision.

    Then the pass stops, and continues from there with the answer. Call it before the job is taken out of the queue.
    """
    return state.counters[MOST_SKIPS] > 0 and to_be_asked(job, state)


@apart
def to_be_asked(job, state):
    """Record that ``job`` needs a decision, if it does."""
    counters = state.counters
    if state.skips[job] >= counters[MOST_SKIPS] or state.verdict[job] >> 1 == counters[PASS]:
        return False
    counters[UNDECIDED] = job + 1
    return True


@apart
def held_back(job, now, state):
    """Tell whether ``job``, which may start, is skipped in this pass and keeps waiting."""
    counters = state.counters
    if state.skips[job] >= counters[MOST_SKIPS] or state.verdict[job] != counters[PASS] << 1 | SKIP:
        return False
    state.held[counters[HELD]] = job
    counters[HELD] += 1
    state.start[job] = now  # does not wait in this pass
    return True
