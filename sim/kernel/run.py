"""The compiled entry: one resumable simulation, or the many of a sweep.

Python between two simulations would be too slow for a sweep over thousands of policies or scenarios. So the reset of
the arrays is compiled here, too. There is one call of the event loop, so it is compiled once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel
from models.runtime.memory import Memory, restore
from sim.kernel import state as slots
from sim.kernel.clusters import GAINS, HOUR, KEYED, MOST_GAINS
from sim.kernel.clusters import line_up_anew as line_up_anew_on_nodes
from sim.kernel.loop import DONE, advance
from sim.kernel.passes import line_up_anew
from sim.kernel.state import heap_push, plan_insert
from sim.machine.nodes import change


class Sweep(NamedTuple):
    """Simulations of the same jobs: starts, what differs between them, where they begin.

    ``starts`` is int64 [simulations, jobs]; no rows: one simulation of the caller's, which may be resumed. ``weights``
    of the primary order are [simulations, 6] on (n, r, wait, r/n, expansion, r n), or [simulations, parameters] of a
    score; no rows: the given ones hold. ``runtimes`` is int64 [simulations, jobs or more]. If it has rows, the
    simulations begin in the midst: of the jobs submitted by then, the first run, with predicted ends ``planned`` and
    numbers of ``corrections``, both int64, and the others wait. ``memory`` is that of a compiled predictor at the
    start. If a job is ``wanted`` (its row plus one, else 0), simulations end at its start; the starts of jobs still
    waiting then mean nothing.
    """

    weights: np.ndarray
    runtimes: np.ndarray
    planned: np.ndarray
    corrections: np.ndarray
    memory: Memory
    starts: np.ndarray
    wanted: int


@kernel
def run(settings, inputs, work, now, sweep):
    """Run :func:`sim.kernel.loop.advance`, or each simulation of a sweep to its end.

    The predictor of a sweep must not be OUTSIDE, as no caller could answer the loop.
    """
    jobs, state = inputs.jobs, work.state
    simulations = len(sweep.starts)
    free, begin = state.counters[slots.FREE], now
    reason = DONE
    for row in range(max(simulations, 1)):
        if simulations > 0:
            now = begin
            reset(free, jobs, state, inputs.memory, sweep)
            if len(sweep.weights) > 0:
                for i in range(sweep.weights.shape[1]):
                    settings.weights[i] = sweep.weights[row, i]
            if len(sweep.runtimes) > 0:
                for job in range(len(jobs.submit)):
                    jobs.runtime[job] = sweep.runtimes[row, job]
                resume(settings, now, inputs, work, sweep, state.scenarios, state.slurm, work.outside)
        reason, now = advance(settings, inputs, work, now, state.scenarios, work.clusters, state.slurm, work.outside)
        if simulations > 0:
            if state.counters[slots.UNUSABLE] > 0:
                break
            empty_nodes(settings.bits, state, work.clusters)
            for job in range(sweep.starts.shape[1]):
                sweep.starts[row, job] = state.start[job]
    return reason, now


@kernel
def empty_nodes(bits, state, clusters):
    """Give back the nodes of the jobs that run, on a machine of clusters."""
    if clusters is None:
        return
    nodes = clusters.nodes
    for i in range(state.counters[slots.ENDS]):
        job = state.running[state.ends[i] & ((1 << bits) - 1)]
        if state.planned[job] != slots.LEFT:
            change(nodes.row[job], 1, nodes, nodes.free, nodes.left)


@kernel
def reset(free, jobs, state, memory, sweep):
    """Reset all but the running jobs to the state before the first submission."""
    for i in range(len(state.counters)):
        state.counters[i] = 0
    state.counters[slots.FREE] = free
    state.counters[slots.EVENTS] = state.counters[slots.CHOICE] = slots.NEVER
    state.counters[slots.WANTED] = sweep.wanted
    for job in range(len(sweep.planned), len(jobs.submit)):
        state.start[job] = -1
        state.corrections[job] = 0
    restore(memory, sweep.memory)


@kernel
def resume(settings, now, inputs, work, sweep, scenarios, slurm, outside):
    """Prepare a simulation that begins in the midst, if the scheduler can.

    Harm, Slurm's scheduler and policies outside have their own queues and begin no simulation in the midst; their forms
    of the kernel are compiled without this.
    """
    if scenarios is not None or slurm is not None or outside is not None:
        return
    begin_in_the_midst(settings, now, inputs, work, sweep, work.clusters)


@apart
def begin_in_the_midst(settings, now, inputs, work, sweep, clusters):
    """Let the first jobs run at ``now``, on the nodes noted for them, and the others wait.

    No job may run before.
    """
    jobs, estimates, state = inputs.jobs, inputs.estimates, work.state
    counters, running, total = state.counters, len(sweep.planned), len(jobs.submit)
    for job in range(running):
        state.running[job] = job
        state.planned[job] = sweep.planned[job]
        state.corrections[job] = sweep.corrections[job]
        heap_push(state.ends, job, (state.start[job] + jobs.runtime[job]) << settings.bits | job)
        plan_insert(state.plan, state.plan_procs, job, sweep.planned[job] << settings.bits | job, jobs.procs[job])
    counters[slots.ENDS] = counters[slots.PLANS] = counters[slots.STARTED] = counters[slots.STARVING] = running
    counters[slots.NEXT] = running
    while counters[slots.NEXT] < total and jobs.submit[counters[slots.NEXT]] <= now:
        counters[slots.NEXT] += 1
    counters[slots.TICKED] = now + 1
    counters[slots.CHOSEN] = 1
    while counters[slots.STARVING] < counters[slots.NEXT] and now - jobs.submit[counters[slots.STARVING]] > settings.starvation:
        counters[slots.STARVING] += 1
    if clusters is None:
        line_up_anew(settings, running, now, jobs, estimates, work)
    else:
        nodes, numbers = clusters.nodes, clusters.numbers
        for job in range(running):
            change(nodes.row[job], -1, nodes, nodes.free, nodes.left)
        hours = clusters.hours
        for kind in range(len(hours.latest)):
            hours.latest[kind] = slots.NEVER
        numbers[HOUR] = 0
        while numbers[HOUR] < len(hours.time) and hours.time[numbers[HOUR]] <= now:
            hours.latest[hours.kind[numbers[HOUR]]] = hours.until[numbers[HOUR]]
            numbers[HOUR] += 1
        numbers[GAINS] += MOST_GAINS + 1  # known refusals are of another simulation
        numbers[KEYED] = counters[slots.STARVING]
        line_up_anew_on_nodes(settings, running, now, jobs, estimates, state, clusters)
