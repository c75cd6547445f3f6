"""The arrays of a planner, its searches between passes, and the tables of what it planned."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from features.deferred import pd
from features.errors import InputError
from features.jobs.schema import codes
from sim.inputs.prepare import OnClusters
from sim.kernel.planning_criteria import ACCEPTED, FOUND, JOBS, SLOTS, SPREADS, Search, SearchRules
from sim.kernel.planning_search import search
from sim.kernel.planning_seats import (
    BOUND,
    EVERY,
    FINE,
    HALF_LIFE,
    KEEPS,
    LEAST,
    NUMBERS,
    POOL,
    TELLS,
    THRESHOLD,
    TOLD,
    TOLD_NODES,
    UNIT,
    WHOLE,
    WIDTH,
    Kept,
    Planner,
)
from sim.kernel.scratch import Scratch
from sim.kernel.state import CHOICE, CHOSEN, Estimates, Jobs, State
from sim.machine.nodes import MEMORY_KIB, PROCS, Layout, Nodes, Requests
from sim.schedulers.planning import OrigBF, PlanRS

KEPT_HEAP = 1 << 16
"""Max number of ends kept with the states of a cluster's plan, in all."""
KEPT_TABLES = 1 << 20
"""Max number of values kept of what is free, in all."""
MOST_KEPT = 256
TOGETHER, TOGETHER_LIMITED = 4096, 16
"""Iterations between two looks at the clock, without and with a time limit."""


def pool_as_cluster(procs: int, arrays: Jobs) -> OnClusters:
    """Return a pool of ``procs`` processors as one cluster with one node."""
    jobs = len(arrays.procs)
    none, one, no_limits = np.zeros(jobs, np.int64), np.ones(jobs, np.int64), np.zeros((jobs, 0), np.int64)
    layout = Layout(np.array([0, 1]), np.array([[procs]]), np.zeros(1, np.int64), np.zeros((1, 0), np.int64))
    return OnClusters(layout, Requests(one, arrays.procs[:, None].copy(), none, none, none, one, no_limits, no_limits))


class Planned(NamedTuple):
    """What is planned, and by which ``rule``.

    ``users`` is the number of users, ``running`` the max number of running jobs.

    ``pool``: the nodes are one pool of processors. ``tells``: changes of planned starts are logged. OrigBF also needs the
    ``queue`` of each row.
    """

    rule: PlanRS | OrigBF | None = None
    users: int = 0
    running: int = 0
    pool: bool = False
    tells: bool = False
    queue: np.ndarray = np.zeros(0, np.int64)


def as_planner(planned: Planned, nodes: Nodes, arrays: Jobs, estimates: Estimates, scratch: Scratch) -> Planner:
    """Return fresh arrays of a planner on ``nodes``.

    They are as small as possible if there is no rule and nothing is logged.
    """
    rule, tells = planned.rule, planned.tells
    clusters = len(nodes.first) - 1
    jobs = len(arrays.submit) if rule is not None or tells else 0
    users = planned.users if rule is not None else 0
    size, limits = nodes.free.shape, nodes.left.shape
    take = scratch.take
    stamp, logged_starts_s = take("stamp", jobs), take("told", jobs)
    stamp[:] = 0
    logged_starts_s[:] = -1
    lines = 2 * jobs + 2 if tells else 0
    return Planner(
        numbers=_numbers(rule, planned.pool, tells),
        jobs=arrays,
        fit=estimates.fit,
        nodes=nodes,
        spare=nodes if planned.pool or not isinstance(rule, PlanRS) else _spare(nodes, scratch),
        size=np.zeros(clusters, np.int64),
        order=take("planned order", clusters, jobs),
        at=take("planned at", jobs),
        stamp=stamp,
        ends=take("planned ends", clusters, planned.running + 1),
        heap=take("planned heap", jobs),
        free=take("planned free", *size),
        left=take("planned left", *limits),
        kept=_kept(nodes, jobs if isinstance(rule, PlanRS) else 0, scratch),
        scale=take("scale", jobs),
        rate=take("rate", jobs, dtype=np.float64),
        slowdown=take("slowdown", jobs),
        waits=np.zeros(users + 1, np.int64),
        trial_waits=np.zeros(users + 1, np.int64),
        past=np.zeros(users + 1),
        usage=np.zeros(users + 1),
        inverse=np.zeros(users + 1),
        claim=claims(rule.usage, nodes) if rule is not None else np.zeros(0),
        queue=planned.queue,
        present=np.zeros(users + 1, np.int64),
        logged_start=logged_starts_s,
        logged_nodes=take("told nodes", jobs),
        log=take("log of plans", lines, 5),
        log_nodes=take("log of nodes", 2 * len(nodes.node) + 2 if tells else 0),
    )


