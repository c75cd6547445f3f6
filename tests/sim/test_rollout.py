"""``Rollout``: the oracle's starts, job by job, whatever is predicted, and what its options and seed do."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from models.runtime.remaining import LEVELS
from pipelines.ingest.swf import read_swf
from sim import evaluate, simulate
from sim.names import scheduler as named
from sim.outcome import simulation
from sim.policy import Policy
from sim.prepare import prepare
from sim.rollout import SEPARATOR, Rollout
from sim.semantics import SEMANTICS
from tests.conftest import SHARED, needs_shared
from tests.models.runtime.test_lightgbm import days
from tests.oracle.rollout import starts
from tests.sim.kernel.test_harm import Foggy, Known
from tests.support.fresh import seeds
from tests.support.workloads import (
    TABLE_CORRECTIONS,
    Workload,
    crowd,
    crowds,
    dependent_crowd,
    dependent_workloads,
    workloads,
)

NAMES = (
    *("FCFS-EASY", "FCFS-EASY-SPF", "SAF-EASY-SRF", "WFP3-EASY-FCFS", "FCFS-EASY(reservations=2)-LAF"),
    *("SPF-JustBF", "SEXP-JustBF", "FCFS-List", "SQF-Strict"),
)
MANY = Rollout(NAMES[:4] + NAMES[5:7], scenarios=3, every=20)

METRICS = ["mean_bounded_slowdown", "awf_s", "p2sf_s"]

policies = st.fixed_dictionaries(
    {
        "semantics": st.sampled_from([*SEMANTICS, "per-second(every=30)", "per-event(expiry=pass,every=7)"]),
        "starvation_s": st.sampled_from([None, 0, 3, 50]),
        "correction": st.sampled_from(TABLE_CORRECTIONS),
    }
)
rules = st.builds(
    Rollout,
    policies=st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True).map(tuple),
    scenarios=st.sampled_from([1, 3]),
    every=st.sampled_from([1, 20]),
    plans=st.sampled_from(["predicted", "requested"]),
    slowdown=st.sampled_from([0.5, 1.0]),
    awf=st.sampled_from([0.0, 1.0]),
    p2sf=st.sampled_from([0.0, 1.0]),
)


def named_by(rule: Rollout) -> str:
    options = asdict(rule) | {"policies": SEPARATOR.join(rule.policies)}
    return f"Rollout({','.join(f'{option}={value}' for option, value in options.items())})"


def kernel_starts(load: Workload, rule: Rollout, predictor: Any = None, **policy: Any) -> list[int]:
    return load.schedule(named_by(rule), predictor, **policy).jobs["start_s"].tolist()


# Against the oracle


@pytest.mark.slow
@settings(max_examples=50)
@given(
    st.one_of(crowds(24), workloads(20), dependent_workloads(20)),
    rules,
    st.sampled_from([None, "requested", "clairvoyant", "last2", Foggy]),
    policies,
    st.integers(0, 3),
    st.booleans(),
)
def test_any_small_workload(load: Workload, rule: Rollout, source: Any, policy: dict, seed: int, again: bool) -> None:
    """Whether points are told or distributions, in Python, by whom the simulator then may ask again."""
    kernel, oracle = (source(), source()) if source is Foggy else (source, source)
    policy |= {"dependencies": bool(load.preceding), "seed": seed if source is Foggy else 0}
    policy |= {"correction": "conditional"} if again and source is Foggy else {}
    assert kernel_starts(load, rule, kernel, **policy) == starts(load, rule, oracle, **policy)
    assert source is not Foggy or sorted(kernel.again) == sorted(oracle.again)


@pytest.mark.slow
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("predictor", ["last2", Foggy()], ids=["last2", "foggy"])
def test_crowds(predictor: Any, semantics: str) -> None:
    other = 0
    for seed in seeds(2):
        load = (crowd, dependent_crowd)[seed % 2](np.random.default_rng(seed), size=60, machine=16)
        policy = {"semantics": semantics, "starvation_s": 3000 if seed % 2 else None, "dependencies": seed % 2 == 1}
        expected = starts(load, MANY, predictor, **policy)
        alone = [load.schedule(name, predictor, **policy).jobs["start_s"].tolist() for name in MANY.policies]
        other += expected not in alone
        assert kernel_starts(load, MANY, predictor, **policy) == expected
    assert other >= 2


@pytest.mark.slow
def test_where_nothing_is_unknown_it_is_no_worse_than_the_best_of_its_policies() -> None:
    """All jobs are there at once and run as foreseen: a policy in force can always go on as it was foreseen to."""
    rule = replace(MANY, scenarios=1, every=1)
    better = 0
    for seed in seeds(6):
        load = crowd(np.random.default_rng(seed), size=80, machine=16)
        load = replace(load, submit=[0] * len(load.submit))
        of_each = [evaluate(load.schedule(name, "clairvoyant"))[METRICS] for name in (*rule.policies, named_by(rule))]
        *alone, cost = [float((metrics / of_each[0]).sum()) for metrics in of_each]
        assert cost <= min(alone) + 1e-9
        better += cost < min(alone) - 1e-3
    assert better > 3


def test_a_compiled_predictor_tells_its_quantiles_at_the_first_choice_after_a_submission() -> None:
    load = crowd(np.random.default_rng(7), size=120, machine=4)
    longest = max(load.requested)
    load = replace(load, requested=[longest + seconds % 2 for seconds in load.requested], procs=[min(n, 2) for n in load.procs])
    rule = replace(MANY, every=1)
    spread, point = kernel_starts(load, rule, "sp3"), kernel_starts(load, rule, "requested")
    assert spread == kernel_starts(load, rule, "sp3") != point
    assert spread != kernel_starts(load, rule, "sp3", seed=1)  # of a distribution, not of a point
    assert point == kernel_starts(load, rule, "requested", seed=1)


@pytest.mark.slow
def test_distributions_of_quantile() -> None:
    load = days(seed=2, size=300)
    schedule = load.schedule(named_by(MANY), "quantile(order=0.6,fit=0.6,end=0.6)")
    assert schedule.quantiles is not None
    source = Known(schedule.quantiles[list(LEVELS)].to_numpy())
    source.estimate = lambda question, job, now_s, elapsed_s: float(schedule.jobs["predicted_s"][job])  # type: ignore[method-assign]
    assert schedule.jobs["start_s"].tolist() == starts(load, MANY, source)


# One policy


@pytest.mark.slow
@needs_shared
@pytest.mark.parametrize(
    ("name", "semantics"),
    [("EASY", "per-second"), ("EASY-SJBF", "per-event"), ("SAF-EASY-SRF", "per-second"), ("WFP3-JustBF", "per-event")],
)
def test_one_policy_is_that_policy(name: str, semantics: str) -> None:
    jobs = read_swf(SHARED / "traces" / "KTH-SP2-filtered.swf.gz").jobs.iloc[3000:3600].reset_index(drop=True)
    for predictor, correction, starvation_s in (("requested", "requested", None), ("last2", "tsafrir", 20_000)):
        alone, chosen = (
            simulate(
                jobs,
                procs=100,
                scheduler=scheduler,
                predictor=predictor,
                correction=correction,
                semantics=semantics,
                starvation_s=starvation_s,
            ).jobs
            for scheduler in (name, f"Rollout(policies={name},scenarios=2)")
        )
        pd.testing.assert_frame_equal(alone, chosen)


# Seeds and options


def test_the_seed_decides_where_runtimes_are_uncertain_and_only_there() -> None:
    load = crowd(np.random.default_rng(6), size=100, machine=16)
    runtimes = np.outer(load.requested, LEVELS)
    first, again, other = (kernel_starts(load, MANY, Known(runtimes), seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    exact = kernel_starts(load, replace(MANY, scenarios=1), "clairvoyant", seed=1)
    assert exact == kernel_starts(load, MANY, "clairvoyant", seed=2)


def test_options_by_name() -> None:
    assert named("rollout").rollout == Rollout()
    assert [policy.name for policy in named("Rollout").policies] == list(Rollout().policies)
    assert named("Rollout(Policies=SAF-JustBF + EASY, p2sf=2)").rollout == Rollout(("saf-justbf", "easy"), p2sf=2.0)
    for name, problem in {
        "Rollout(k=3)": "unknown option 'k'; known: policies, scenarios, every",
        "Rollout(every=0)": "every=0: must be a finite number, at least 1",
        "Rollout(plans=median)": "plans=median; known: predicted, requested",
        "Rollout(slowdown=0,awf=0,p2sf=0)": "are all 0: one of them must weigh something",
        "Rollout(policies=EASY+BEST)": "unknown scheduler 'best'; known",
        "Rollout(policies=EASY+Conservative)": "conservative cannot take over from another policy in mid-run",
        "Rollout(policies=EASY+Harm)": "harm cannot take over",
        "Rollout(policies=EASY+Rollout)": "rollout cannot take over",
        "Rollout(policies=EASY+SCORE(r*n)-EASY)": "takes orders by name",
        "Rollout(policies=EASY+EASY(plans=requested))": "takes no plans of its own",
        "Rollout+RUSH": "takes no .RUSH",
    }.items():
        with pytest.raises(InputError, match=problem):
            named(name)


def test_a_machine_that_decides_when_jobs_end_is_refused() -> None:
    workload = prepare(crowd(np.random.default_rng(3), size=10, machine=16).table(), 16)
    with pytest.raises(InputError, match="'Rollout': foresees no machine that decides how long jobs take"):
        simulation(workload, Policy("Rollout"), machine=Mock())
