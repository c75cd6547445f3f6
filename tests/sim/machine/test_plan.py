"""The gap search over a plan of clusters, against one that looks at every moment."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.inputs.planner import no_planner
from sim.kernel.clusters import Clusters
from sim.kernel.scratch import Scratch
from sim.machine.nodes import change
from sim.machine.plan import COMES, LEAVES, NO_START, insert, reserve, seat, withdraw
from tests.oracle import clusters as oracle
from tests.support.machines import Described, described, random_ask, random_site, random_stays

NOW = 0


def fresh(machine: Described, table: pd.DataFrame) -> Clusters:
    """The machine with nothing on it."""
    nodes = Scratch().nodes(machine.layout(), machine.requests(table), np.arange(len(table)))
    return Scratch().clusters(nodes, no_planner(nodes), two=False)


@pytest.mark.slow
@settings(max_examples=30)
@given(seed=st.integers(0, 10**9))
def test_the_earliest_gap_and_its_nodes_are_those_of_a_search_through_all_moments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    site = random_site(rng)
    stays = random_stays(rng, site, int(rng.integers(0, 14)))
    withdrawn = [stay for stay in stays if stay.start > NOW and rng.random() < 0.2]
    asks = [*(stay.ask for stay in stays), *(random_ask(rng, site) for _ in range(4))]
    machine = described(site, asks)
    table = pd.DataFrame({"job_id": np.arange(1, len(asks) + 1)})
    clusters = fresh(machine, table)
    nodes, plan = clusters.nodes, clusters.plan
    for row, stay in enumerate(stays):
        nodes.cluster[row], nodes.held[row] = stay.cluster, len(stay.chunks)
        for at, (node, chunks) in enumerate(stay.chunks.items(), nodes.begin[row]):
            nodes.node[at], nodes.chunk[at] = nodes.first[stay.cluster] + node, chunks
        if stay.start == NOW:
            change(row, -1, nodes, nodes.free, nodes.left)
            insert(row, stay.end, LEAVES, stay.cluster, plan)
        else:
            reserve(row, stay.start, stay.end - stay.start, nodes, plan)
    for row, stay in enumerate(stays):
        if stay in withdrawn:
            withdraw(row, stay.start, stay.end - stay.start, nodes, plan)
    for cluster in range(len(site.clusters)):
        assert (np.diff(plan.when[cluster, : plan.size[cluster]]) >= 0).all()
    there = [stay for stay in stays if stay not in withdrawn]
    for row in range(len(stays), len(asks)):
        begin, seconds = int(rng.integers(NOW, 12)), int(rng.integers(1, 25))
        expected = oracle.seat(site, there, asks[row], begin, seconds)
        assert expected is not None
        assert seat(row, seconds, begin, NO_START, nodes, plan) == expected.start
        latest = int(rng.integers(begin, begin + 20))
        if expected.start > latest:
            assert seat(row, seconds, begin, latest, nodes, plan) == NO_START
            continue
        chosen = range(nodes.begin[row], nodes.begin[row] + nodes.held[row])
        first = nodes.first[nodes.cluster[row]]
        assert (nodes.cluster[row], {nodes.node[at] - first: nodes.chunk[at] for at in chosen}) == (
            expected.cluster,
            expected.chunks,
        )


def test_a_job_that_may_run_nowhere_has_no_start() -> None:
    site = oracle.Site([[oracle.Node((4,))]], [[]])
    machine = described(site, [oracle.Ask(1, (2,), clusters=frozenset())])
    clusters = fresh(machine, pd.DataFrame({"job_id": [1]}))
    assert seat(0, 10, NOW, NO_START, clusters.nodes, clusters.plan) == NO_START
    assert COMES > LEAVES  # the order of events at one moment
