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
from tests.oracle.clusters import Ask, Site
from tests.oracle.decisions import Whim
from tests.oracle.harm import starts
from tests.sim.kernel.test_harm import Foggy, Known, named_by, policies, rules
from tests.support.machines import Described, described, one_node, random_ask, random_site
from tests.support.workloads import Workload, columns, crowd


def crowded(seed: int, size: int = 40) -> tuple[Workload, tuple[Site, list[Ask]], Described]:
    """Draw a site, a crowd of jobs on it, and what they ask of it."""
    rng = np.random.default_rng(seed)
    site = random_site(rng)
    asks = [random_ask(rng, site) for _ in range(size)]
    machine = described(site, asks)
    load = crowd(rng, size=size, machine=16, longest_s=300)
    return replace(load, procs=[ask.chunks * ask.each[0] for ask in asks], machine=machine.procs), (site, asks), machine


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 10**9), rules, policies, st.sampled_from(["foggy", None, "requested", "clairvoyant"]))
def test_starts_are_the_oracles(seed: int, rule: Harm, policy: dict, told: str | None) -> None:
    load, on, machine = crowded(seed)
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
