"""The closed loop in the simulator: against the oracle, and as its own recording."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim import simulate
from sim.policy import SEMANTICS
from tests.oracle.batches import waits
from tests.support.machines import one_node
from tests.support.workloads import Workload, by_kernel, columns, crowd, policy_of, schedulers, workloads

MACHINE = 64
CROWD = crowd(np.random.default_rng(3), 300, MACHINE)


def recorded(load: Workload, scheduler: str = "EASY", **policy: Any) -> Workload:
    """Return the workload with the waits of a schedule, as if that had been recorded."""
    jobs = load.schedule(scheduler, **policy).jobs
    return replace(load, wait=(jobs["start_s"] - jobs["submit_s"]).tolist())


RECORDED = recorded(CROWD)


@pytest.mark.slow
@settings(max_examples=15)
@given(
    workloads(),
    schedulers,
    st.lists(st.integers(0, 90), min_size=30, max_size=30),
    st.sampled_from(SEMANTICS),
)
def test_any_small_workload_of_users_who_react(load: Workload, scheduler: str, wait: list[int], semantics: str) -> None:
    load = replace(load, wait=wait[: len(load.submit)])
    if not any(load.user):
        load = replace(load, user=["ann", *load.user[1:]])
    kernel = by_kernel(load, scheduler, users="closed", semantics=semantics)
    end = np.array(load.submit) + load.wait + load.runtime
    reactions = waits(load.user, load.submit, end.tolist())
    jobs = load.jobs_by_oracle(waits=reactions, **policy_of(scheduler), estimates=load.estimates, semantics=semantics)
    assert (kernel.submit, kernel.start) == ([job.submit for job in jobs], [job.start for job in jobs])


@pytest.mark.parametrize("scheduler", ["EASY", "SPF-JustBF", "Conservative"])
def test_users_who_react_to_the_schedule_they_reacted_to_make_it_again(scheduler: str) -> None:
    schedule = recorded(CROWD, scheduler).schedule(scheduler, users="closed")
    assert columns(schedule) == columns(CROWD.schedule(scheduler))
    assert schedule.jobs["submit_s"].tolist() == CROWD.submit
    assert schedule.users == "closed"


def test_a_faster_machine_is_asked_for_more_by_users_who_react() -> None:
    last = {
        (name, procs): simulate(RECORDED.table(), procs=procs, users=name).jobs["submit_s"].max()
        for name in ("open", "closed")
        for procs in (MACHINE, 2 * MACHINE)
    }
    assert last["open", MACHINE] == last["open", 2 * MACHINE] == RECORDED.submit[-1]
    assert last["closed", 2 * MACHINE] < 0.9 * last["closed", MACHINE]


def test_ends_may_be_those_of_a_scheduler() -> None:
    schedule = CROWD.schedule("EASY", "requested", users="closed(ends=EASY-SJBF)")
    own = recorded(CROWD, "EASY-SJBF", predictor="requested").schedule("EASY", "requested", users="closed")
    assert columns(schedule) == columns(own)


def test_jobs_without_users_are_submitted_as_recorded() -> None:
    load = replace(RECORDED, user=[None, *RECORDED.user[1:150], *[None] * 150])
    submit = load.schedule("SPF-EASY", users="closed").jobs["submit_s"].tolist()
    assert [submit[0], *submit[150:]] == [load.submit[0], *load.submit[150:]]
    assert submit != load.submit


@pytest.mark.parametrize(
    ("load", "complaint"),
    [
        (CROWD, "300 of 300 jobs record no wait, so it is unknown when they ended and what users waited for"),
        (replace(RECORDED, user=[None] * 300), "no job names its user"),
    ],
)
def test_what_is_not_recorded_is_said(load: Workload, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        load.schedule("EASY", users="closed")


def test_a_shaken_closed_loop_moves_think_times_and_comes_back_in_order() -> None:
    by_seed = {seed: RECORDED.schedule("EASY", "last2", users="closed", shake_s=60, seed=seed).jobs for seed in (0, 1)}
    assert by_seed[0]["job_id"].tolist() == by_seed[1]["job_id"].tolist() == RECORDED.table()["job_id"].tolist()
    assert (by_seed[0]["submit_s"] != by_seed[1]["submit_s"]).mean() > 0.9
    pd.testing.assert_frame_equal(by_seed[1], RECORDED.schedule("EASY", "last2", users="closed", shake_s=60, seed=1).jobs)


def test_users_react_on_a_machine_of_clusters_as_on_the_pool() -> None:
    pool = RECORDED.schedule("EASY", users="closed", shake_s=9, seed=2)
    nodes = RECORDED.schedule("EASY", users="closed", shake_s=9, seed=2, machine=one_node(MACHINE))
    assert nodes.jobs["submit_s"].tolist() == pool.jobs["submit_s"].tolist()
    assert columns(nodes) == columns(pool)
