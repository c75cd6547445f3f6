"""The closed loop: its batches as plain Python finds them, its schedules as the oracle's, and as its own recording."""

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
from features.jobs.dependencies import OPEN, Graph
from pipelines.readers.read import read_trace
from sim import simulate
from sim.policy import SEMANTICS
from sim.simulation import user_graph
from sim.users.closed import Facts, facts_of, graph, users
from tests.conftest import SHARED, needs_shared
from tests.oracle.batches import batches as plain_batches
from tests.oracle.batches import waits
from tests.oracle.scheduler import Waits
from tests.support.machines import one_node
from tests.support.workloads import Workload, by_kernel, columns, crowd, policy_of, schedulers, workloads


def waiting(links: Graph) -> list[tuple[list[int], int] | None]:
    """What each job waits for: rows of jobs, and seconds after their last end."""
    parents: list[list[int]] = [[] for _ in links.parents]
    for batch, (first, last) in enumerate(zip(links.first_child, links.last_child, strict=True)):
        for child in links.child[first:last]:
            parents[child] += np.flatnonzero(links.batch == batch).tolist()
    return [
        None if after == OPEN else (sorted(parents[batch]), after)
        for batch, after in zip(links.batch.tolist(), links.after_s.tolist(), strict=True)
    ]


any_jobs = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 1, -1]), st.integers(0, 6), st.integers(1, 40)),
    min_size=1,
    max_size=40,
)
"""User, seconds since the submission before, and from submission to end."""


def counted(by_job: list[Waits | None], user: list, submit: list[int], end: list[int]) -> Facts:
    """The facts as plain Python counts them."""
    jobs = {name: [job for job, other in enumerate(user) if other == name] for name in user if name is not None}
    every = {name: plain_batches(submit, end, mine) for name, mine in jobs.items()}
    of_job = {job: (name, place) for name, mine in every.items() for place, batch in enumerate(mine) for job in batch}
    parents = [0 if each is None else len({of_job[job] for job in each.jobs}) for each in by_job]
    return Facts(
        users=len(jobs),
        batches=sum(map(len, every.values())),
        jobs=len(user),
        unnamed=user.count(None),
        as_recorded=by_job.count(None),
        of_several=sum(number > 1 for number in parents),
    )


@given(any_jobs)
def test_graphs_are_those_of_plain_python(jobs: list[tuple[int, int, int]]) -> None:
    user, gaps, response = (np.array(column) for column in zip(*jobs, strict=True))
    submit = 1000 + np.cumsum(gaps)
    end = submit + response
    links, batched = graph(user, submit, end)
    names = [None if code < 0 else code for code in user.tolist()]
    expected = waits(names, submit.tolist(), end.tolist())
    assert waiting(links) == [None if each is None else (sorted(each.jobs), each.think) for each in expected]
    assert facts_of(links, batched, names.count(None)) == counted(expected, names, submit.tolist(), end.tolist())
    assert all(len(each[0]) > 0 for each in waiting(links) if each is not None)


def recorded_again(links: Graph, submit: np.ndarray, end: np.ndarray) -> list[int]:
    """Submissions in the closed loop where jobs end as recorded, batch by batch."""
    ended = [0] * len(links.parents)
    for batch, at in zip(links.batch.tolist(), end.tolist(), strict=True):
        ended[batch] = max(ended[batch], at)
    released, left = [0] * len(links.parents), links.parents.tolist()
    for batch, (first, last) in enumerate(zip(links.first_child, links.last_child, strict=True)):
        for child in links.child[first:last].tolist():
            released[child], left[child] = max(released[child], ended[batch]), left[child] - 1
    assert not any(left)
    rows = zip(links.batch.tolist(), links.after_s.tolist(), submit.tolist(), strict=True)
    return [at if after == OPEN else released[batch] + after for batch, after, at in rows]


@needs_shared
def test_jobs_that_end_as_recorded_are_submitted_as_recorded_on_all_of_kth_sp2() -> None:
    jobs = clean(read_trace(str(SHARED / "traces" / "KTH-SP2-1996-2.1-cln.swf.gz"))).jobs
    submit = jobs["submit_s"].to_numpy(np.int64)
    end = submit + jobs["wait_s"].to_numpy(np.int64) + jobs["runtime_s"].to_numpy(np.int64)
    links, _ = user_graph(jobs, users("closed"))
    assert (links.after_s == OPEN).mean() < 0.02
    assert recorded_again(links, submit, end) == submit.tolist()


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("shut", "known: open, closed"),
        ("open(session=3)", "takes no options, because submissions are as recorded"),
        ("closed(session=1200)", "unknown option 'session'; known: ends"),
    ],
)
def test_unknown_users_are_refused_by_name(name: str, complaint: str) -> None:
    with pytest.raises(InputError, match="users ") as caught:
        users(name)
    assert complaint in str(caught.value)


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
