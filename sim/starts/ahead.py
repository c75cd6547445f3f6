"""Run a queue ahead: the starts of waiting jobs in scenarios of runtimes and arrivals.

In each scenario the scheduler goes on from a given moment with the jobs that then run and wait. Runtimes are drawn from the
predicted distributions, those of running jobs given how long they have run. Later submissions repeat those of an earlier week
from the same hour of the week on. Each scenario is an ordinary simulation of the event loop. The starts are a sample of when the
jobs will start, as far as the scheduler is the site's own, the distributions are right, and coming weeks are like past ones.
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

    Each list repeats the submissions of ``horizon_s`` seconds from the same second of one of the last ``WEEKS`` weeks on, or of
    an earlier day if the record is shorter than a week. Only jobs that had ended by ``now_s`` are read.
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

    ``policy`` plans by requests; its predictor is not asked. Arrivals are drawn ``groups`` times. Starts in ``within_s`` seconds
    or later are not told apart. With a ``pool`` that has closings, its scheduler runs ahead instead and keeps to them. One object
    answers many questions and reuses its arrays.
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
            layout, requests = on_clusters(_as_table(self._of), self._pool)
            nodes = scratch.nodes(layout, requests, np.arange(len(self._of.submit)))
            for array, value in ((nodes.cluster, 0), (nodes.held, 1), (nodes.node, 0), (nodes.chunk, 1)):
                array[:] = value  # there is one node
            nodes = nodes._replace(row=np.zeros(jobs, np.int64))
            clusters = scratch.clusters(nodes, no_planner(nodes), two=plan, layout=layout)
        self._work = scratch.work(jobs, self._held, plans=True, two=plan, clusters=clusters)

    def starts(
        self,
        jobs: Queued,
        running: np.ndarray,
        waiting: np.ndarray,
        now_s: int,
        only: np.ndarray | None = None,
        without: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return seconds until each of ``waiting`` starts, int64 [scenarios, waiting].

        ``running`` and ``waiting`` are rows of ``jobs``, the latter in the order of the queue; ``jobs`` also has past jobs, for
        the arrivals. ``only``, ascending, restricts the answer to these waiting rows. A single one is faster: a simulation ends
        with its start. ``without``, bool [jobs], takes out jobs that are not asked about; all others keep their drawn runtimes.
        """
        rows, first, requested, runtimes = self.drawn(jobs, running, waiting, now_s)
        if without is not None:
            kept, waiting = ~without[rows], waiting[~without[waiting]]
            first = int(kept[:first].sum())
            rows, requested, runtimes = rows[kept], requested[kept], runtimes[:, kept]
        wanted = _alone(rows, first, only)
        starts_s = np.empty((self.scenarios, len(waiting)), np.int64)
        for group, coming in enumerate(arrivals(jobs, now_s, self.groups, self.seed)):
            chosen = slice(group, None, self.groups)
            starts_s[chosen] = self._run(jobs, rows, first, now_s, requested, runtimes[chosen], coming, wanted)
        return starts_s if only is None else starts_s[:, np.isin(waiting, only)]

    def drawn(
        self, jobs: Queued, running: np.ndarray, waiting: np.ndarray, now_s: int
    ) -> tuple[np.ndarray, int, np.ndarray, np.ndarray]:
        """Return rows (running jobs first), the number of running jobs, requests and runtimes.

        Runtimes int64 [scenarios, rows] are drawn from predicted distributions, those of running jobs given how long they have
        run.
        """
        rows, first, elapsed, requested = _left(jobs, running, waiting, now_s)
        if len(rows) > len(self._uniforms):
            self._uniforms = uniforms(2 * len(rows), self.scenarios, self.seed)
        runtimes = np.empty((self.scenarios, len(rows)), np.int64)
        draw_runtimes(np.arange(len(rows)), elapsed, requested, self._uniforms, jobs.quantiles[rows], runtimes)
        return rows, first, requested, runtimes

    def plan(
        self,
        jobs: Queued,
        running: np.ndarray,
        waiting: np.ndarray,
        now_s: int,
        runtime_s: np.ndarray,
        coming: Coming = _NO_JOBS,
        only: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return seconds until each job starts if jobs run for ``runtime_s``, int64 [only].

        ``runtime_s`` is int64 [jobs]; a job that has run for longer ends in the next second. ``coming`` are submitted later, by
        default none. Other arguments are those of :meth:`starts`.
        """
        rows, first, elapsed, requested = _left(jobs, running, waiting, now_s)
        runtimes = np.maximum(runtime_s[rows], elapsed + 1)[None]
        starts_s = self._run(jobs, rows, first, now_s, requested, runtimes, coming, _alone(rows, first, only))[0]
        return starts_s if only is None else starts_s[np.isin(waiting, only)]

    def _run(
        self,
        jobs: Queued,
        rows: np.ndarray,
        first: int,
        now_s: int,
        requested: np.ndarray,
        runtimes: np.ndarray,
        coming: Coming,
        wanted: int,
    ) -> np.ndarray:
        total, count = len(rows) + len(coming.procs), len(runtimes)
        other = self._pool is not None and jobs is not self._of
        if other or total > len(self._work.state.start):
            self._of = jobs
            self._room(max(2 * total, 1 << 12))
        state, begin = self._work.state, jobs.start[rows[:first]]
        procs, requests = (
            np.concatenate((column, later)) for column, later in ((jobs.procs[rows], coming.procs), (requested, coming.requested))
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


def _alone(rows: np.ndarray, first: int, only: np.ndarray | None) -> int:
    """Return one plus the place in ``rows`` of the waiting job that is ``only``, else 0."""
    return 0 if only is None or len(only) != 1 else first + int(np.flatnonzero(rows[first:] == only[0])[0]) + 1


def _as_table(jobs: Queued) -> pd.DataFrame:
    """Return the columns of jobs that a pool with closings reads."""
    return pd.DataFrame({"submit_s": jobs.submit, "procs": jobs.procs, "requested_s": jobs.requested})


def _left(jobs: Queued, running: np.ndarray, waiting: np.ndarray, now_s: int) -> tuple[np.ndarray, int, np.ndarray, np.ndarray]:
    """Return rows (running first, by start), number of running, elapsed s, extended requests."""
    rows, first = np.concatenate((running[np.argsort(jobs.start[running], kind="stable")], waiting)), len(running)
    elapsed = np.zeros(len(rows), np.int64)
    elapsed[:first] = now_s - jobs.start[rows[:first]]
    requested = jobs.requested[rows]
    return rows, first, elapsed, np.maximum(requested, elapsed + _OVER_S * (requested <= elapsed))
