"""The compiled entry: one resumable simulation, or one for each mixed policy of a sweep.

A sweep over thousands of policies has no time for Python between two simulations: arrays are reset, the loop runs, and the
metrics are summed up, all in here. There is one call of the event loop, so it is compiled once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import kernel
from models.runtime.memory import Memory, restore
from sim.kernel.loop import DONE, advance
from sim.kernel.state import EVENTS, FREE, NEVER, UNUSABLE

MEASURED = ("mean_wait_s", "mean_bounded_slowdown", "awf_s", "p2sf_s")
"""Metrics of each policy in a sweep, as :mod:`sim.metrics.schedule_metrics` defines them."""


class Sweep(NamedTuple):
    """Weights, results and settings of a sweep.

    Weights [policies, 6] of the primary order on (n, r, wait, r/n, expansion, r n), results [policies, metrics], both float64;
    the threshold of bounded slowdown in seconds; the memory of a compiled predictor at the start.
    """

    weights: np.ndarray
    results: np.ndarray
    tau_s: float
    memory: Memory


@kernel
def run(settings, jobs, estimates, dependencies, front, back, profile, state, memory, now, sweep):
    """Run :func:`sim.kernel.loop.advance`, or with policies each of them to its end.

    A sweep's predictor must not be one that the loop has to ask.
    """
    policies = len(sweep.weights)
    free = state.counters[FREE]
    reason = DONE
    for policy in range(max(policies, 1)):
        if policies > 0:
            now = 0
            reset(free, state, memory, sweep.memory)
            for i in range(len(settings.weights)):
                settings.given_weights[i] = settings.weights[i] = sweep.weights[policy, i]
        reason, now = advance(settings, jobs, estimates, dependencies, front, back, profile, state, memory, now, state.scenarios)
        if policies > 0:
            if state.counters[UNUSABLE] > 0:
                break
            measure(policy, jobs, state, sweep)
    return reason, now


@kernel
def reset(free, state, memory, fresh):
    """Reset everything to the state before the first submission."""
    for i in range(len(state.counters)):
        state.counters[i] = 0
    state.counters[FREE] = free
    state.counters[EVENTS] = NEVER
    for i in range(len(state.start)):
        state.start[i] = -1
        state.corrections[i] = 0
    restore(memory, fresh)


@kernel
def measure(policy, jobs, state, sweep):
    """Write the ``MEASURED`` of the schedule that ``policy`` made."""
    total = len(jobs.submit)
    waits, slowdowns, area, responses, above, below = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for job in range(total):
        wait = 1.0 * (state.start[job] - jobs.submit[job])
        runtime = 1.0 * jobs.runtime[job]
        response = wait + runtime
        work = jobs.procs[job] * runtime
        waits += wait
        slowdowns += max(1.0, response / max(runtime, sweep.tau_s))
        area += work
        responses += work * response
        # (F^4 - Q^4) / p and (F^3 - Q^3) / p, without cancellation
        below += work * (response * response + response * wait + wait * wait)
        above += work * (response + wait) * (response * response + wait * wait)
    sweep.results[policy, 0] = waits / total
    sweep.results[policy, 1] = slowdowns / total
    sweep.results[policy, 2] = responses / area
    sweep.results[policy, 3] = 0.75 * above / below
