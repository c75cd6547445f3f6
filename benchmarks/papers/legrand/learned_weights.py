"""What a second of a job's waiting costs: the expected 1 / max(runtime, tau), as served.

The mean bounded slowdown is a sum of waits with that weight, so that Smith's rule (1956) puts a job in front by request * n / weight. Most of the sum comes
from jobs that end within a minute of a request of hours: a request does not tell them, a median does not, but the users' recent jobs do a little. Boosted
trees over classes of runtimes say the chance of each, trained anew each week from the jobs that had ended by then. They know what had ended, in a schedule
of the whole trace by EASY, when the job was submitted; none ever saw the job's own week in training, nor a runtime before its end.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from features.clock import DAY_S, WEEK_S, Clock, local_clock_s
from models.runtime.prior import prior
from sim.inputs.prepare import prepare
from sim.outcome import TRACE_SECONDS, simulation
from sim.policy import Policy

EDGES_S = np.array([10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 7200.0, 28800.0])
"""Classes of runtimes: below the first, between two, from the last on."""
MIDDLES_S = np.array([5.0, 20.0, 45.0, 110.0, 320.0, 1000.0, 3600.0, 15000.0, 50000.0])
"""A runtime that stands for each class."""
TAU_S = 60.0
LEARNED_JOBS = 20_000
"""Most recent ended jobs that the trees learn from."""
ENOUGH = 500
"""Ended jobs below which the trees say nothing, and the prior of :mod:`models.runtime.prior` speaks."""
TREES = {
    **{
        "objective": "multiclass",
        "num_class": len(MIDDLES_S),
        "learning_rate": 0.06,
        "num_leaves": 7,
        "min_data_in_leaf": 30,
        "lambda_l2": 5.0,
    },
    **{"feature_fraction": 0.6, "bagging_fraction": 0.7, "bagging_freq": 1, "num_threads": 1, "deterministic": True, "verbose": -1},
}
ROUNDS = 80
SCHEDULE = "EASY-SPF"
"""The scheduler of the walk, which says when jobs have ended."""


@dataclass(eq=False)
class _User:
    """The jobs of one user: ended ones by what they have in common, submitted ones, and those not ended."""

    ended: list[int] = field(default_factory=list)
    alike: dict[tuple[str, int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    submitted: list[int] = field(default_factory=list)
    present: dict[int, None] = field(default_factory=dict)


class History:
    """The features of each job's submission, float64 [jobs, features], NaN for unknown.

    Times in seconds from the first submission; ``start`` is that of the walk. Nothing that ends after a submission is used.
    """

    def __init__(self, jobs: pd.DataFrame, start: np.ndarray, clock: Clock = TRACE_SECONDS) -> None:
        columns = ("submit_s", "runtime_s", "procs", "requested_s")
        submit, self.runtime, self.procs, self.requested = (jobs[name].to_numpy(np.int64) for name in columns)
        self.submit = submit - submit[0]
        self.start, self.end = start, start + self.runtime
        self.log_runtime = np.log(np.maximum(self.runtime, 1))
        self.log_requested, self.log_procs = np.log(self.requested), np.log(self.procs)
        local_s = local_clock_s(submit, clock.origin_unix_s, clock.timezone)
        self.hour, self.weekday = local_s % DAY_S / 3600.0, local_s // DAY_S % 7
        self.user = jobs["user"].cat.codes.to_numpy(np.int64)

    def features(self) -> np.ndarray:
        users: dict[int, _User] = defaultdict(_User)
        ends, at = np.argsort(self.end, kind="stable"), 0
        rows = []
        for job, now in enumerate(self.submit.tolist()):
            while at < len(ends) and self.end[ends[at]] <= now:
                self._end(users, int(ends[at]))
                at += 1
            mine = users[int(self.user[job])]
            rows.append(
                [*self._asked(job, mine), *self._last(job, mine), *self._alike(job, mine, now), *self._around(job, mine, now)]
            )
            mine.submitted.append(job)
            mine.present[job] = None
        return np.array(rows, np.float64)

    def _kinds(self, job: int) -> tuple[tuple[str, int, int], ...]:
        procs, requested = int(self.procs[job]), int(self.requested[job])
        return ("both", procs, requested), ("procs", procs, 0), ("request", 0, requested)

    def _end(self, users: dict[int, _User], job: int) -> None:
        mine = users[int(self.user[job])]
        mine.ended.append(job)
        mine.present.pop(job, None)
        for kind in self._kinds(job):
            mine.alike[kind].append(job)

    def _asked(self, job: int, mine: _User) -> list[float]:
        counts = (len(mine.ended), len(mine.submitted))
        return [self.log_requested[job], self.log_procs[job], self.hour[job], self.weekday[job], *counts]

    def _last(self, job: int, mine: _User) -> list[float]:
        """Describe the user's last four ended jobs, and the last ten together."""
        row: list[float] = []
        for each in mine.ended[:-5:-1]:
            row += [self.log_runtime[each], self.log_runtime[each] - self.log_requested[each]]
            row += [self.log_procs[each] - self.log_procs[job], self.log_requested[each] - self.log_requested[job]]
        row += [np.nan] * (16 - len(row))
        last = mine.ended[-10:]
        if not last:
            return row + [np.nan] * 5
        runtime, logarithm = self.runtime[last], self.log_runtime[last]
        shares = [float((runtime < 60).mean()), float((runtime < 600).mean())]
        return [*row, *shares, logarithm.mean(), logarithm.std(), (logarithm - self.log_requested[last]).mean()]

    def _alike(self, job: int, mine: _User, now: int) -> list[float]:
        """Describe the user's ended jobs of the same processors, request, and both."""
        row: list[float] = []
        for kind in self._kinds(job):
            group = mine.alike.get(kind, [])
            if not group:
                row += [0.0] + [np.nan] * 5
                continue
            last = self.log_runtime[group[-5:]]
            row += [len(group), last[-1], last.mean(), last.min(), last.max(), np.log(now - self.end[group[-1]] + 1.0)]
        return row

    def _around(self, job: int, mine: _User, now: int) -> list[float]:
        """Describe the time since the user's last jobs, and those present."""
        row = [np.log(now - self.end[mine.ended[-1]] + 1.0) if mine.ended else np.nan]
        if mine.submitted:
            last = mine.submitted[-1]
            elapsed = np.log(now - self.start[last] + 1.0) if self.start[last] <= now else -1.0
            row += [np.log(now - self.submit[last] + 1.0), self.log_procs[last] - self.log_procs[job]]
            row += [self.log_requested[last] - self.log_requested[job], float(last in mine.present), elapsed]
        else:
            row += [np.nan] * 5
        running = [each for each in mine.present if self.start[each] <= now]
        waiting = [each for each in mine.present if self.start[each] > now]
        twins = [each for each in running if self._kinds(each)[0] == self._kinds(job)[0]]
        for group in (running, twins):
            elapsed_s = [now - int(self.start[each]) for each in group]
            row += [len(group), max(elapsed_s, default=-1), min(elapsed_s, default=-1)]
        recent = self.submit[mine.submitted[-30:]]
        row += [len(waiting), sum(self.procs[each] == self.procs[job] for each in waiting)]
        return [*row, float((recent > now - 3600).sum()), float((recent > now - DAY_S).sum())]


