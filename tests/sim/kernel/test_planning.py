"""PlanRS against its oracle, job by job, and against Conservative backfilling."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim.schedulers.names import scheduler as named
from tests.oracle.clusters import Ask, Node, Site
from tests.oracle.planning import OrigBackfill, Planning
from tests.support.machines import crowded, described, random_ask, random_site
from tests.support.workloads import Workload, columns, crowd, dependent_crowd

OPTIONS = {"interval": [1, 7, 60], "fairness": [0, 1, 10], "slowdown": [0, 1]}


def starts_by_oracle(load: Workload, scheduler: str, seed: int = 0, on: Any = None, **policy: Any) -> list[int]:
    """The oracle's starts; ``on`` a site with what jobs ask of it, or one pool."""
    site, asks = on or (Site([[Node((load.machine,))]]), [Ask(1, (procs,)) for procs in load.procs])
    rule = named(scheduler)
    there = {"site": site, "asks": asks}
    simulation = partial(Planning, rule=rule.plan_rs, seed=seed, **there)
    if rule.orig_bf is not None:
        simulation = partial(OrigBackfill, rule=rule.orig_bf, **there)
    return load.by_oracle(simulation=simulation, **{"estimates": load.estimates, "algorithm": rule.algorithm} | policy)[0]


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
    on, machine = None, {}
    if rng.random() < 0.5:
        site = random_site(rng)
        on = site, [random_ask(rng, site) for _ in load.submit]
        machine["machine"] = described(*on)
        load = replace(load, procs=[ask.chunks * ask.each[0] for ask in on[1]], machine=machine["machine"].procs)
    scheduler, policy = f"OrigBF(reservations={rng.choice(['anew', 'kept'])})", some_policy(rng)
    schedule = load.schedule(scheduler, **machine, **policy)
    assert schedule.jobs["start_s"].tolist() == starts_by_oracle(load, scheduler, on=on, **policy)


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
def test_clusters_are_planned_as_the_oracle_plans_them(seed: int) -> None:
    """With memory, properties, whole nodes and limits; jobs move between clusters."""
    rng = np.random.default_rng(seed)
    load, (site, asks), machine = crowded(rng, 20)
    scheduler, policy = some_name(rng), some_policy(rng)
    drawn = seed if named(scheduler).draws else 0
    schedule = load.schedule(scheduler, machine=machine, seed=drawn, **policy)
    assert schedule.jobs["start_s"].tolist() == starts_by_oracle(load, scheduler, drawn, (site, asks), **policy)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**9))
def test_without_search_and_with_exact_estimates_it_is_conservative(seed: int) -> None:
    load = crowd(np.random.default_rng(seed), size=80)
    planned, conservative = (load.schedule(name, "clairvoyant") for name in ("PlanRS(iterations=0)", "Conservative"))
    assert columns(planned) == columns(conservative)


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
        ("OrigBF(queues=one)", "unknown option 'queues'; known: reservations"),
        ("OrigBF(reservations=mine)", "reservations=mine; known: kept, anew"),
        ("OrigBF+RUSH", "does not support start decisions"),
        ("SAF-PlanRS", "PlanRS has an order of its own"),
    ],
)
def test_names_that_are_refused(name: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        named(name)
