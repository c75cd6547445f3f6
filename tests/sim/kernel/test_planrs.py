"""PlanRS against its oracle, job by job, and against Conservative backfilling."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim.schedulers.names import scheduler as named
from sim.schedulers.planning import PlanRS
from sim.simulation import simulate
from tests.oracle.clusters import Ask, Node, Site
from tests.oracle.planning import OrigBackfill, Planning
from tests.support.machines import crowded, described, given_as, random_ask, random_outages, random_site
from tests.support.workloads import Workload, columns, crowd, dependent_crowd

OPTIONS = {
    "preset": ["paper", "program"],
    "per": ["search", "cluster"],
    "interval": [1, 7, 60],
    "spread": ["sum", "squares"],
    "width": ["none", "sqrt"],
    "usage": ["mean", "larger", "procs"],
    "least": [1, 3600],
    "fairness": [0, 1, 10],
    "bound": [0, 10],
}


def starts_by_oracle(load: Workload, scheduler: str, seed: int = 0, on: Any = None, outages: Any = (), **policy: Any) -> list[int]:
    """The oracle's starts; ``on`` a site with what jobs ask of it, or one pool. Jobs that never start are left out."""
    site, asks = on or (Site([[Node((load.machine,))]]), [Ask(1, (procs,)) for procs in load.procs])
    rule = named(scheduler)
    there = {"site": site, "asks": asks, "outages": list(outages), "may_leave_waiting": bool(outages)}
    simulation = partial(Planning, rule=rule.plan_rs, seed=seed, **there)
    if rule.orig_bf is not None:
        simulation = partial(OrigBackfill, rule=rule.orig_bf, **there)
    starts = load.by_oracle(simulation=simulation, **{"estimates": load.estimates, "algorithm": rule.algorithm} | policy)[0]
    return [start for start in starts if start >= 0]


BACKFILLING = {
    **{"queues": ["walltime", "one"], "priority": ["short", "long"], "reorder": [0, 100], "reservations": ["anew", "kept"]},
    **{"threshold": [0, 50], "decay": [0, 0.01]},
}


def some_policy(rng: np.random.Generator) -> dict[str, Any]:
    return {"semantics": str(rng.choice(["per-second", "per-event", "per-second(every=7)"]))}


def some_name(rng: np.random.Generator) -> str:
    """PlanRS with about half of its options stated."""
    options = {option: rng.choice(values) for option, values in OPTIONS.items() if rng.random() < 0.4}
    return f"PlanRS(iterations={rng.choice([0, 5, 12])}{''.join(f',{option}={value}' for option, value in options.items())})"


@pytest.mark.slow
@settings(max_examples=12)
@given(seed=st.integers(0, 10**9))
def test_a_pool_is_planned_as_the_oracle_plans_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    make = dependent_crowd if rng.random() < 0.3 else crowd
    load = make(rng, size=int(rng.integers(1, 30)), machine=int(rng.choice([4, 12, 64])))
    load = replace(load, user=[user if rng.random() < 0.8 else None for user in load.user])
    scheduler, policy = some_name(rng), some_policy(rng) | {"dependencies": bool(load.preceding)}
    drawn = seed if named(scheduler).draws else 0
    schedule = load.schedule(scheduler, seed=drawn, **policy)
    assert schedule.jobs["start_s"].tolist() == starts_by_oracle(load, scheduler, drawn, **policy)


@pytest.mark.slow
@settings(max_examples=10)
@given(seed=st.integers(0, 10**9))
def test_queues_are_backfilled_by_fair_share_as_the_oracle_does_it(seed: int) -> None:
    """On a pool, and on clusters."""
    rng = np.random.default_rng(seed)
    load = crowd(rng, size=int(rng.integers(1, 40)), machine=int(rng.choice([4, 12, 64])), longest_s=int(rng.choice([300, 9000])))
    on, machine, outages = None, {}, []
    if rng.random() < 0.5:
        site = random_site(rng)
        on = site, [random_ask(rng, site) for _ in load.submit]
        machine["machine"], outages = described(*on), random_outages(rng, site, load.submit[-1])
        load = replace(load, procs=[ask.chunks * ask.each[0] for ask in on[1]], machine=machine["machine"].procs)
    options = ",".join(f"{option}={rng.choice(values)}" for option, values in BACKFILLING.items())
    policy = some_policy(rng) if not outages else {"semantics": "per-second"}
    schedule = load.schedule(f"OrigBF({options})", failures=given_as(outages), **machine, **policy)
    assert schedule.jobs["start_s"].tolist() == starts_by_oracle(load, f"OrigBF({options})", on=on, outages=outages, **policy)


@pytest.mark.parametrize(
    ("scheduler", "starts"),
    [
        ("OrigBF", [0, 100, 7300]),
        ("OrigBF(reservations=kept)", [0, 100, 7300]),
        ("OrigBF(reservations=anew)", [0, 200, 100]),
    ],
)
def test_by_default_a_reservation_survives_jobs_of_a_queue_that_comes_first(scheduler: str, starts: list[int]) -> None:
    # The second job asks for two hours and is promised the end of the first; the third asks for less, so that its queue comes first.
    load = Workload(2, [0, 10, 20], [100, 7200, 100], [2, 2, 2], [100, 7200, 100], ["a", "a", "b"], [100, 7200, 100])
    assert load.schedule(scheduler).jobs["start_s"].tolist() == starts == starts_by_oracle(load, scheduler)


