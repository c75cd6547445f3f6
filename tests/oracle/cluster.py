"""The simulated cluster in plain Python: the oracle of :mod:`sim.cluster`.

Nodes know their job, jobs know their nodes, and all loads are added up anew whenever something happens, as the docstrings of
:mod:`sim.cluster.contention`, :mod:`sim.cluster.contention` and :mod:`sim.cluster.presets` say. The oracle of scheduling
decides which jobs start, per second. Given are the machine, and what was drawn: work of each job, background.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sim.cluster.applications import Behaviour, application
from sim.cluster.begin import behaviours, horizon_s
from sim.cluster.presets import SimulatedCluster
from sim.inputs.prepare import prepare
from tests.oracle.decisions import Deciding
from tests.oracle.scheduler import Job, Simulation

NOISE = -1  # number of the noise job


class Part(NamedTuple):
    """So many nodes of a job under one leaf, and the share of a node's partners that are under other leaves."""

    nodes: int
    away: float


@dataclass(eq=False)
class Run:
    """A job on its nodes, with the stretches and slowdown of the moment.

    ``left`` is its work still to be done in seconds alone on the machine.
    """

    job: Job
    behaviour: Behaviour
    work: float
    type: str
    nodes: list[int] = field(default_factory=list)
    spread: dict[int, Part] = field(default_factory=dict)  # by leaf
    exposed: list[float] = field(
        default_factory=list
    )  # by how much more than 1 each node's communication was stretched before the run itself began
    left: float = 0.0
    network: float = 1.0
    io: float = 1.0
    done: float | None = None  # when all its work is, as things stand
    start_network: float = 0.0
    start_io: float = 0.0
    network_sum: float = 0.0
    io_sum: float = 0.0

    def copied(self) -> Run:
        """Return a copy that may go on otherwise; nodes and exposures are given anew, never changed."""
        twin = copy(self)
        twin.job = copy(self.job)
        return twin

    @property
    def slowdown(self) -> float:
        return 1.0 + self.behaviour.network * (self.network - 1.0) + self.behaviour.io * (self.io - 1.0)

    @property
    def runtime_s(self) -> float:
        """Unrounded; cut at the request."""
        return min(self.done - self.job.start, self.job.requested)


