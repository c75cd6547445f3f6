"""Schedules on machines of clusters are the oracle's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.clusters import simulated_on
from tests.support.machines import crowded, random_pools, random_site
from tests.support.workloads import CONSERVATIVE, TABLE_CORRECTIONS, any_scheduler, policy_of


@pytest.mark.slow
@settings(max_examples=10)
@given(
    seed=st.integers(0, 10**9),
    scheduler=st.one_of(any_scheduler, st.sampled_from([CONSERVATIVE, "FCFS-EASY-FCFS"])),
    correction=st.sampled_from(TABLE_CORRECTIONS),
    semantics=st.sampled_from(["per-second", "per-event", "per-second(expiry=pass,every=7)", "per-event(expiry=pass,every=7)"]),
    starvation_s=st.sampled_from([None, None, 5, 50]),
)
def test_schedules_are_the_oracles(seed: int, scheduler: str, **policy: Any) -> None:
    """On clusters with memory, properties, whole nodes and limits."""
    rng = np.random.default_rng(seed)
    load, (site, asks), machine = crowded(rng, 30, random_pools if rng.random() < 0.3 else random_site)
    if scheduler == CONSERVATIVE:
        policy["starvation_s"] = None
    if rng.random() < 0.3:
        load = replace(load, runtime=load.estimates)
    jobs, _ = simulated_on(
        site,
        asks,
        *(load.submit, load.runtime, load.procs, load.requested),
        estimates=load.estimates,
        **policy_of(scheduler),
        **policy,
    )
    schedule = load.schedule(scheduler, machine=machine, **policy)
    assert schedule.jobs[["start_s", "end_s", "corrections"]].to_numpy().tolist() == [
        [job.start, job.end, job.corrections] for job in jobs
    ]
