"""Schedules on machines of clusters are the oracle's: with memory, properties, whole nodes and limits, in all orders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.clusters import simulated_on
from tests.support.machines import described, random_ask, random_site
from tests.support.workloads import EASY_NAMES, TABLE_CORRECTIONS, columns, crowd, policy_of, schedulers

SEVERAL = st.builds(lambda k, name: name.replace("EASY", f"EASY(reservations={k})"), st.integers(2, 4), st.sampled_from(EASY_NAMES))
SCHEDULERS = st.one_of(schedulers, SEVERAL, st.sampled_from(["FCFS-Conservative", "FCFS-EASY-FCFS"]))
SEMANTICS = ["per-second", "per-event", "per-second(expiry=pass,every=7)", "per-event(expiry=pass,every=7)"]


@pytest.mark.slow
@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**9),
    scheduler=SCHEDULERS,
    correction=st.sampled_from(TABLE_CORRECTIONS),
    semantics=st.sampled_from(SEMANTICS),
    starvation_s=st.sampled_from([None, None, 5, 50]),
)
def test_schedules_are_the_oracles(seed: int, scheduler: str, starvation_s: int | None, **policy: Any) -> None:
    rng = np.random.default_rng(seed)
    site = random_site(rng)
    asks = [random_ask(rng, site) for _ in range(30)]
    load = crowd(rng, size=30, machine=16, longest_s=300)
    load = replace(load, procs=[ask.chunks * ask.each[0] for ask in asks], machine=described(site, asks).procs)
    if rng.random() < 0.3:
        load = replace(load, runtime=load.estimates)
    if "Conservative" not in scheduler:
        policy["starvation_s"] = starvation_s
    jobs, _ = simulated_on(
        site,
        asks,
        *(load.submit, load.runtime, load.procs, load.requested),
        estimates=load.estimates,
        **policy_of(scheduler),
        **policy,
    )
    starts = columns(load.schedule(scheduler, machine=described(site, asks), **policy))[0]
    assert starts == [job.start for job in jobs]
