"""Policies from outside make the schedules that the same decisions make inside; wrong decisions are told."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim import Campaign, View, decide, evaluate, run_campaign, simulate
from tests.conftest import needs_shared
from tests.oracle.scheduler import Job, Simulation
from tests.sim.test_published import reference
from tests.support.machines import crowded, one_node
from tests.support.workloads import (
    TABLE_CORRECTIONS,
    Moody,
    Workload,
    columns,
    crowd,
    dependent_workloads,
    policy_of,
    source_of,
    workloads,
)

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "easy_policy.py"
SEMANTICS = st.sampled_from(["per-second", "per-event", "per-second(expiry=pass)", "per-event(expiry=pass,every=30)"])
Seen = list[tuple[int, int, list[int], list[tuple[int, int]]]]


EASY = runpy.run_path(str(EXAMPLE))["easy"]


def decided(load: Workload, policy: Any, predictor: Any = None, machine: Any = None, **given: Any) -> Any:
    source = load.estimates if predictor is None else predictor
    return columns(decide(load.table(), load.machine if machine is None else machine, policy, predictor=source, **given))


@needs_shared
@pytest.mark.slow
def test_the_example_is_easy_on_kth_sp2_to_every_start_and_the_published_slowdown() -> None:
    table, jobs = reference("kth-sp2-per-second")
    schedule = decide(jobs, 100, EASY)
    assert (schedule.jobs["start_s"].to_numpy() == table["start_easy_requested"].to_numpy()).sum() == 28_481
    assert round(evaluate(schedule)["mean_bounded_slowdown"], 4) == 92.6877
    assert schedule.scheduler == "easy"


@settings(max_examples=15)
@given(dependent_workloads(), st.sampled_from([None, "requested", "last2"]), st.sampled_from(TABLE_CORRECTIONS), st.booleans())
def test_the_example_is_easy_on_any_workload(load: Workload, predictor: str | None, correction: str, dependencies: bool) -> None:
    policy: dict[str, Any] = {"correction": correction, "dependencies": dependencies}
    assert decided(load, EASY, predictor, **policy) == columns(load.schedule("EASY", predictor, **policy))


@settings(max_examples=10)
@given(workloads(), st.integers(0, 9))
def test_a_predictor_in_python_is_asked_and_told_as_ever(load: Workload, seed: int) -> None:
    policy = {"correction": "conditional"}
    assert decided(load, EASY, Moody(seed), **policy) == columns(load.schedule("EASY", Moody(seed), **policy))


class Whim:
    """Start what fits, or not, in any order; something where nothing runs. It depends on seed, job and time alone."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.seen: Seen = []

    def choose(
        self, now: int, free: int, machine: int, waiting: list[tuple[int, int]], running: list[tuple[int, int]]
    ) -> list[int]:
        """Return which of ``waiting``, pairs of job and processors, start; ``running`` are jobs and their predicted ends."""
        self.seen.append((now, free, [job for job, _ in waiting], sorted(running)))
        drawn = sorted((crc32(repr((self._seed, job, now)).encode()), job, procs) for job, procs in waiting)
        started = []
        for number, job, procs in drawn:
            if procs <= free and (number % 3 == 0 or free == machine):
                started.append(job)
                free -= procs
        return started

    def __call__(self, view: View) -> list[Any]:
        by_id = {job.job_id: job for job in view.queue}
        running = [(each.job.job_id, each.until_s) for each in view.running if each.until_s > view.now_s]
        waiting = [(job.job_id, job.procs) for job in view.queue]
        return [by_id[job] for job in self.choose(view.now_s, view.free, view.procs, waiting, running)]


class Whimsical(Simulation):
    """The oracle, ruled by a whim."""

    def __init__(self, *given: Any, whim: Whim, **named: Any) -> None:
        super().__init__(*given, **named)
        self._whim = whim

    def nothing_fits(self, now: int) -> bool:
        return not self.waiting or self.free(now) == 0

    def chosen(self, now: int, queue: list[Job], rank: Callable) -> list[Job]:
        by_id = {job.index + 1: job for job in sorted(queue, key=lambda job: job.arrival)}
        running = [(job.index + 1, job.predicted_end) for job in self.running if job.predicted_end > now]
        waiting = [(number, job.procs) for number, job in by_id.items()]
        return [by_id[job] for job in self._whim.choose(now, self.free(now), self.machine, waiting, running)]


@pytest.mark.slow
@settings(max_examples=15)
@given(dependent_workloads(), st.integers(0, 99), SEMANTICS, st.sampled_from(TABLE_CORRECTIONS), st.booleans())
def test_any_decision_is_carried_out_and_sees_what_the_oracle_sees(
    load: Workload, seed: int, semantics: str, correction: str, dependencies: bool
) -> None:
    policy = {"semantics": semantics, "correction": correction, "dependencies": dependencies}
    ours, its = Whim(seed), Whim(seed)
    simulation = partial(Whimsical, whim=its)
    jobs = load.jobs_by_oracle(**policy_of("FCFS-List"), **source_of(load, None), **policy, simulation=simulation)
    wanted = [job.start for job in jobs], [job.order_s for job in jobs], [job.corrections for job in jobs]
    assert decided(load, ours, **policy) == wanted
    assert ours.seen == its.seen


