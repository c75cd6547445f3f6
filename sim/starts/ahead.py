"""Run a queue ahead: the starts of waiting jobs in scenarios of runtimes and arrivals.

In each scenario the scheduler goes on from a given moment with the jobs that then run and wait. Runtimes are drawn from
the predicted distributions, those of running jobs given how long they have run. Later submissions repeat those of an
earlier week from the same hour of the week on. Each scenario is an ordinary simulation of the event loop. The starts
are a sample of when the jobs will start, as far as the scheduler is the site's own, the distributions are right, and
coming weeks are like past ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from features.clock import DAY_S, WEEK_S
from models.packed.queue_state import NOT_YET
from models.packed.queue_state import QueueJobs as Queued
from models.packed.start_predictor import EASY
from models.runtime.dispatch import TABLE
from models.runtime.memory import Memory
from sim.inputs.planner import no_planner
from sim.inputs.prepare import NO_DEPENDENCIES, NO_SWEEP, on_clusters
from sim.kernel.loop import LoopInputs
from sim.kernel.run import run
from sim.kernel.scenarios import draw_runtimes
from sim.kernel.scratch import Scratch
from sim.kernel.state import FREE, Estimates, Jobs
from sim.policy import Policy, kernel_settings
from sim.schedulers.harm import uniforms
from sim.schedulers.scores import as_scoring
from sim.starts.closings import Closed

BY_REQUEST = Policy("EASY", "requested")
"""The policy that is run ahead if nothing else is known of a site: EASY that plans by requests."""
WEEKS = 8
"""Number of earlier weeks from which arrivals are drawn."""
HORIZON_S, MOST_COMING = 2 * DAY_S, 400
"""Jobs are submitted later for at most this time, and at most this number of them."""
_OVER_S = 60
"""A running job that has outlived its request is planned to end this much later, seconds."""
_BITS = 20


class PresentQueue(NamedTuple):
    """A queue at the second ``now_s``.

    The rows of ``jobs`` that run, and that wait, the latter in the order of the queue. ``jobs`` also has past jobs, for
    the arrivals.
    """

    jobs: Queued
    running: np.ndarray
    waiting: np.ndarray
    now_s: int


class Unfinished(NamedTuple):
    """The jobs that run and wait, int64 [jobs]: ``rows``, the first ``running`` of them run.

    They have run for ``elapsed`` seconds, and ask for ``requested``, longer if that is over.
    """

    rows: np.ndarray
    running: int
    elapsed: np.ndarray
    requested: np.ndarray

    @classmethod
    def of(cls, queue: PresentQueue) -> Unfinished:
        """Return those of a queue, the running ones by their starts."""
        jobs, count = queue.jobs, len(queue.running)
        rows = np.concatenate((queue.running[np.argsort(jobs.start[queue.running], kind="stable")], queue.waiting))
        elapsed = np.zeros(len(rows), np.int64)
        elapsed[:count] = queue.now_s - jobs.start[rows[:count]]
        requested = jobs.requested[rows]
        return cls(rows, count, elapsed, np.maximum(requested, elapsed + _OVER_S * (requested <= elapsed)))

    def only(self, kept: np.ndarray) -> Unfinished:
        """Return those that are ``kept``, bool [jobs]."""
        return Unfinished(self.rows[kept], int(kept[: self.running].sum()), self.elapsed[kept], self.requested[kept])

    def place_of(self, wanted: np.ndarray | None) -> int:
        """Return one plus the place of the only waiting job that is ``wanted``, else 0."""
        alone = wanted is not None and len(wanted) == 1
        return self.running + int(np.flatnonzero(self.rows[self.running :] == wanted)[0]) + 1 if alone else 0


class Coming(NamedTuple):
    """Jobs submitted later, int64 [jobs]: ``after_s`` from now, copies of past jobs ``row``."""

    after_s: np.ndarray
    procs: np.ndarray
    requested: np.ndarray
    runtime: np.ndarray
    row: np.ndarray


_NO_JOBS = Coming(*(np.zeros(0, np.int64) for _ in range(5)))


def arrivals(jobs: Queued, now_s: int, count: int, seed: int = 0, horizon_s: int = HORIZON_S) -> list[Coming]:
    """Draw ``count`` lists of jobs that are submitted after ``now_s``.

    Each list repeats the submissions of ``horizon_s`` seconds from the same second of one of the last ``WEEKS`` weeks
    on, or of an earlier day if the record is shorter than a week. Only jobs that had ended by ``now_s`` are read.
    """
    drawn, age_s = np.random.default_rng((seed, now_s % 2**64)), now_s - int(jobs.submit[0])
    step, most = (WEEK_S, min(age_s // WEEK_S, WEEKS)) if age_s >= WEEK_S else (DAY_S, age_s // DAY_S)
    coming_lists = []
    for _ in range(count):
        back = step * int(drawn.integers(1, most + 1)) if most else age_s + 1
        first, last = np.searchsorted(jobs.submit, [now_s - back, min(now_s - back + horizon_s, now_s)], "right")
        rows = np.arange(first, min(last, first + MOST_COMING)) if most else np.arange(0)
        rows = rows[jobs.end[rows] <= now_s]
        runtime = np.clip(jobs.end[rows] - jobs.start[rows], 1, jobs.requested[rows])
        coming_lists.append(Coming(jobs.submit[rows] - (now_s - back), jobs.procs[rows], jobs.requested[rows], runtime, rows))
    return coming_lists


class Ahead:
    """Run queues ahead on a pool of ``procs`` processors, in ``scenarios`` scenarios.

    ``policy`` plans by requests; its predictor is not asked. Arrivals are drawn ``groups`` times. Starts in
    ``within_s`` seconds or later are not told apart. With a ``pool`` that has closings, its scheduler runs ahead
    instead and keeps to them. One object answers many questions and reuses its arrays.
    """

    within_s = NOT_YET

    def __init__(
        self,
        procs: int,
        policy: Policy = BY_REQUEST,
        *,
        scenarios: int = 16,
        groups: int = 4,
        seed: int = 0,
        pool: Closed | None = None,
    ) -> None:
        self.procs, self.seed, self.groups, self.scenarios = procs, seed, min(groups, scenarios), scenarios
        self._pool, self._held = pool, procs if pool is None else pool.procs
        self.by = EASY if pool is None else pool.text
        policy = policy if pool is None else Policy(pool.algorithm, "requested")
        plan = policy.plan()
        scoring = as_scoring(plan.order.score, plan.backfill.score, self._held)
        self._settings = kernel_settings(policy, plan, TABLE, _BITS, scoring=scoring)
        self._uniforms = uniforms(1 << 12, scenarios, seed)
        self._of: Queued | None = None
        self._room(1 << 12)

    def _room(self, jobs: int) -> None:
        plan, scratch, clusters = not self._settings.one_queue, Scratch(), None
        if self._pool is not None and self._of is not None:
            columns = {"submit_s": self._of.submit, "procs": self._of.procs, "requested_s": self._of.requested}
            layout, requests = on_clusters(pd.DataFrame(columns), self._pool)
            nodes = scratch.nodes(layout, requests, np.arange(len(self._of.submit)))
            for array, value in ((nodes.cluster, 0), (nodes.held, 1), (nodes.node, 0), (nodes.chunk, 1)):
                array[:] = value  # there is one node
            nodes = nodes._replace(row=np.zeros(jobs, np.int64))
            clusters = scratch.clusters(nodes, no_planner(nodes), two=plan, layout=layout)
        self._work = scratch.work(jobs, self._held, plans=True, two=plan, clusters=clusters)

    def starts(self, queue: PresentQueue, only: np.ndarray | None = None, without: np.ndarray | None = None) -> np.ndarray:
        """Return seconds until each waiting job starts, int64 [scenarios, waiting].

        ``only``, ascending, restricts the answer to these waiting rows. A single one is faster: a simulation ends with
        its start. ``without``, bool [jobs], takes out jobs that are not asked about; all others keep their drawn
        runtimes.
        """
        left, runtimes = self.drawn(queue)
        if without is not None:
            kept = ~without[left.rows]
            left, runtimes = left.only(kept), runtimes[:, kept]
        waiting = left.rows[left.running :]
        starts_s = np.empty((self.scenarios, len(waiting)), np.int64)
        for group, coming in enumerate(arrivals(queue.jobs, queue.now_s, self.groups, self.seed)):
            chosen = slice(group, None, self.groups)
            starts_s[chosen] = self._run(queue, left, runtimes[chosen], coming, left.place_of(only))
        return starts_s if only is None else starts_s[:, np.isin(waiting, only)]

    def drawn(self, queue: PresentQueue) -> tuple[Unfinished, np.ndarray]:
        """Return the unfinished jobs, and their runtimes, int64 [scenarios, jobs].

        Runtimes are drawn from predicted distributions, those of running jobs given how long they have run.
        """
        left = Unfinished.of(queue)
        if len(left.rows) > len(self._uniforms):
            self._uniforms = uniforms(2 * len(left.rows), self.scenarios, self.seed)
        runtimes, numbers = np.empty((self.scenarios, len(left.rows)), np.int64), np.arange(len(left.rows))
        draw_runtimes(numbers, left.elapsed, left.requested, self._uniforms, queue.jobs.quantiles[left.rows], runtimes)
        return left, runtimes

    def plan(
        self, queue: PresentQueue, runtime_s: np.ndarray, coming: Coming = _NO_JOBS, only: np.ndarray | None = None
    ) -> np.ndarray:
        """Return seconds until waiting jobs start if jobs run for given times, int64 [only].

        ``runtime_s`` is int64 [jobs]; a job that has run for longer ends in the next second. ``coming`` are submitted
        later, by default none; ``only`` is that of :meth:`starts`.
        """
        left = Unfinished.of(queue)
        runtimes = np.maximum(runtime_s[left.rows], left.elapsed + 1)[None]
        starts_s = self._run(queue, left, runtimes, coming, left.place_of(only))[0]
        return starts_s if only is None else starts_s[np.isin(queue.waiting, only)]

    def _run(self, queue: PresentQueue, left: Unfinished, runtimes: np.ndarray, coming: Coming, wanted: int) -> np.ndarray:
        jobs, rows, first, now_s = queue.jobs, left.rows, left.running, queue.now_s
        total, count = len(rows) + len(coming.procs), len(runtimes)
        other = self._pool is not None and jobs is not self._of
        if other or total > len(self._work.state.start):
            self._of = jobs
            self._room(max(2 * total, 1 << 12))
        state, begin = self._work.state, jobs.start[rows[:first]]
        procs, requests = (
            np.concatenate((column, later))
            for column, later in ((jobs.procs[rows], coming.procs), (left.requested, coming.requested))
        )
        origin = int(jobs.submit[rows].min(initial=now_s)) if self._pool is None else 0  # closings are in seconds of the trace
        if self._work.clusters is not None:
            self._work.clusters.nodes.row[:total] = np.concatenate((rows, coming.row))
        submit = np.concatenate((np.minimum(jobs.submit[rows], now_s), now_s + coming.after_s)) - origin
        all_runtimes = np.column_stack((runtimes, np.tile(coming.runtime, (count, 1))))
        state.start[:first] = begin - origin
        state.counters[FREE] = self._held - procs[:first].sum()
        swept = NO_SWEEP._replace(
            runtimes=all_runtimes,
            planned=begin - origin + requests[:first],
            corrections=np.zeros(first, np.int64),
            starts=np.empty((count, total), np.int64),
            wanted=wanted,
        )
        arrays = Jobs(submit, np.empty(total, np.int64), procs, requests, np.zeros(total, np.int64))
        inputs = LoopInputs(arrays, Estimates(requests, requests, requests), NO_DEPENDENCIES, Memory())
        run(self._settings, inputs, self._work, now_s - origin, swept)
        return swept.starts[:, first : len(rows)] + origin - now_s
