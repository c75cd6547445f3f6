"""Machines of clusters for the simulator's tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from sim.machine.nodes import NO_LIMIT, PROCS, Layout, Requests
from tests.oracle.clusters import Ask, Node, Site, Stay, is_pools, seat
from tests.support.workloads import Workload, crowd


@dataclass(frozen=True)
class Described:
    """A machine described by its arrays, and by what jobs ask of it."""

    arrays: Layout
    asked: Callable[[pd.DataFrame], Requests]

    name = "described"

    @property
    def procs(self) -> int:
        return int(self.arrays.capacity[:, PROCS].sum())

    def layout(self) -> Layout:
        return self.arrays

    def requests(self, jobs: pd.DataFrame) -> Requests:
        return self.asked(jobs)

    def arrays_for(self, jobs: pd.DataFrame) -> tuple[Layout, Requests]:
        return self.layout(), self.requests(jobs)


def one_node(procs: int) -> Described:
    """The pool of ``procs`` processors as one cluster with one node."""
    layout = Layout(np.array([0, 1]), np.array([[procs]]), np.zeros(1, np.int64), np.zeros((1, 0), np.int64))
    return Described(layout, anywhere)


def nodes_of_one(procs: int) -> Described:
    """The pool of ``procs`` processors as one cluster of nodes with one processor each."""
    layout = Layout(np.array([0, procs]), np.ones((procs, 1), np.int64), np.zeros(procs, np.int64), np.zeros((1, 0), np.int64))

    def each_alone(jobs: pd.DataFrame) -> Requests:
        asked = anywhere(jobs)
        return asked._replace(
            chunks=asked.per_chunk[:, 0].copy(), per_chunk=np.ones_like(asked.per_chunk), apart=np.ones_like(asked.apart)
        )

    return Described(layout, each_alone)


def anywhere(jobs: pd.DataFrame) -> Requests:
    """As many processors as a job has, in one chunk, in the first cluster."""
    total = len(jobs)
    one, none, no_limits = np.ones(total, np.int64), np.zeros(total, np.int64), np.zeros((total, 0), np.int64)
    return Requests(one, jobs["procs"].to_numpy(np.int64)[:, None].copy(), none, none, none, one, no_limits, no_limits)


KINDS = 2
"""Limits that count one job at most."""


def random_site(rng: np.random.Generator) -> Site:
    """Up to three clusters of up to four small nodes, alike or not, with processors and memory, some with properties."""
    clusters = []
    for _ in range(rng.integers(1, 4)):
        alike = Node((int(rng.integers(1, 9)), int(rng.integers(4, 17))))
        several = rng.integers(1, 5)
        clusters.append(
            [
                alike
                if rng.random() < 0.5
                else Node(
                    (int(rng.integers(1, 9)), int(rng.integers(4, 17))), frozenset(np.flatnonzero(rng.random(3) < 0.5).tolist())
                )
                for _ in range(several)
            ]
        )
    site = Site(clusters, [[int(rng.integers(2, 12)) for _ in range(2 * KINDS)] for _ in clusters])
    return random_site(rng) if is_pools(site) else site


def random_pools(rng: np.random.Generator) -> Site:
    """Up to three clusters of up to eight alike nodes with one processor and memory."""
    clusters = [[Node((1, int(rng.integers(4, 17))))] * int(rng.integers(1, 9)) for _ in range(rng.integers(1, 4))]
    return Site(clusters, [[int(rng.integers(2, 12)) for _ in range(2 * KINDS)] for _ in clusters])


def random_ask(rng: np.random.Generator, site: Site) -> Ask:
    """What some job asks for that the empty site can hold."""
    while True:
        ask = Ask(
            chunks=int(rng.choice([1, 1, 1, 2, 3, 6])),
            each=(int(rng.choice([1, 1, 2, 4])), int(rng.choice([0, 1, 2, 5]))),
            apart=bool(rng.random() < 0.5),
            whole=bool(rng.random() < 0.15),
            properties=frozenset([int(rng.integers(0, 3))]) if rng.random() < 0.2 else frozenset(),
            clusters=frozenset(np.flatnonzero(rng.random(len(site.clusters)) < 0.7).tolist()),
            weights={2 * kind + int(rng.integers(0, 2)): int(rng.integers(1, 4)) for kind in range(KINDS) if rng.random() < 0.4},
        )
        if seat(site, [], ask, 0, 1) is not None:
            return ask


def described(site: Site, asks: Sequence[Ask]) -> Described:
    """The site, and what the jobs of any table ask for, in order of their numbers from 1."""

    def bits(numbers: frozenset[int]) -> int:
        return sum(1 << number for number in numbers)

    nodes = [node for cluster in site.clusters for node in cluster]
    layout = Layout(
        np.cumsum([0, *map(len, site.clusters)]),
        np.array([node.capacity for node in nodes]),
        np.array([bits(node.properties) for node in nodes]),
        np.array(site.limits, np.int64).reshape(len(site.clusters), -1),
    )
    limit, weight = np.full((len(asks), KINDS), NO_LIMIT), np.zeros((len(asks), KINDS), np.int64)
    for row, ask in enumerate(asks):
        for number, amount in ask.weights.items():
            limit[row, number // 2], weight[row, number // 2] = number, amount
    columns = (
        [ask.chunks for ask in asks],
        [ask.each for ask in asks],
        [ask.apart for ask in asks],
        [ask.whole for ask in asks],
        [bits(ask.properties) for ask in asks],
        [bits(ask.clusters) for ask in asks],
    )
    all_rows = Requests(*(np.array(column, np.int64) for column in columns), limit, weight)

    def asked(jobs: pd.DataFrame) -> Requests:
        rows = jobs["job_id"].to_numpy(np.int64) - 1
        return Requests(*(np.ascontiguousarray(column[rows]) for column in all_rows))

    return Described(layout, asked)


def random_stays(rng: np.random.Generator, site: Site, count: int) -> list[Stay]:
    """Jobs that run from 0 on, and planned ones behind them, each where it could start first from a random moment on."""
    stays: list[Stay] = []
    for number in range(count):
        begin = 0 if number < count // 2 else int(rng.integers(1, 30))
        stay = seat(site, stays, random_ask(rng, site), begin, int(rng.integers(1, 20)))
        assert stay is not None
        stays.append(stay)
    return stays


def crowded(
    rng: np.random.Generator, size: int, make: Callable = random_site, ask: Callable = random_ask
) -> tuple[Workload, tuple[Site, list[Ask]], Described]:
    """Draw a site, a crowd of jobs on it, and what they ask of it."""
    site = make(rng)
    asks = [ask(rng, site) for _ in range(size)]
    load, machine = crowd(rng, size=size, machine=16, longest_s=300), described(site, asks)
    return replace(load, procs=[each.chunks * each.each[0] for each in asks], machine=machine.procs), (site, asks), machine
