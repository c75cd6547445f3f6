"""Starts and ends of jobs on their nodes."""

from __future__ import annotations

import numpy as np

from features.jit import apart, kernel
from sim.slurm import slots
from sim.slurm.choice import occupy, put
from sim.slurm.queue import count_limits, touch
from sim.slurm.shares import bill, charge
from sim.slurm.state import COMPLETING, NONE, RUNS

TURN_MS = 100
"""How close turns of the log are to those of a replay, which drift with slurmctld's work."""


@apart
def start(job, partition, chosen, by, now, slurm):
    """Start ``job`` on the ``chosen`` nodes that :func:`sim.slurm.choice.pick` has written.

    The event loop begins its run (``Now.begun``).
    """
    ask, state, room, numbers = slurm.ask, slurm.now, slurm.room, slurm.numbers
    state.phase[job], state.partition[job] = RUNS, partition
    if state.attempts[job] == 0:
        state.first_ms[job], state.by[job] = now, by
        if ask.array[job] != NONE:  # the task takes the array's record, and the rest gets a new one at the end of the list
            state.place[job], state.rest[ask.array[job]] = state.rest[ask.array[job]], numbers[slots.PLACES]
            numbers[slots.PLACES] += 1
    state.attempts[job] += 1
    state.start_ms[job] = now
    state.warned[job] = NONE
    state.held[job] = chosen
    cpus = 0
    for i in range(chosen):
        cpus += room.take[i]
        state.node[state.nodes[job] + i] = room.chosen[i]
        state.taken[state.nodes[job] + i] = room.take[i]
    state.billed[job] = bill(job, partition, cpus, chosen, slurm) if slurm.rules.bills else cpus
    occupy(job, -1, slurm, state.idle, state.cpus, state.memory, state.gpus)
    count_limits(job, 1, slurm)
    state.tasks[ask.group[job]] += 1
    state.limit_end[job] = now // 1000 + ask.limit[job]
    state.running[numbers[slots.RUNNING]] = job
    numbers[slots.RUNNING] += 1
    _keep_in_order(numbers[slots.RUNNING] - 1, slurm)
    state.begun[numbers[slots.BEGUN]] = job
    numbers[slots.BEGUN] += 1
    touch(now, slurm)


@kernel
def end_by(job, second, slurm):
    """End the limit of a running job at ``second``, if that is earlier."""
    state, at = slurm.now, slurm.numbers[slots.RUNNING] - 1
    while state.running[at] != job:
        at -= 1
    state.limit_end[job] = min(state.limit_end[job], second)
    _keep_in_order(at, slurm)


@kernel
def _keep_in_order(at, slurm):
    """Move the job at a row of ``running`` forward to its place by limit's end and ``place``."""
    state = slurm.now
    job = state.running[at]
    while at > 0:
        other = state.running[at - 1]
        if state.limit_end[other] < state.limit_end[job]:
            break
        if state.limit_end[other] == state.limit_end[job] and state.place[other] < state.place[job]:
            break
        state.running[at] = other
        at -= 1
    state.running[at] = job


@kernel
def end(job, now, slurm):
    """End a job: free its processors; its nodes are COMPLETING until they answer."""
    state, numbers = slurm.now, slurm.numbers
    state.ended[numbers[slots.ENDINGS] % len(state.ended)] = job
    numbers[slots.ENDINGS] += 1
    state.phase[job], state.end_ms[job] = COMPLETING, now
    i = 0
    while state.running[i] != job:
        i += 1
    numbers[slots.RUNNING] -= 1
    for k in range(i, numbers[slots.RUNNING]):
        state.running[k] = state.running[k + 1]
    occupy(job, 1, slurm, state.idle, state.cpus, state.memory, state.gpus)
    count_limits(job, -1, slurm)
    for at in range(state.nodes[job], state.nodes[job] + state.held[job]):
        state.busy[state.node[at]] += 1
        put(state.completing, state.node[at])
    state.tasks[slurm.ask.group[job]] -= 1
    charge(job, numbers[slots.LAST_DECAY], now // 1000, slurm)
    touch(now, slurm)


@kernel
def turn_from(ms, slurm):
    """Return the first turn of the background loop at ``ms`` or later.

    Turns are counted from the last one of the log, if there is any.
    """
    turn_us, logged = slurm.rules.turn_us, np.searchsorted(slurm.passes, ms + TURN_MS, side="right")
    first = slurm.passes[logged - 1] if logged > 0 else slurm.rules.first_turn_ms
    turns = (ms - first) * 1000 // turn_us
    while first + turns * turn_us // 1000 < ms:
        turns += 1
    return first + turns * turn_us // 1000


@kernel
def next_poll(ms, slurm):
    """Return the first poll of limits at ``ms`` or later; one comes every 30 turns."""
    every, first = 30 * slurm.rules.turn_us // 1000, slurm.rules.poll_ms
    return first - (first - ms) // every * every


@kernel
def stop(job, requeued, now, slurm):
    """Stop a running job early; the event loop removes it from the running jobs.

    A ``requeued`` job waits again once its nodes have answered.
    """
    state, numbers = slurm.now, slurm.numbers
    state.again[job], state.killed[job] = requeued, 1
    state.stopped[numbers[slots.STOPPED]] = job
    numbers[slots.STOPPED] += 1
    end(job, now, slurm)