def first_that_fits(view: View) -> list[Any]:
    return [job for job in view.queue if view.fits(job)][:1]


def in_the_last_cluster(view: View) -> list[Any]:
    return [(job, cluster) for job in view.queue for cluster in (2, 1, 0) if view.fits(job, cluster)][:1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_on_clusters_a_policy_starts_what_fits_where_it_says(seed: int) -> None:
    load, _, machine = crowded(np.random.default_rng(seed), 40)
    assert decided(load, first_that_fits, machine=machine) == columns(load.schedule("List", machine=machine))
    elsewhere = decide(load.table(), machine, in_the_last_cluster)
    assert (elsewhere.jobs["start_s"] >= elsewhere.jobs["submit_s"]).all()


def test_one_node_is_a_pool_to_the_example() -> None:
    load = crowd(np.random.default_rng(1), machine=16)
    assert decided(load, EASY, machine=one_node(16)) == decided(load, EASY)


FOUR = Workload(4, [0, 0, 1, 9], [5, 5, 5, 5], [2, 1, 4, 1], [5, 5, 5, 5], ["a", None, "a", "b"], [5, 5, 5, 5])


class Keeps:
    """Start the first job of all, again and again."""

    first: Any = None

    def __call__(self, view: View) -> list[Any]:
        self.first = self.first or view.queue[0]
        return [self.first]


WRONG = {
    "twice": (lambda view: [view.queue[0], view.queue[0]], "at second 0: starts job 1 twice"),
    "too wide": (lambda view: view.queue[::-1], "at second 1: starts job 3, which needs 4 processors, and 1 are free"),
    "started": (Keeps(), "starts job 1, which does not wait: it has started at second 0"),
    "number": (lambda view: [0], "returns 0, which is neither a job of view.queue nor a (job, cluster)"),
    "none": (lambda view: None, "returns None instead of a list of jobs to start now"),
    "elsewhere": (lambda view: [(view.queue[0], 1)], "at second 0: starts job 1, which does not fit in cluster 1 now"),
    "nothing": (lambda view: [], "4 jobs never start, the first of them is job 1"),
    "one alone": (lambda view: [job for job in view.queue if job.procs == 4 == view.free], "3 jobs never start"),
}


@pytest.mark.parametrize("slip", WRONG)
def test_a_wrong_decision_is_told_with_its_time_and_job(slip: str) -> None:
    policy, error = WRONG[slip]
    for semantics in ("per-second", "per-event(every=7)"):
        with pytest.raises(InputError) as caught:
            decide(FOUR.table(), 4, policy, name="mine", semantics=semantics)
        assert str(caught.value).startswith("policy mine")
        assert error in str(caught.value)


def test_what_is_no_policy_and_what_decides_already_is_refused() -> None:
    with pytest.raises(InputError, match="a str is not a policy: give a function of a view"):
        decide(FOUR.table(), 4, "EASY")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="procs is '4', not a whole number"):
        decide(FOUR.table(), "4", EASY)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="decide takes no starvation_s: the policy decides which jobs start"):
        decide(FOUR.table(), 4, EASY, starvation_s=3)
    with pytest.raises(InputError, match="and mine takes no starvation_s"):
        run_campaign(FOUR.table(), Campaign(schedulers=("mine",), starvation_s=(None, 3)), procs=4, deciders={"mine": lambda: None})  # type: ignore[arg-type,return-value]
    assert Campaign(schedulers=("mine", "Harm"), replicates=2).drawn == (0, 1)


def test_a_policy_sees_no_runtime_and_no_job_before_its_submission() -> None:
    submitted: list[int] = []

    def look(view: View) -> list[Any]:
        submitted.extend(job.submit_s - view.now_s for job in view.queue)
        assert all(job.end_s == job.requested_s for job in view.queue)
        assert "runtime" not in " ".join((*dir(view.queue[0]), *dir(view)))
        return EASY(view)  # type: ignore[no-any-return]

    load = crowd(np.random.default_rng(0), size=60)
    decide(load.table(), load.machine, look)
    assert max(submitted) == 0


def test_users_who_react_and_moved_submissions_are_those_of_simulate() -> None:
    load = crowd(np.random.default_rng(2), size=80)
    given: dict[str, Any] = {"users": "closed(ends=EASY)", "load": 1.5}
    for each in (given, {"shake_s": 60, "seed": 3}):
        wanted = simulate(load.table(), procs=load.machine, **each)
        assert decide(load.table(), load.machine, EASY, **each).jobs["start_s"].tolist() == wanted.jobs["start_s"].tolist()