@pytest.mark.thorough
@pytest.mark.slow
@settings(max_examples=12)
@given(seed=st.integers(0, 10**9))
@example(seed=39798)  # nodes go before the first submission
def test_clusters_are_planned_as_the_oracle_plans_them(seed: int) -> None:
    """With memory, properties, whole nodes, limits and nodes that go; jobs move between clusters."""
    rng = np.random.default_rng(seed)
    load, (site, asks), machine = crowded(rng, 20)
    scheduler, outages = some_name(rng), random_outages(rng, site, load.submit[-1])
    policy = some_policy(rng) if not outages else {"semantics": "per-second"}
    drawn = seed if named(scheduler).draws else 0
    schedule = load.schedule(scheduler, machine=machine, seed=drawn, failures=given_as(outages), **policy)
    assert schedule.jobs["start_s"].tolist() == starts_by_oracle(load, scheduler, drawn, (site, asks), outages, **policy)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**9))
def test_without_search_and_with_exact_estimates_it_is_conservative(seed: int) -> None:
    load = crowd(np.random.default_rng(seed), size=80)
    planned, conservative = (load.schedule(name, "clairvoyant") for name in ("PlanRS(iterations=0)", "Conservative"))
    assert columns(planned) == columns(conservative)


@pytest.mark.parametrize("scheduler", ["PlanRS(interval=1)", "OrigBF", "SAF-JustBF", "Conservative"])
def test_what_was_planned_is_told(scheduler: str) -> None:
    """The first row of a job is of its submission, and the last is its start; schedules are what they are untold."""
    load = crowd(np.random.default_rng(3), size=60)
    planned, untold = load.schedule(scheduler, plans=True), load.schedule(scheduler)
    plans, jobs = planned.plans, planned.jobs.set_index("job_id")
    assert plans is not None
    assert untold.plans is None
    assert columns(planned) == columns(untold)
    assert plans["time_s"].is_monotonic_increasing
    first, last = (plans.drop_duplicates("job_id", keep=keep).set_index("job_id") for keep in ("first", "last"))
    assert first["time_s"].to_dict() == jobs["submit_s"].to_dict()
    assert last["planned_start_s"].to_dict() == jobs["start_s"].to_dict()
    assert not plans.duplicated(["job_id", "time_s"]).any()
    changes = plans.groupby("job_id")["planned_start_s"].diff()
    assert not (changes == 0).any()  # on a pool nothing else can change
    assert (changes < 0).any()
    alike = load.table().assign(job_id=1)
    repeated = simulate(alike, procs=load.machine, scheduler=scheduler, predictor=load.estimates, plans=True).plans
    assert repeated is not None
    assert repeated.drop(columns="job_id").equals(plans.drop(columns="job_id"))


def test_a_search_accepts_moves_that_improve_the_plan() -> None:
    load = crowd(np.random.default_rng(8), size=120)
    schedule = load.schedule("PlanRS(iterations=40,interval=1)")
    assert schedule.searches is not None
    assert (schedule.jobs["start_s"] >= schedule.jobs["submit_s"]).all()
    assert len(schedule.searches) > 0
    weighed = schedule.searches["wait_gain"] + schedule.searches["slowdown_gain"] + 10 * schedule.searches["fairness_gain"]
    assert (weighed > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["OrigBF", "Conservative", "PlanRS(iterations=0)"])
def test_plans_of_a_deep_queue_are_told_however_often_their_log_is_full(scheduler: str) -> None:
    count = 300
    load = Workload(2, [30 * job for job in range(count)], [500] * count, [1] * count, [600] * count, [None] * count, [600] * count)
    schedule = load.schedule(scheduler, plans=True)
    assert len(schedule.plans) > 10 * count
    assert (schedule.jobs["start_s"] == load.schedule(scheduler).jobs["start_s"]).all()


@pytest.mark.parametrize("scheduler", ["PlanRS", "OrigBF"])
def test_jobs_that_cannot_be_planned_are_refused_in_one_line(scheduler: str) -> None:
    load = Workload(4, [0, 0], [5, 5], [1, 5], [5, 5], ["a", "b"], [5, 5])
    with pytest.raises(InputError, match="wider than the machine's 4 processors"):
        load.schedule(scheduler)
    with pytest.raises(InputError, match="there are no jobs to simulate"):
        load.first(0).schedule(scheduler)
    with pytest.raises(InputError, match="fit in no cluster that they may use, the first is job 2"):
        replace(load, machine=8).schedule(
            scheduler, machine=described(Site([[Node((4,)), Node((4,))]], [[]]), [Ask(1, (1,)), Ask(1, (5,))])
        )


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("PlanRS(iteration=3)", "unknown option 'iteration'; did you mean iterations[?]"),
        ("PlanRS(wait=0,slowdown=0,fairness=0)", "one of them must weigh something"),
        ("PlanRS(preset=mine)", "preset=mine; known: paper, program"),
        ("OrigBF(preset=program)", "unknown option 'preset'; known: queues"),
        ("OrigBF+RUSH", "does not support start decisions"),
        ("SAF-PlanRS", "PlanRS has an order of its own"),
    ],
)
def test_names_that_are_refused(name: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        named(name)


def test_the_released_program_is_a_preset() -> None:
    rule = named("PlanRS(preset=program,interval=30)").plan_rs
    assert rule == PlanRS(iterations=30, per="cluster", interval=30, width="sqrt", bound=0, spread="squares", usage="larger")