def of_trees(history: History, since_s: int = 0, seed: int = 0) -> np.ndarray:
    """Return the trees' chance of each class of runtimes, float64 [jobs, classes].

    NaN where they say nothing. Trained at each week's beginning from ``since_s`` on, from the jobs that had ended by then.
    """
    import lightgbm  # slow to import, and all else here is used without it

    table = history.features()
    label = np.searchsorted(EDGES_S, history.runtime, side="right")
    chances = np.full((len(table), len(MIDDLES_S)), np.nan)
    for week in range(since_s // WEEK_S, int(history.submit[-1]) // WEEK_S + 1):
        begin = week * WEEK_S
        asked = np.flatnonzero((history.submit >= begin) & (history.submit < begin + WEEK_S))
        ended = np.flatnonzero(history.end <= begin)[-LEARNED_JOBS:]
        if len(asked) and len(ended) >= ENOUGH:
            rows = lightgbm.Dataset(table[ended], label[ended])
            chances[asked] = lightgbm.train(TREES | {"seed": seed}, rows, ROUNDS).predict(table[asked])
    return chances


def weight_of_chances(chances: np.ndarray, requested_s: np.ndarray) -> np.ndarray:
    """Return the expected 1 / max(runtime, tau) of each row of chances, float64 [jobs].

    No runtime exceeds its request.
    """
    possible = np.concatenate([[0.0], EDGES_S])[None, :] < requested_s[:, None]
    chances = np.where(possible, chances, 0.0) + 1e-9
    runtime_s = np.minimum(MIDDLES_S[None, :], requested_s[:, None])
    return np.asarray((chances / np.maximum(runtime_s, TAU_S)).sum(axis=1) / chances.sum(axis=1), np.float64)


def weight_of_quantiles(quantiles: pd.DataFrame) -> np.ndarray:
    """Return the expected 1 / max(runtime, tau) of evenly spaced quantiles, float64 [jobs]."""
    return np.asarray((1.0 / np.maximum(quantiles.to_numpy(np.float64), TAU_S)).mean(axis=1), np.float64)


def expected_weights(
    jobs: pd.DataFrame,
    procs: int,
    *,
    clock: Clock = TRACE_SECONDS,
    since_s: int = 0,
    seed: int = 0,
) -> np.ndarray:
    """Return each job's expected 1 / max(runtime, tau) as served, float64 [jobs].

    ``jobs`` is a whole trace; ``since_s`` is when the trees are first trained, seconds from the first submission. Before, and while
    few jobs have ended, the prior answers, which goes by the request alone.
    """
    walk = simulation(prepare(jobs, procs), Policy(SCHEDULE), clock=clock).outcome()
    history = History(jobs, walk.start - walk.submit[0], clock)
    chances = of_trees(history, since_s, seed)
    quantiles_of = prior().quantiles
    assert quantiles_of is not None
    has_chances = ~np.isnan(chances[:, 0])
    of_classes = weight_of_chances(chances, history.requested.astype(np.float64))
    return np.where(has_chances, of_classes, weight_of_quantiles(quantiles_of(jobs)))


def index_s(requested_s: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the seconds by which a score knows a weight, float64 [jobs].

    The geometric mean of the request and 1 / weight, at most the request.
    """
    return np.asarray(np.sqrt(requested_s * np.minimum(1.0 / weight, requested_s)), np.float64)
