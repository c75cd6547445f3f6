"""Start decisions (RUSH: Nichols et al., algorithm 2): skip a job that could start.

The paper's text and listing disagree on skipped jobs. Here a skipped job keeps its place in the queue, holds no reservation in
that pass, as if it were absent, and is decided on again at the next pass; if no event causes one, a timed wake-up does. After a
max number of skips a job starts without a decision. This holds for every order and algorithm, as all start jobs
by the same function.

The deciding model is outside the event loop. A pass stops at an undecided job, the loop asks, and the pass
continues there with the answer; its starts, reservations and skips so far remain.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from features.jit import apart
from sim.kernel.passes import CONSERVATIVE, backfill_key, primary_key
from sim.kernel.queue import append, insertion_sort, pack
from sim.kernel.state import HELD, LET_START, PASS, SKIP, UNDECIDED, WAITING, WAKE, State

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
def put_back(settings, now, jobs, estimates, front, back, state, scenarios):
    """After a pass, return skipped jobs to the queue, count their skips, and set WAKE."""
    counters = state.counters
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
