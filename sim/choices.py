"""Let policies run ahead over scenarios and the best one decide next: ``Rollout``.

A choice is made at a pass, at least ``every`` seconds after the last choice, if some waiting job fits into what is free but not
all of them together, placed in order of submission. From this moment on each policy schedules the running and waiting jobs in
each of K scenarios until the last one has ended; nothing more is submitted. Each run is an ordinary simulation of the event loop
from the present state. A scenario fixes the runtimes: they are drawn from the predicted distributions, those of running jobs
given how long they have run, at the stratified numbers of :mod:`sim.harm`. Policies see what they see in any simulation, the
present estimates and plans. Only the predictor cannot be asked again: a job that outlives its prediction gets its request. With
M_p the mean over the scenarios of a metric of all jobs submitted so far, and 1 the first policy, the policy is chosen that
minimises

    slowdown M_p / M_1 [mean bounded slowdown] + awf M_p / M_1 [AWF] + p2sf M_p / M_1 [P2SF],

the first one on ties. It alone decides which jobs start until the next choice. A Python predictor gives its quantiles at a job's
submission, a compiled one (``sp``) at the first choice after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.runtime.dispatch import OUTSIDE, TABLE
from models.runtime.memory import Memory
from models.runtime.protocol import Predictor
from sim.harm import told_beforehand, uniforms
from sim.kernel.clusters import line_up_anew as line_up_anew_on_nodes
from sim.kernel.corrections import CONDITIONAL, REQUESTED
from sim.kernel.loop import NEVER, Settings
from sim.kernel.passes import line_up_anew
from sim.kernel.rollout import draw_runtimes, tell
from sim.kernel.run import MEASURED, SUMS, measured, run, sums_of
from sim.kernel.scratch import Scratch, Work
from sim.kernel.state import CHOICE, CHOSEN, ENDED, FREE, NEXT, PLANS, Estimates, Jobs
from sim.names import PLANNING, Scheduler
from sim.planner import no_planner
from sim.prepare import NO_DEPENDENCIES, NO_SWEEP, Inputs, Prepared
from sim.python_predictor import Conversation
from sim.rollout import Rollout

TIE = 1e-12
"""Policies whose costs differ by no more than this are equal."""
BOUND_S = 10.0
"""The threshold of bounded slowdown."""
_BOUNDS_S = np.array([BOUND_S])
_WEIGHED = [MEASURED.index(name) for name in ("mean_bounded_slowdown", "awf_s", "p2sf_s")]
_FEW = 256
"""Number of jobs for which there is room at first."""


def room_for(plans: Sequence[Scheduler], settings: Sequence[Settings]) -> dict[str, Any]:
    """Return the room that these schedulers need in :meth:`sim.kernel.scratch.Scratch.work`."""
    planning = [plan.algorithm in PLANNING for plan in plans]
    return {
        "plans": any(planning) or any(plan.reservations > 1 for plan in plans),
        "gaps": any(plan.algorithm != "Conservative" for plan in plans),
        "two": not all(each.one_queue for each in settings),
    }


class Choices:
    """Choose among the policies of ``plan`` in a simulation of ``workload`` on ``work``.

    ``settings`` are the policies' codes.
    """

    def __init__(
        self, plan: Scheduler, settings: Sequence[Settings], source: Predictor, workload: Prepared, work: Work, seed: int
    ) -> None:
        assert plan.rollout is not None
        self._rule: Rollout = plan.rollout
        self._settings, self._work, self._procs = settings, work, workload.procs
        self._room = room_for(plan.policies, settings)
        self._ahead = [
            each._replace(
                predictor=TABLE,
                correction=each.correction if each.correction < CONDITIONAL else REQUESTED,
                dependent=False,
                midnight=NEVER,
            )
            for each in settings
        ]
        levels, quantiles = told_beforehand(source, workload.jobs, workload.arrays.requested)
        self._count = self._rule.scenarios if levels > 1 else 1  # with a point estimate all scenarios are alike
        self._told_beforehand = quantiles is not None
        self.quantiles = quantiles if quantiles is not None else np.zeros((len(workload.jobs), levels), np.int64)
        self._uniforms = uniforms(len(workload.jobs), self._count, seed)
        self._weights = np.array([self._rule.slowdown, self._rule.awf, self._rule.p2sf])
        self._empty = None if workload.machine is None else workload.machine.layout
        self._ahead_on = self._room_ahead(_FEW)
        self._current = 0
        self._seen_submits = self._seen_ends = self._first_waiting = 0
        self._past = np.zeros(SUMS)  # of the jobs that have ended
        work.state.counters[CHOICE] = 0

    def choose(self, now: int, settings: Settings, given: Inputs, conversation: Conversation | None) -> Settings:
        """Choose a policy for the loop, which stopped for it; return the settings to go on with.

        ``settings`` are those used so far.
        """
        work, state, counters = self._work, self._work.state, self._work.state.counters
        running = state.running[np.sort(state.plan[: counters[PLANS]] & ((1 << settings.bits) - 1))]
        waiting = self._first_waiting + np.flatnonzero(state.start[self._first_waiting : counters[NEXT]] < 0)
        self._first_waiting = int(waiting[0])
        self._tell(now, running, given, conversation)
        best = self._best(now, running, np.concatenate((running, waiting)), given)
        if best != self._current:
            self._current = best
            settings = self._settings[best]._replace(midnight=settings.midnight)
            first, arrays, estimates = self._first_waiting, given.arrays, given.estimates
            if work.clusters is None:
                line_up_anew(settings, first, now, arrays, estimates, work.front, work.back, state)
            else:
                line_up_anew_on_nodes(settings, first, now, arrays, estimates, state, work.clusters)
        counters[CHOICE], counters[CHOSEN] = now + self._rule.every, 1
        return settings

    def _room_ahead(self, jobs: int) -> Work:
        """Return arrays for ``jobs`` jobs ahead, on an empty machine.

        The arrays with the nodes of running jobs are those of the present simulation; a waiting job holds no nodes yet.
        """
        scratch, clusters = Scratch(), None
        if self._work.clusters is not None and self._empty is not None:
            nodes = self._work.clusters.nodes
            row, free, left = np.zeros(jobs, np.int64), nodes.capacity.copy(), self._empty.left.copy()
            nodes = nodes._replace(free=free, left=left, row=row)
            clusters = scratch.clusters(nodes, no_planner(nodes), two=self._room["two"])
        return scratch.work(jobs, self._procs, **self._room, clusters=clusters)

    def _tell(self, now: int, running: np.ndarray, given: Inputs, conversation: Conversation | None) -> None:
        """Update quantiles of new jobs and, by a Python predictor, of jobs that outlived theirs."""
        state, row, levels = self._work.state, given.dependencies.row, self.quantiles.shape[1]
        first, last = self._seen_submits, int(state.counters[NEXT])
        self._seen_submits = last
        if levels == 1:
            points = given.estimates.order if self._rule.plans == "requested" else given.estimates.end
            self.quantiles[row[first:last] if len(row) else slice(first, last), 0] = points[first:last]
        elif given.code == OUTSIDE and conversation is not None:
            latest = self.quantiles[row[running] if len(row) else running, -1]
            conversation.tell_more(running[latest <= now - state.start[running]], now)
        elif not self._told_beforehand:
            tell(given.code, given.memory, first, last, given.arrays, row, self.quantiles)

    def _best(self, now: int, running: np.ndarray, jobs: np.ndarray, given: Inputs) -> int:
        """Return the index of the best policy for ``jobs``, of which the first are ``running``."""
        self._note_ends(given)
        state, row = self._work.state, given.dependencies.row
        if len(jobs) > len(self._ahead_on.state.start):
            self._ahead_on = self._room_ahead(2 * len(jobs))
        ahead, clusters = self._ahead_on.state, self._ahead_on.clusters
        if clusters is not None and self._work.clusters is not None:
            clusters.nodes.row[: len(jobs)] = self._work.clusters.nodes.row[jobs]
        arrays, estimates = Jobs(*(each[jobs] for each in given.arrays)), Estimates(*(each[jobs] for each in given.estimates))
        ahead.start[: len(running)] = state.start[running]
        elapsed = np.zeros(len(jobs), np.int64)
        elapsed[: len(running)] = now - state.start[running]
        runtimes = np.empty((self._count, len(jobs)), np.int64)
        draw_runtimes(row[jobs] if len(row) else jobs, elapsed, arrays.requested, self._uniforms, self.quantiles, runtimes)
        sums = np.empty((len(self._ahead), self._count, SUMS))
        asked = NO_SWEEP._replace(
            runtimes=runtimes, planned=state.planned[running], corrections=state.corrections[running], taus_s=_BOUNDS_S
        )
        for settings, results in zip(self._ahead, sums, strict=True):
            ahead.counters[FREE] = state.counters[FREE]
            run(settings, arrays, estimates, NO_DEPENDENCIES, *self._ahead_on, Memory(), now, asked._replace(results=results))
        metrics = measured(sums + self._past, self._seen_ends + len(jobs))[..., _WEIGHED].mean(axis=1)
        cost = (metrics / metrics[0]) @ self._weights
        return int(np.argmax(cost <= cost.min() + TIE))

    def _note_ends(self, given: Inputs) -> None:
        """Add the jobs that have ended since the last call to the sums."""
        state = self._work.state
        ended = state.ended[self._seen_ends : state.counters[ENDED]]
        self._seen_ends = int(state.counters[ENDED])
        wait, arrays = state.start[ended] - given.arrays.submit[ended], given.arrays
        self._past += sums_of(wait, arrays.runtime[ended], arrays.procs[ended], _BOUNDS_S)