def _numbers(rule: PlanRS | OrigBF | None, pool: bool, tells: bool) -> np.ndarray:
    """Return the settings of a planner, by the codes of :mod:`sim.kernel.planning_seats`."""
    numbers = np.zeros(NUMBERS, np.int64)
    numbers[POOL], numbers[TELLS], numbers[WHOLE] = pool, tells, tells
    if isinstance(rule, OrigBF):
        numbers[EVERY], numbers[THRESHOLD], numbers[HALF_LIFE] = rule.reorder, rule.threshold, round(3600 * rule.decay)
        numbers[KEEPS] = rule.reservations == "kept"
        numbers[WHOLE] = tells or numbers[KEEPS]
    if isinstance(rule, PlanRS):
        numbers[EVERY], numbers[WIDTH], numbers[BOUND] = rule.every_s, rule.width == "sqrt", rule.bound
        numbers[LEAST] = 0 if rule.bound == 0 else UNIT // (FINE if rule.width == "sqrt" else 1)
    return numbers


def _spare(nodes: Nodes, scratch: Scratch) -> Nodes:
    """Return ``nodes`` with separate places, on which a search tries plans."""
    held = len(nodes.node)
    return nodes._replace(
        cluster=scratch.take("spare cluster", len(nodes.cluster)),
        held=scratch.take("spare held", len(nodes.held)),
        node=scratch.take("spare node", held),
        chunk=scratch.take("spare chunk", held),
    )