class Machine:
    """The nodes, the jobs on them, and every job's speed."""

    def __init__(self, cluster: SimulatedCluster, background: np.ndarray) -> None:
        self.cluster, self.background = cluster, background.tolist()
        self.on: list[int | None] = [None] * cluster.nodes  # number of the job on each node
        self.running: dict[int, Run] = {}
        if cluster.noise_nodes:
            for number in range(cluster.noise_leaves):
                first = number * cluster.leaves // cluster.noise_leaves * cluster.nodes_per_leaf
                for node in range(first, first + cluster.noise_nodes // cluster.noise_leaves):
                    self.on[node] = NOISE
        self.noise = self.spread([node for node, number in enumerate(self.on) if number == NOISE])

    def begin(self, run: Run, now: int) -> None:
        run.nodes = self.chosen(run.job.procs)
        assert len(run.nodes) == run.job.procs
        stretch, run.spread = self.loads(now)[0], self.spread(run.nodes)
        leaves = [node // self.cluster.nodes_per_leaf for node in run.nodes]
        run.exposed = [run.spread[leaf].away * stretch[leaf] for leaf in leaves]
        for node in run.nodes:
            self.on[node] = run.job.index
        run.left = run.work
        self.running[run.job.index] = run

    def copied(self) -> Machine:
        """Return a copy on which jobs may run on, for a look ahead."""
        twin = copy(self)
        twin.on, twin.running = list(self.on), {number: run.copied() for number, run in self.running.items()}
        return twin

    def free(self) -> list[int]:
        return [node for node, number in enumerate(self.on) if number is None]

    def chosen(self, needed: int) -> list[int]:
        """Return the nodes of a job that begins."""
        if self.cluster.placement == "first-fit":
            return self.free()[:needed]
        under: dict[int, list[int]] = {}
        for node in self.free():
            under.setdefault(node // self.cluster.nodes_per_leaf, []).append(node)
        return self.best_fit(needed, under)

    def best_fit(self, needed: int, under: dict[int, list[int]]) -> list[int]:
        """The leaf with fewest free nodes that are enough, else the one with most, and so on with the rest."""
        if needed <= 0:
            return []
        enough = [leaf for leaf in under if len(under[leaf]) >= needed]
        size = -1 if enough else 1
        best = max(enough or under, key=lambda leaf: size * len(under[leaf]))
        rest = {leaf: nodes for leaf, nodes in under.items() if leaf != best}
        return under[best][:needed] + self.best_fit(needed - len(under[best]), rest)

    def end(self, run: Run) -> None:
        assert all(self.on[node] == run.job.index for node in run.nodes)
        for node in run.nodes:
            self.on[node] = None
        del self.running[run.job.index]

    def at_work(self, seconds: int) -> None:
        for run in self.running.values():
            run.left = max(run.left - seconds / run.slowdown, 0.0)
            run.network_sum += seconds * run.network
            run.io_sum += seconds * run.io

    def spread(self, nodes: Sequence[int]) -> dict[int, Part]:
        """Return the part of a job under each leaf."""
        there = Counter(node // self.cluster.nodes_per_leaf for node in nodes)
        return {leaf: Part(count, 1.0 - count / len(nodes)) for leaf, count in there.items()}

    def loads(self, now: int) -> tuple[list[float], float]:
        """Return the stretch beyond 1 of communication under each leaf, and of I/O, at ``now``."""
        cluster = self.cluster
        storage, core, busy = self.background[(now + cluster.warm_s) // cluster.tick_s]
        senders = [(run.spread, run.behaviour.traffic) for run in self.running.values()]
        senders.append((self.noise, cluster.noise_traffic * busy))
        sent = [0.0] * cluster.leaves  # through the uplinks of each leaf, GB/s
        for spread, traffic in senders:
            for leaf, part in spread.items():
                sent[leaf] += traffic * part.nodes * part.away
        stored = sum((run.behaviour.read + run.behaviour.write) * len(run.nodes) for run in self.running.values())

        def more(load: float, gain: float) -> float:
            return gain * load**cluster.power

        in_core = more(sum(sent) / cluster.core + core, cluster.network_gain)
        under = [more(load / cluster.uplink, cluster.network_gain) + in_core for load in sent]
        return under, more(stored / cluster.storage + storage, cluster.storage_gain)

    def settle(self, now: int, seen: int | None = None) -> None:
        """Compute every job's speed from ``now`` on, and its end; the background is that of ``seen``, by default of now."""
        under, in_storage = self.loads(now if seen is None else seen)
        for run in self.running.values():
            run.network = 1.0 + max(part.away * under[leaf] for leaf, part in run.spread.items())
            run.io = 1.0 + in_storage
            if run.done is None:
                run.start_network, run.start_io = run.network, run.io
            if run.done is None or run.done > now:  # else it is waiting for the whole second
                run.done = now + run.left * run.slowdown
            whole = max(ceil(run.done) - run.job.start, 1)
            run.job.runtime = min(whole, run.job.requested)


@dataclass
class Foreseeing:
    """Oracle and nowcast in plain Python: with a patience in seconds, and a pause between questions.

    ``limits`` are by (application, nodes); ``changes`` says whether the background goes on as it will. As every start is asked about,
    the jobs started so far in a pass are those it let start.
    """

    limits: dict[tuple[str, int], float]
    changes: bool
    patience_s: int
    every_s: int
    machine: Any = None
    runs: list[Run] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    name: str = "foreseeing"
    asked: int = 0
    first: dict[int, int] = field(default_factory=dict)  # by job, when it was first skipped
    last: dict[int, int] = field(default_factory=dict)  # and when it was last told to wait
    started: tuple[int, list[int]] = (-1, [])

    def skip(self, row: int, now_s: int) -> bool:
        if self.started[0] != now_s:
            self.started = (now_s, [])
        skipped = self._answer(row, now_s)
        if not skipped:
            self.started[1].append(row)
        return skipped

    def _answer(self, row: int, now: int) -> bool:
        if row in self.first and now - self.first[row] >= self.patience_s:
            return False
        if row in self.last and now - self.last[row] < self.every_s:
            return True
        self.asked += 1
        skipped = self._harmful(row, now)
        self.last.pop(row, None)
        if skipped:
            self.last[row] = now
            self.first.setdefault(row, now)
        return skipped

    def _limit(self, run: Run) -> float:
        return self.limits[self.names[run.job.index], run.job.procs]

    def _harmful(self, row: int, now: int) -> bool:
        machine = self.machine.copied()
        for job in self.started[1]:
            machine.begin(self._started(job, now), now)
        machine.begin(self._started(row, now), now)
        if self.runs[row].work > self._limit(self.runs[row]):
            return False
        return self._lasted(machine, row, now) > self._limit(self.runs[row])

    def _started(self, row: int, now: int) -> Run:
        run = self.runs[row].copied()
        run.job.start = now
        return run

    def _lasted(self, machine: Machine, row: int, now: int) -> float:
        """Return the runtime of a job, all others going on as they do."""
        run, at = machine.running[row], now
        while True:
            machine.settle(at, None if self.changes else now)
            until = (at // machine.cluster.tick_s + 1) * machine.cluster.tick_s
            if run.left * run.slowdown <= until - at or not self.changes:
                return at + run.left * run.slowdown - now
            run.left -= (until - at) / run.slowdown
            at = until


def simulated(
    cluster: SimulatedCluster,
    jobs: pd.DataFrame,
    work: Sequence[float],
    background: np.ndarray,
    scaling: str = "weak",
    *,
    decision: Any = None,
    skips: int = 10,
    **policy: Any,
) -> list[Run]:
    """Simulate ``jobs`` on ``cluster``, each ``work`` seconds long alone on the machine.

    ``jobs`` is a canonical table, ``background`` [ticks, 3]. ``policy`` says algorithm, order, backfill and reservations as the
    oracle of scheduling calls them; ``decision``, if there is one, is asked about starts. All times are
    seconds from the first submission.
    """
    policy = {"algorithm": "EASY", "order": "FCFS", "backfill": "FCFS", "correction": "requested", "reservations": 1} | policy
    make = Simulation if decision is None else partial(Deciding, decision=decision, most=skips)
    sim = make(machine=cluster.procs, predictor=None, starvation_s=None, **policy)
    first = int(jobs["submit_s"].min())
    runs = []
    for row in jobs.reset_index(drop=True).itertuples():
        asks = int(row.requested_s)
        job = Job(row.Index, int(row.submit_s) - first, asks, int(row.procs), asks, None, asks, asks, asks, 0, 0)
        runs.append(Run(job, application(row.executable).on(job.procs, scaling), work[row.Index], application(row.executable).type))
    machine, coming, then = Machine(cluster, background), list(runs), 0
    if isinstance(decision, Foreseeing):
        decision.machine, decision.runs, decision.names = machine, runs, jobs["executable"].to_list()
    while coming or machine.running or sim.wake is not None:
        moments = [(then // cluster.tick_s + 1) * cluster.tick_s]
        moments += [run.job.end for run in machine.running.values()]
        moments += [run.job.submit for run in coming[:1]]
        moments += [sim.wake] * (sim.wake is not None)
        now = min(moments)
        machine.at_work(now - then)
        happened = sim.wake == now
        for job in [job for job in sim.running if job.end == now]:
            sim.finish(job)
            machine.end(runs[job.index])
            happened = True
        while coming and coming[0].job.submit == now:
            sim.submit(coming.pop(0).job)
            happened = True
        for job in sim.schedule(now) if happened else []:
            machine.begin(runs[job.index], now)
        machine.settle(now)
        then = now
    assert not sim.waiting
    return runs


def drawn(cluster: SimulatedCluster, jobs: pd.DataFrame, seed: int, scaling: str = "weak") -> tuple[np.ndarray, np.ndarray]:
    """Draw work of each job [jobs] and background [ticks, 3] as the simulator does.

    As :func:`sim.cluster.simulate.simulate_on`: first the applications' own noise.
    """
    names = jobs["executable"].to_numpy()
    alone, _, _ = behaviours(names, jobs["procs"].to_numpy(), scaling, {})
    luck, random = np.random.default_rng(seed).spawn(2)
    noise = np.array([application(name).noise for name in names]) * cluster.own_noise
    work = alone * np.exp(noise * luck.standard_normal(len(jobs)))
    whole = np.minimum(np.maximum(np.rint(alone), 1), jobs["requested_s"]).astype(np.int64)
    ticks = (
        horizon_s(cluster, prepare(jobs.assign(runtime_s=whole), cluster.procs).arrays, alone) + cluster.warm_s
    ) // cluster.tick_s
    levels = (cluster.storage_background, cluster.core_background, cluster.noise_background)
    drawn = [level.drawn(ticks + 1, cluster.tick_s, own) for level, own in zip(levels, random.spawn(len(levels)), strict=True)]
    return work, np.column_stack(drawn)
