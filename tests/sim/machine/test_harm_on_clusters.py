"""``Harm`` on machines of clusters: the oracle's starts, and on one cluster of one node those of the pool."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from features.jobs.cleaning import clean
from models.runtime.remaining import LEVELS
from pipelines.ingest.read import read_trace
from sim import simulate
from sim.harm import Harm
from sim.machine.failures import Failures
from tests.conftest import SHARED, needs_shared
from tests.oracle.clusters import Ask, Node, Site
from tests.oracle.decisions import Whim
from tests.oracle.harm import starts
from tests.sim.kernel.test_harm import Foggy, Known, named_by, policies, rules
from tests.support.machines import KINDS, Described, described, one_node, random_ask, random_site
from tests.support.workloads import Workload, columns, crowd


def wide_site(rng: np.random.Generator) -> Site:
    """Draw up to two clusters of many equal nodes, without limits."""
    return Site([[Node((4, 8))] * int(rng.integers(8, 17)) for _ in range(rng.integers(1, 3))], [[9] * 2 * KINDS] * 2)


def wide_ask(rng: np.random.Generator, site: Site) -> Ask:
    """Draw what a job asks for that may hold many nodes, alone or beside others; few count for a limit."""
    chunks, each = int(rng.choice([1, 2, 4, 6, 8])), (int(rng.choice([1, 2, 3, 4])), int(rng.choice([0, 1, 2])))
    weights = {0: 1} if rng.random() < 0.1 else {}
    clusters = frozenset(range(len(site.clusters)))
    return Ask(chunks, each, bool(rng.random() < 0.7), bool(rng.random() < 0.2), clusters=clusters, weights=weights)


def crowded(seed: int, size: int = 40, wide: bool = False) -> tuple[Workload, tuple[Site, list[Ask]], Described]:
    """Draw a site, a crowd of jobs on it, and what they ask of it."""
    rng = np.random.default_rng(seed)
    site = wide_site(rng) if wide else random_site(rng)
    asks = [(wide_ask if wide else random_ask)(rng, site) for _ in range(size)]
    machine = described(site, asks)
    load = crowd(rng, size=size, machine=16, longest_s=300)
    return replace(load, procs=[ask.chunks * ask.each[0] for ask in asks], machine=machine.procs), (site, asks), machine


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 10**9), rules, policies, st.sampled_from(["foggy", None, "requested", "clairvoyant"]), st.booleans())
def test_starts_are_the_oracles(seed: int, rule: Harm, policy: dict, told: str | None, wide: bool) -> None:
    load, on, machine = crowded(seed, wide=wide)
    kernel, oracle = (Foggy(), Foggy()) if told == "foggy" else (told, told)
    made = load.schedule(named_by(rule), kernel, machine=machine, **policy).jobs["start_s"].tolist()
    assert made == starts(load, rule, oracle, on=on, **policy)


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 10**9), rules, policies, st.integers(0, 99), st.integers(0, 4))
def test_start_decisions(seed: int, rule: Harm, policy: dict, whim: int, skips: int) -> None:
    load, on, machine = crowded(seed, size=25)
    heard, told = Whim(whim), Whim(whim)
    made = load.schedule(f"{named_by(rule)}+RUSH(skips={skips})", machine=machine, start_decision=heard, **policy)
    assert made.jobs["start_s"].tolist() == starts(load, rule, on=on, decision=told, skips=skips, **policy)
    assert heard.said == told.said


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(0, 10**6), rules, policies, st.booleans())
def test_one_node_is_the_pool(seed: int, rule: Harm, policy: dict, exact: bool) -> None:
    load = crowd(np.random.default_rng(seed), size=80)
    predictor = None if exact else Known(np.outer(load.requested, LEVELS))
    pooled = load.schedule(named_by(rule), predictor, **policy)
    assert columns(load.schedule(named_by(rule), predictor, machine=one_node(load.machine), **policy)) == columns(pooled)


@needs_shared
@pytest.mark.parametrize("predictor", ["requested", "clairvoyant", "prior"])
def test_kth_sp2_on_one_node_is_kth_sp2(predictor: str) -> None:
    jobs = clean(read_trace(SHARED / "traces" / "KTH-SP2-1996-2.swf.gz", procs=100), 100, "drop").jobs[:5000]
    made: list[Any] = [
        simulate(jobs, procs=100, scheduler="Harm", predictor=predictor, machine=each) for each in (None, one_node(100))
    ]
    pd.testing.assert_frame_equal(made[1].jobs, made[0].jobs)


def test_nodes_that_fail_are_refused() -> None:
    load, _, machine = crowded(1, size=5)
    with pytest.raises(InputError, match="Harm': foresees no nodes that fail"):
        load.schedule("Harm", machine=machine, failures=Failures(*(np.array([0]) for _ in range(3)), np.array([False])))