def _kept(nodes: Nodes, searched: int, scratch: Scratch) -> Kept:
    """Return room for what a search over ``searched`` jobs keeps."""
    clusters, take = len(nodes.first) - 1, scratch.take
    states = max(1, min(MOST_KEPT, searched, KEPT_TABLES // max(nodes.free.size + nodes.left.size, 1)))
    return Kept(
        states=np.zeros(clusters, np.int64),
        time=take("kept time", states, clusters),
        run=take("kept run", states, clusters),
        size=take("kept size", states, clusters),
        place=take("kept place", states, clusters),
        heap=take("kept heap", clusters, KEPT_HEAP if searched else 1),
        free=take("kept free", states, *nodes.free.shape),
        left=take("kept left", states, *nodes.left.shape),
    )


def no_planner(nodes: Nodes) -> Planner:
    """Return a planner on ``nodes`` for an algorithm that plans nothing."""
    nothing = np.zeros(0, np.int64)
    jobs, estimates = Jobs(*[nothing] * 5), Estimates(*[nothing] * 3)
    return as_planner(Planned(), nodes, jobs, estimates, Scratch())


QUEUES_S = (3600, 7200, 86400, 2 * 86400, 4 * 86400, 7 * 86400, 14 * 86400, 61 * 86400)
"""Max requests of the queues of OrigBF, seconds; the last is 2 months."""


def queues(rule: OrigBF, jobs: pd.DataFrame, requested: np.ndarray) -> np.ndarray:
    """Return the place of each job's queue, 0 first, int64 [jobs].

    Raises InputError if the trace's queues are asked for and it has none.
    """
    if rule.queues == "one":
        return np.zeros(len(jobs), np.int64)
    if rule.queues == "walltime":
        number = np.searchsorted(QUEUES_S, requested)
    else:
        own = codes(jobs, "queue")
        if len(own) == 0 or own.max() < 0:
            raise InputError("queues=trace: the trace names no queues; leave the option out for queues by walltime")
        longest = np.zeros(own.max() + 2, np.int64)  # the last is that of jobs without a queue
        np.maximum.at(longest, own, requested)
        number = np.argsort(np.argsort(longest, kind="stable"))[own]
    return np.ascontiguousarray(number if rule.priority == "short" else number.max(initial=0) - number, dtype=np.int64)


def claims(usage: str, nodes: Nodes) -> np.ndarray:
    """Return for how many processors each job counts, float64 [rows].

    With memory, by the larger or the mean of its shares of processors and memory.
    """
    totals = nodes.requests.chunks[:, None] * nodes.requests.per_chunk
    procs = totals[:, PROCS].astype(np.float64)
    if usage == "procs" or totals.shape[1] <= MEMORY_KIB:
        return procs
    installed = nodes.capacity.sum(axis=0)
    memory = totals[:, MEMORY_KIB] * (installed[PROCS] / max(installed[MEMORY_KIB], 1))
    return np.maximum(procs, memory) if usage == "larger" else (procs + memory) / 2


def as_rules(rule: PlanRS) -> SearchRules:
    """Return the rule of a search as the kernel's codes."""
    return SearchRules(
        iterations=rule.iterations,
        per_cluster=rule.per == "cluster",
        wait=float(rule.wait),
        slowdown=float(rule.slowdown),
        fairness=float(rule.fairness),
        spread=SPREADS.index(rule.spread),
        least=float(rule.least),
    )


def as_search(seed: int) -> Search:
    """Return the memory of a search, with random numbers drawn by ``seed``."""
    first, second = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    return Search(
        slots=np.zeros(SLOTS, np.int64),
        random=np.array([1 + int(first) % 2147483562, 1 + int(second) % 2147483398]),
        first=np.zeros(3),
        best=np.zeros(3),
        trial=np.zeros(3),
        log=np.zeros((TOGETHER, 3), np.int64),
        gains=np.zeros((TOGETHER, 3)),
    )


class PlanLog:
    """The planned starts of jobs in a simulation, as its ``planner`` logged them."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._lines: list[np.ndarray] = []
        self._nodes: list[np.ndarray] = []

    def read(self) -> None:
        """Move the changes of plans out of the planner's log."""
        numbers = self._planner.numbers
        self._lines.append(self._planner.log[: numbers[TOLD]].copy())
        self._nodes.append(self._planner.log_nodes[: numbers[TOLD_NODES]].copy())
        numbers[TOLD] = numbers[TOLD_NODES] = 0

    def table(self, job_id: np.ndarray, origin: int, rows: np.ndarray | None) -> pd.DataFrame:
        """Return when the plan of each job changed, and to what.

        ``job_id`` is by rows of the table, in which numbers may repeat; ``rows`` are the rows of the kernel's jobs, None if they are
        the same.
        """
        self.read()
        lines, nodes = np.concatenate(self._lines), np.concatenate(self._nodes)
        pool = bool(self._planner.numbers[POOL])
        first = self._planner.nodes.first
        places = np.concatenate(([0], np.cumsum(lines[:, 4])))
        texts = [None if pool else _ranges(nodes[a:b] - first[c]) for (a, b), c in zip(pairwise(places), lines[:, 3], strict=True)]
        table = pd.DataFrame(
            {
                "job_id": job_id[lines[:, 0] if rows is None else rows[lines[:, 0]]],
                "time_s": lines[:, 1] + origin,
                "planned_start_s": lines[:, 2] + origin,
                "cluster": np.array(["" if pool else str(c) for c in lines[:, 3]], dtype=object),
                "nodes": np.array(texts, dtype=object),
            }
        )
        later = pd.DataFrame(lines[:, :2]).duplicated(keep="last").to_numpy()
        return table[~later].reset_index(drop=True)


class Searches:
    """Search for better plans of a simulation, and remember the results.

    The search follows ``rule``, with random numbers by ``seed``, on ``state``.
    """

    def __init__(self, rule: PlanRS, state: State, planner: Planner, bits: int, seed: int) -> None:
        self._planner, self._state, self._bits = planner, state, bits
        self._rules, self._limit = as_rules(rule), rule.limit
        self._find = as_search(seed)
        self._moves: list[tuple[int, np.ndarray]] = []
        self._gains: list[np.ndarray] = []
        self._costs: list[tuple[int, int, int, int, float]] = []
        if rule.iterations > 0:
            state.counters[CHOICE] = 0

    def search(self, now: int) -> None:
        """Search at ``now``; let the loop make another pass if the plan has changed."""
        find, together = self._find, TOGETHER_LIMITED if self._limit else TOGETHER
        slots = find.slots
        rules, over, began = self._rules, False, time.perf_counter()
        while not over:
            if self._limit and time.perf_counter() - began >= self._limit:
                rules = rules._replace(iterations=0)
            over = search(now, self._bits, together, rules, self._planner, self._state, find)
            if slots[FOUND]:
                self._moves.append((now, find.log[: slots[FOUND]].copy()))
                self._gains.append(find.gains[: slots[FOUND]].copy())
                slots[FOUND] = 0
        iterations = self._rules.iterations * (len(self._planner.size) if self._rules.per_cluster else 1)
        self._costs.append((now, int(slots[JOBS]), iterations, int(slots[ACCEPTED]), time.perf_counter() - began))
        self._state.counters[CHOSEN] = int(slots[ACCEPTED] > 0)

    def searches(self, origin: int) -> pd.DataFrame:
        """Return the moves that were accepted."""
        moves = np.concatenate([log for _, log in self._moves]) if self._moves else np.zeros((0, 3), np.int64)
        gains = np.concatenate(self._gains) if self._gains else np.zeros((0, 3))
        times = np.repeat([now for now, _ in self._moves], [len(log) for _, log in self._moves]) if self._moves else moves[:, 0]
        return pd.DataFrame(
            {
                "time_s": times.astype(np.int64) + origin,
                "search": moves[:, 0].astype(np.int32),
                "iteration": moves[:, 1].astype(np.int32),
                "plan_jobs": moves[:, 2].astype(np.int32),
                **{name: gains[:, i] for i, name in enumerate(("wait_gain", "slowdown_gain", "fairness_gain"))},
            }
        )

    def costs(self, origin: int) -> pd.DataFrame:
        """Return a table with a row a search and its wall time."""
        names = ("time_s", "plan_jobs", "iterations", "accepted", "seconds")
        table = pd.DataFrame(self._costs, columns=names).astype(dict(zip(names, ("i8", "i4", "i4", "i4", "f8"), strict=True)))
        table["time_s"] += origin
        return table


def _ranges(nodes: np.ndarray) -> str:
    """Return sorted numbers as text such as ``0-3,7``."""
    ranges: list[str] = []
    first = 0
    for last in range(len(nodes)):
        if last + 1 == len(nodes) or nodes[last + 1] != nodes[last] + 1:
            ranges.append(str(nodes[first]) if first == last else f"{nodes[first]}-{nodes[last]}")
            first = last + 1
    return ",".join(ranges)
