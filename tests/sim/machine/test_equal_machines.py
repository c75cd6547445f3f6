"""A pool, as many nodes of one processor, and one node with all processors are the same machine: the same starts under every scheduler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import decide, simulate
from sim.machine.description import Cluster, Limit, Machine, NodeGroup
from sim.policy import SEMANTICS
from tests.support.machines import nodes_of_one, one_node
from tests.support.workloads import (
    CONSERVATIVE,
    TABLE_CORRECTIONS,
    Workload,
    any_scheduler,
    columns,
    crowd,
    dependent_workloads,
    mixed,
)

SCORES = ["SCORE(r*n-free-queue*wait)-EASY-SPF", "SCORE(wait*n-demand)-JustBF", "SCORE(r*n-free)-EASY(reservations=2)-SCORE(wait)"]
PLANNERS = ["PlanRS(iterations=3)", "OrigBF", "OrigBF(reservations=anew)"]


@pytest.mark.slow
@settings(max_examples=12)
@given(
    load=dependent_workloads(),
    scheduler=st.one_of(any_scheduler, st.just(CONSERVATIVE), mixed, st.sampled_from([*SCORES, *PLANNERS, "Harm"])),
    semantics=st.sampled_from([*SEMANTICS, "per-second(expiry=pass,every=7)"]),
    correction=st.sampled_from(TABLE_CORRECTIONS),
    starvation_s=st.sampled_from([None, 5, 50]),
    dependencies=st.booleans(),
)
def test_every_scheduler_starts_the_same_jobs_on_equal_machines(load: Workload, scheduler: str, **policy: Any) -> None:
    if scheduler.startswith(("FCFS-Conservative", *PLANNERS)):
        policy["starvation_s"] = None
    if scheduler == "Harm":
        policy["correction"] = "requested"
    predictor = "requested" if scheduler == "Harm" else None
    pool = load.schedule(scheduler, predictor, **policy)
    for machine in (one_node(load.machine), nodes_of_one(load.machine)):
        assert columns(load.schedule(scheduler, predictor, machine=machine, **policy)) == columns(pool)


@pytest.mark.parametrize("predictor", ["last2", "sp2"])
def test_predictors_are_told_the_same_on_equal_machines(predictor: str) -> None:
    load = crowd(np.random.default_rng(3), size=150)
    policy: dict[str, Any] = {"predictor": predictor, "correction": "conditional"}
    pool = load.schedule("SAF-EASY-SPF", **policy)
    for machine in (one_node(load.machine), nodes_of_one(load.machine)):
        assert columns(load.schedule("SAF-EASY-SPF", machine=machine, **policy)) == columns(pool)


@pytest.mark.thorough
def test_a_policy_of_ones_own_sees_equal_machines() -> None:
    load = crowd(np.random.default_rng(3), size=100, machine=16)
    starts = [
        decide(load.table(), machine, lambda view: [job for job in view.queue if view.fits(job)][-1:]).jobs["start_s"].tolist()
        for machine in (one_node(16), nodes_of_one(16))
    ]
    assert starts[0] == starts[1]


def test_nodes_of_one_with_a_request_for_nodes_memory_and_limits_are_a_pool_too() -> None:
    """Memory and whole nodes bind no job that gets a processor of its own; limits hold as on one node."""
    load = crowd(np.random.default_rng(7), size=120, machine=16)
    table = load.table().assign(
        nodes=pd.array(load.procs, "Int64"),
        memory_kib=pd.array(load.procs, "Int64"),
        exclusive=pd.array([1, 0] * 60, "Int64"),
    )
    limit = (Limit("user", "processors", 12),)
    small = Machine("small", (Cluster("all", (NodeGroup(16, 1, memory_kib=2),)),), limit)
    large = Machine("large", (Cluster("all", (NodeGroup(1, 16, memory_kib=32),)),), limit)
    plain = table.drop(columns=["nodes", "exclusive"])
    plain = plain[plain["procs"] <= 12]
    for scheduler in ("EASY", "JustBF", "Conservative"):
        schedules = [
            simulate(jobs, scheduler=scheduler, machine=machine)
            for jobs, machine in ((table.loc[plain.index], small), (plain, large))
        ]
        assert schedules[0].jobs["start_s"].tolist() == schedules[1].jobs["start_s"].tolist()
