"""Schedules on machines of clusters are the oracle's, also where nodes go and come back; what no node is left for is counted and named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim import Schedule
from sim.machine.failures import failures
from tests.oracle.clusters import Ask, Node, Site, simulated_on
from tests.support.machines import Outages, crowded, described, given_as, random_outages, random_pools, random_site
from tests.support.workloads import CONSERVATIVE, TABLE_CORRECTIONS, Workload, any_scheduler, crowd, policy_of


@pytest.mark.slow
@settings(max_examples=10)
@given(
    seed=st.integers(0, 10**9),
    scheduler=st.one_of(any_scheduler, st.sampled_from([CONSERVATIVE, "FCFS-EASY-FCFS"])),
    correction=st.sampled_from(TABLE_CORRECTIONS),
    semantics=st.sampled_from(["per-second", "per-event", "per-second(expiry=pass,every=7)", "per-event(expiry=pass,every=7)"]),
    starvation_s=st.sampled_from([None, None, 5, 50]),
    loses=st.booleans(),
)
def test_schedules_are_the_oracles(seed: int, scheduler: str, loses: bool, **policy: Any) -> None:
    """On clusters with memory, properties, whole nodes and limits, where nodes go and come back, or none does."""
    rng = np.random.default_rng(seed)
    load, (site, asks), machine = crowded(rng, 30, random_pools if rng.random() < 0.3 else random_site)
    outages = random_outages(rng, site, load.submit[-1], 8) if policy["semantics"].startswith("per-second") else []
    if scheduler == CONSERVATIVE or outages:
        policy["starvation_s"] = None
    if rng.random() < 0.3:
        load = replace(load, runtime=load.estimates)
    jobs, state = simulated_on(
        site,
        asks,
        *(load.submit, load.runtime, load.procs, load.requested),
        estimates=load.estimates,
        outages=outages,
        loses=loses,
        **policy_of(scheduler),
        **policy,
    )
    going = {"failures": given_as(outages, "lost" if loses else "requeued")} if outages else {}
    schedule = load.schedule(scheduler, machine=machine, **going, **policy)
    started = [job for job in jobs if job.start >= 0]
    assert schedule.jobs["job_id"].tolist() == [job.index + 1 for job in started]
    assert schedule.jobs[["start_s", "end_s", "corrections"]].to_numpy().tolist() == [
        [job.start, job.end, job.corrections] for job in started
    ]
    assert schedule.never_started == tuple(job.index + 1 for job in jobs if job.start < 0)
    assert (schedule.lost, schedule.requeued) == ((len(state.evicted), 0) if loses else (0, len(state.evicted)))


TWO = Site([[Node((4,)), Node((4,))], [Node((2,))]], [[], []])


def on_two(outages: Outages, scheduler: str, jobs: str = "requeued", **policy: Any) -> Schedule:
    """A (3 processors, 100 s) comes at 0, B (3, 100 s) at 10, C (2, 10 s) at 50; only the first cluster can hold A and B."""
    load = Workload(10, [0, 10, 50], [100, 100, 10], [3, 3, 2], [100, 100, 10], [None] * 3, [100, 100, 10])
    asks = [Ask(1, (procs,), clusters=frozenset({0, 1})) for procs in load.procs]
    return load.schedule(scheduler, machine=described(TWO, asks), failures=given_as(outages, jobs), **policy)


@pytest.mark.parametrize(
    "scheduler", ["EASY", "JustBF", "Conservative", "List", "EASY(reservations=2)", "PlanRS(iterations=0)", "OrigBF"]
)
@pytest.mark.parametrize("semantics", ["per-second", "per-event", "per-second(every=30)"])
def test_where_a_cluster_disappears_for_good_jobs_that_it_alone_can_hold_never_start(scheduler: str, semantics: str) -> None:
    # A and B lose their nodes at 20 and 30 and no other can hold them; C runs in the second cluster.
    schedule = on_two([(20, 0, 0, False), (30, 0, 1, False)], scheduler, semantics=semantics)
    assert (schedule.jobs["job_id"].tolist(), schedule.jobs["start_s"].tolist()) == ([3], [50])
    assert (schedule.never_started, schedule.requeued, schedule.lost) == ((1, 2), 2, 0)
    # With the first node back at 200 they start there, one after the other.
    schedule = on_two([(20, 0, 0, False), (30, 0, 1, False), (200, 0, 0, True)], scheduler, semantics=semantics)
    assert (schedule.jobs["start_s"].tolist(), schedule.never_started) == ([200, 300, 50], ())


def test_lost_jobs_end_with_their_node_and_give_back_what_they_held() -> None:
    schedule = on_two([(20, 0, 0, False)], "EASY", "lost")
    assert schedule.jobs[["start_s", "end_s", "runtime_s"]].to_numpy().tolist() == [[0, 20, 20], [10, 110, 100], [50, 60, 10]]
    assert (schedule.lost, schedule.requeued, schedule.never_started) == (1, 0, ())


@pytest.mark.parametrize(
    ("table", "refusal"),
    [
        ({"time_s": [1], "cluster": [0], "node": [0]}, "no column up"),
        ({"time_s": [1.5], "cluster": [0], "node": [0], "up": [0]}, "time_s of failure 1 is 1.5"),
        (
            {"time_s": [1], "cluster": [0], "node": [2], "up": [0]},
            "is of node 2 of cluster 0, and the machine has 2 clusters of 2, 1 nodes",
        ),
        ({"time_s": [1, 1], "cluster": [0, 3], "node": [0, 0], "up": [0, 0]}, "failure 2 is of node 0 of cluster 3"),
        ({"time_s": [1], "cluster": [0], "node": [0], "up": [2]}, "up of failure 1 is 2"),
    ],
)
def test_failures_that_cannot_be_are_one_line(table: dict[str, list], refusal: str) -> None:
    load = crowd(np.random.default_rng(1), size=3, machine=10)
    with pytest.raises(InputError, match=refusal):
        load.schedule("EASY", machine=described(TWO, [Ask(1, (1,))] * 3), failures=failures(pd.DataFrame(table)))
