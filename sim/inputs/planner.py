"""The arrays of a planner, and its searches between passes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim.inputs.prepare import OnClusters
from sim.kernel.planning import search
from sim.kernel.planning_seats import EVERY, KEEPS, NUMBERS, Planner, Search, SearchRules
from sim.kernel.scratch import Scratch
from sim.kernel.state import CHOICE, CHOSEN, Estimates, Jobs, State
from sim.machine.nodes import MEMORY_KIB, PROCS, Layout, Nodes, Requests
from sim.schedulers.names import OrigBF, PlanRS


def pool_as_cluster(procs: int, arrays: Jobs) -> OnClusters:
    """Return a pool of ``procs`` processors as one cluster with one node."""
    jobs = len(arrays.procs)
    none, one, no_limits = np.zeros(jobs, np.int64), np.ones(jobs, np.int64), np.zeros((jobs, 0), np.int64)
    layout = Layout(np.array([0, 1]), np.array([[procs]]), np.zeros(1, np.int64), np.zeros((1, 0), np.int64))
    return OnClusters(layout, Requests(one, arrays.procs[:, None].copy(), none, none, none, one, no_limits, no_limits))


class Planned(NamedTuple):
    """What is planned, and by which ``rule``.

    ``users`` is the number of users, ``running`` the max number of running jobs.

    OrigBF also needs the ``queue`` of each row.
    """

    rule: PlanRS | OrigBF | None = None
    users: int = 0
    running: int = 0
    queue: np.ndarray = np.zeros(0, np.int64)


def as_planner(planned: Planned, nodes: Nodes, arrays: Jobs, estimates: Estimates, scratch: Scratch) -> Planner:
    """Return fresh arrays of a planner on ``nodes``.

    They are as small as possible if there is no rule.
    """
    rule = planned.rule
    clusters = len(nodes.first) - 1
    jobs = len(arrays.submit) if rule is not None else 0
    users = planned.users if rule is not None else 0
    size, limits = nodes.free.shape, nodes.left.shape
    take = scratch.take
    stamp = take("stamp", jobs)
    stamp[:] = 0
    return Planner(
        numbers=_numbers(rule),
        jobs=arrays,
        fit=estimates.fit,
        nodes=nodes,
        spare=nodes if not isinstance(rule, PlanRS) else _spare(nodes, scratch),
        size=np.zeros(clusters, np.int64),
        order=take("planned order", clusters, jobs),
        at=take("planned at", jobs),
        stamp=stamp,
        ends=take("planned ends", clusters, planned.running + 1),
        heap=take("planned heap", jobs),
        free=take("planned free", *size),
        left=take("planned left", *limits),
        rate=take("rate", jobs, dtype=np.float64),
        slowdown=take("slowdown", jobs),
        waits=np.zeros(users + 1, np.int64),
        trial_waits=np.zeros(users + 1, np.int64),
        past=np.zeros(users + 1),
        usage=np.zeros(users + 1),
        inverse=np.zeros(users + 1),
        claim=claims(nodes, memory=isinstance(rule, PlanRS)) if rule is not None else np.zeros(0),
        queue=planned.queue,
        present=np.zeros(users + 1, np.int64),
    )


def _numbers(rule: PlanRS | OrigBF | None) -> np.ndarray:
    """Return the settings of a planner, by the codes of :mod:`sim.kernel.planning_seats`."""
    numbers = np.zeros(NUMBERS, np.int64)
    if isinstance(rule, OrigBF):
        numbers[KEEPS] = rule.reservations == "kept"
    if isinstance(rule, PlanRS):
        numbers[EVERY] = rule.interval
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


def no_planner(nodes: Nodes) -> Planner:
    """Return a planner on ``nodes`` for an algorithm that plans nothing."""
    nothing = np.zeros(0, np.int64)
    jobs, estimates = Jobs(*[nothing] * 5), Estimates(*[nothing] * 3)
    return as_planner(Planned(), nodes, jobs, estimates, Scratch())


QUEUES_S = (3600, 7200, 86400, 2 * 86400, 4 * 86400, 7 * 86400, 14 * 86400, 61 * 86400)
"""Max requests of the queues of OrigBF, seconds; the last is 2 months."""


def queues(requested: np.ndarray) -> np.ndarray:
    """Return the place of each job's queue in OrigBF, the shortest requests first."""
    return np.searchsorted(QUEUES_S, requested)


def claims(nodes: Nodes, *, memory: bool) -> np.ndarray:
    """Return for how many processors each job counts, float64 [rows].

    With ``memory``, by the mean of its shares of processors and memory.
    """
    totals = nodes.requests.chunks[:, None] * nodes.requests.per_chunk
    procs = totals[:, PROCS].astype(np.float64)
    if not memory or totals.shape[1] <= MEMORY_KIB:
        return procs
    installed = nodes.capacity.sum(axis=0)
    return (procs + totals[:, MEMORY_KIB] * (installed[PROCS] / max(installed[MEMORY_KIB], 1))) / 2


def as_rules(rule: PlanRS) -> SearchRules:
    """Return the rule of a search as the kernel's codes."""
    return SearchRules(
        iterations=rule.iterations,
        wait=float(rule.wait),
        slowdown=float(rule.slowdown),
        fairness=float(rule.fairness),
    )


def as_search(seed: int) -> Search:
    """Return the memory of a search, with random numbers drawn by ``seed``."""
    first, second = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    return Search(
        random=np.array([1 + int(first) % 2147483562, 1 + int(second) % 2147483398]),
        best=np.zeros(3),
        trial=np.zeros(3),
    )


class Searches:
    """Search for better plans of a simulation.

    The search follows ``rule``, with random numbers by ``seed``, on ``state``.
    """

    def __init__(self, rule: PlanRS, state: State, planner: Planner, bits: int, seed: int) -> None:
        self._rules, self._find = as_rules(rule), as_search(seed)
        self._state, self._planner, self._bits = state, planner, bits
        if rule.iterations > 0:
            state.counters[CHOICE] = 0

    def search(self, now: int) -> None:
        """Search at ``now``; let the loop make another pass if the plan has changed."""
        better = search(now, self._bits, self._rules, self._planner, self._state, self._find)
        self._state.counters[CHOSEN] = int(better)
