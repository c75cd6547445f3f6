"""A rule: what may have decided which job starts when, if there is no configuration.

A rule is a machine for the simulator (:class:`sim.machine.nodes.Description`): one pool of processors with limits on what users
and queues hold, and hours at which jobs may start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.clock import DAY_S, WEEK_S
from features.jobs.schema import codes
from sim.machine.nodes import ALWAYS, NO_LIMIT, Hours, Layout, Requests

MONDAY_S = 4 * DAY_S
"""Unix time of the first Monday."""
ALL = "all jobs"
"""The queue of jobs without one."""
FAR = 1 << 60
"""Later than any second."""
_AFTER_S = 60 * DAY_S
"""Time after the last submission at which closings and hours end, so that each job starts some day."""


@dataclass(frozen=True)
class Limit:
    """The max that jobs with equal values in ``columns`` hold together.

    It is a number of ``processors`` or of ``jobs``. A job that is wider than its limit runs alone.
    """

    columns: tuple[str, ...]
    what: str
    value: int

    def __str__(self) -> str:
        return f"{self.value:,} {self.what} for each {' and '.join(self.columns)}".replace("procs", "width").replace("_s", "")


@dataclass(frozen=True)
class Rule:
    """What decides which job starts when.

    ``procs`` is the max that all jobs hold. ``algorithm`` is a name of :mod:`sim.names`; ``order`` is the formula
    (:mod:`sim.scores`) of the order in front of it, if any. At ``closings`` (seconds of the week, which begins on Monday) nothing
    runs: a job starts only if it is planned to end by the next, unless it is longer than any time between two. Jobs of a queue in
    ``hours`` start only in those hours of the day. ``queues`` are the max processors of each. Seconds are those of the clock
    whose second 0 is ``origin_s`` of the trace.
    """

    procs: int
    algorithm: str = "EASY"
    order: str = ""
    closings: tuple[int, ...] = ()
    hours: tuple[tuple[str, tuple[int, ...]], ...] = ()
    queues: tuple[tuple[str, int], ...] = ()
    limits: tuple[Limit, ...] = ()
    origin_s: int = 0
    name: str = "inferred rule"

    @property
    def scheduler(self) -> str:
        """Return the name of the scheduler."""
        return f"SCORE({self.order})-{self.algorithm}" if self.order else self.algorithm

    @property
    def text(self) -> str:
        """Return the algorithm and the closings as text, which :func:`closed` reads."""
        return json.dumps({"algorithm": self.algorithm, "closings": self.closings, "origin_s": self.origin_s})

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return known influences on decisions that are not modelled: none."""
        return ()

    @property
    def not_modelled(self) -> tuple[str, ...]:
        """Return what such a log does not record."""
        return "nodes and memory", "past usage", "reservations", "holds", "outages"

    def holds(self, jobs: pd.DataFrame) -> np.ndarray:
        """Tell which jobs fit, bool [jobs]."""
        return np.asarray(jobs["procs"].to_numpy(np.int64) <= self.procs)

    def arrays_for(self, jobs: pd.DataFrame) -> tuple[Layout, Requests]:
        """Return the empty machine, and the requests of ``jobs``."""
        wide, one, none = jobs["procs"].to_numpy(np.int64), np.ones(len(jobs), np.int64), np.zeros(len(jobs), np.int64)
        of, weights, left, slots = [np.zeros((len(jobs), 0), np.int64)], [np.zeros((len(jobs), 0), np.int64)], [none[:0]], 0
        for holder, value, weight in self._holders(jobs):
            of.append(np.where(holder >= 0, holder + slots, NO_LIMIT)[:, None])
            weights.append(np.minimum(weight, value[holder])[:, None])
            left.append(value)
            slots += len(value)
        layout = Layout(
            np.array([0, 1]), np.array([[self.procs]]), none[:1], np.concatenate(left)[None, :].copy(), self._hours(jobs)
        )
        limit, weight = (np.ascontiguousarray(np.hstack(each), np.int64) for each in (of, weights))
        return layout, Requests(one, wide[:, None].copy(), one, none, none, one, limit, weight)

    def _holders(self, jobs: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return the holder of each job, the limit of each holder, and the weight of each job."""
        of: np.ndarray
        procs, holders = jobs["procs"].to_numpy(np.int64), []
        if self.queues:
            most_by_queue = dict(self.queues)
            names = sorted(most_by_queue)
            of = pd.Index(names).get_indexer(pd.Index(queue_of(jobs))).astype(np.int64)
            holders.append((of, np.array([most_by_queue[name] for name in names]), procs))
        for limit in self.limits:
            of = jobs.groupby(list(limit.columns), observed=True, dropna=False).ngroup().to_numpy(np.int64)
            weight = np.ones(len(jobs), np.int64) if limit.what == "jobs" else procs
            holders.append((of, np.full(of.max() + 1, limit.value), weight))
        return holders

    def _hours(self, jobs: pd.DataFrame) -> Hours:
        """Return when jobs may start, by queue; jobs too long for any open time ignore closings."""
        if not (self.closings or self.hours):
            return ALWAYS
        first, last = (int(jobs["submit_s"].iloc[at]) + self.origin_s for at in (0, -1))
        weeks = np.arange((first - MONDAY_S) // WEEK_S - 1, (last + _AFTER_S - MONDAY_S) // WEEK_S + 1) * WEEK_S + MONDAY_S
        closings = (weeks[:, None] + np.array(self.closings, np.int64)).ravel()
        days = np.arange(weeks[0], weeks[-1] + WEEK_S, DAY_S)
        queues = [ALL, *(name for name, _ in self.hours)]
        of = np.maximum(pd.Index(queues).get_indexer(pd.Index(queue_of(jobs))).astype(np.int64), 0)
        longest = int(np.diff(closings).max(initial=0))
        of += np.where(jobs["requested_s"].to_numpy(np.int64) > longest, len(queues), 0)
        events = []
        for kind, opens in enumerate([tuple(range(24)), *(hours for _, hours in self.hours)]):
            edges = [hour * 3600 for hour in range(24) if (hour in opens) != ((hour - 1) % 24 in opens)]
            turns = (days[:, None] + np.array(edges, np.int64)).ravel()
            for times, also in ((np.union1d(turns, closings), 0), (turns, len(queues))):
                follows = np.searchsorted(closings, times, "right")
                until = np.append(closings, FAR)[follows] if also == 0 else np.full(len(times), FAR)
                until = np.where(np.isin(times % DAY_S // 3600, opens), until, -FAR)
                events.append(np.column_stack([times, np.full(len(times), kind + also), until]))
        kinds, table = 2 * len(queues), np.vstack(events)
        over = np.column_stack([np.full(kinds, table[:, 0].max() + 1), np.arange(kinds), np.full(kinds, FAR)])
        table = np.vstack([table[np.argsort(table[:, 0], kind="stable")], over])
        time, kind, until = table.T.copy()
        until = np.where(np.abs(until) < FAR, until - self.origin_s, until)
        return Hours(np.maximum(time, first) - self.origin_s, kind, until, of, np.full(kinds, FAR))


def closed(text: str, procs: int) -> Rule | None:
    """Return the rule on ``procs`` processors from its :attr:`Rule.text`.

    None for a scheduler's name, such as EASY.
    """
    if not text.startswith("{"):
        return None
    given = json.loads(text)
    return Rule(procs, given["algorithm"], closings=tuple(given["closings"]), origin_s=given["origin_s"])


def queue_of(jobs: pd.DataFrame) -> np.ndarray:
    """Return the queue of each job, object [jobs]."""
    return np.where(codes(jobs, "queue") >= 0, jobs["queue"].astype(object), ALL)
