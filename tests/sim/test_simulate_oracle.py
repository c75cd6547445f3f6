"""The compiled simulator makes the oracle's schedule: every start, prediction and correction, for all it offers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim.kernel.corrections import CORRECTIONS
from sim.policy import SEMANTICS
from sim.schedulers.names import ALGORITHMS
from tests.oracle import scheduler as oracle
from tests.support.fresh import seeds
from tests.support.uncompiled import agree_uncompiled
from tests.support.workloads import (
    CONSERVATIVE,
    EASY_NAMES,
    OTHER_NAMES,
    PREDICTORS,
    PURE,
    TABLE_CORRECTIONS,
    Moody,
    Result,
    Told,
    Workload,
    agree,
    cases,
    columns,
    crowd,
    crowds,
    dependent_crowd,
    dependent_workloads,
    policies,
    policy_of,
    source_of,
    workloads,
)


def expected(load: Workload, scheduler: str, predictor: str | None, **policy: Any) -> Result:
    return load.by_oracle(**policy_of(scheduler), **source_of(load, predictor), **policy)


def test_the_oracle_knows_every_algorithm_order_correction_and_semantics_there_is() -> None:
    in_other_files = {"Harm", "PlanRS", "OrigBF"}  # tests/oracle/harm.py, planning.py
    assert set(oracle.ALGORITHMS) == set(ALGORITHMS) - in_other_files == {name.split("-")[1] for name in SAMPLE}
    assert set(oracle.ORDERS) == set(PURE)
    assert set(oracle.CORRECTIONS) == set(CORRECTIONS)
    assert set(oracle.SEMANTICS) == set(SEMANTICS)


@pytest.mark.slow
def test_uncompiled_kernels_agree_too_and_stay_within_their_arrays() -> None:
    agree_uncompiled(
        "sim.test_simulate_oracle.test_any_small_workload",
        "models.runtime.test_as_by_hand.test_on_any_small_workload:nag",
        "models.runtime.test_as_by_hand.test_on_any_small_workload:hierarchy",
        "sim.own.test_decide.test_any_decision_is_carried_out_and_sees_what_the_oracle_sees",
        "sim.kernel.test_harm.test_any_small_workload",
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(cases(st.one_of(workloads(), dependent_workloads(), crowds(40))))
def test_any_small_workload(case: tuple[Workload, str, Any, dict]) -> None:
    """Schedules are the oracle's for any predictor, correction, semantics, dependencies and number of reservations."""
    load, scheduler, predictor, policy = case
    agree(load, scheduler, predictor, **policy)


# every order in front of every algorithm, and every order behind EASY
SAMPLE = [f"{front}-EASY-{behind}" for front, behind in zip(PURE, PURE[7:] + PURE[:7], strict=True)] + [*OTHER_NAMES, CONSERVATIVE]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(len(SAMPLE)), ids=SAMPLE)
@pytest.mark.parametrize("other", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_crowds_under_every_order_and_algorithm(other: int, seed: int) -> None:
    """Half of them under each semantics."""
    rng = np.random.default_rng(seed)
    load = (crowd, dependent_crowd)[seed // 3 % 2](rng, size=150, machine=int(rng.choice([5, 64, 1000])))
    scheduler, predictor = SAMPLE[seed], [*PREDICTORS, Moody(seed)][seed % (len(PREDICTORS) + 1)]
    policy = {
        "semantics": SEMANTICS[(seed // 6 + other) % 2],
        "correction": "conditional" if isinstance(predictor, Moody) else TABLE_CORRECTIONS[seed // 2 % len(TABLE_CORRECTIONS)],
        "starvation_s": 500 if seed % 3 == 0 and scheduler != CONSERVATIVE else None,
    }
    agree(load, scheduler, predictor, **policy, dependencies=bool(load.preceding))


@pytest.mark.slow
@settings(max_examples=15)
@given(workloads(), st.sampled_from(EASY_NAMES), policies)
def test_planned_by_requests_predictions_only_order_the_queue(load: Workload, scheduler: str, policy: dict) -> None:
    name = scheduler.replace("EASY", "EASY(plans=requested)")
    source = Told(load.estimates, load.requested, load.requested)
    assert columns(load.schedule(name, **policy)) == expected(load, scheduler, source, **policy)


@pytest.mark.parametrize("correction", TABLE_CORRECTIONS)
def test_per_event_only_plain_fcfs_easy_looks_away_when_a_job_comes_that_does_not_fit(correction: str) -> None:
    """A pass for its sake finds whatever expired predictions have made possible since, and with several reservations there is one."""
    for seed in seeds(3):
        load = crowd(np.random.default_rng(seed), size=60, machine=8)
        for scheduler in ("FCFS-EASY-FCFS", "FCFS-EASY(reservations=2)-FCFS"):
            agree(load, scheduler, semantics="per-event", correction=correction)


@pytest.mark.parametrize("seed", seeds(4))
def test_mixed_policies_of_six_features_in_front_and_behind(seed: int) -> None:
    rng = np.random.default_rng(seed)
    load = crowd(rng)
    front, behind = (rng.uniform(-1, 1, 6).round(3).tolist() for _ in range(2))
    name = "-EASY-".join(f"MIXED({','.join(map(str, weights))})" for weights in (front, behind))
    order, backfill = oracle.mixed(*front), oracle.mixed(*behind)
    assert columns(load.schedule(name)) == load.by_oracle(order=order, backfill=backfill, estimates=load.estimates)


@pytest.mark.slow
@settings(max_examples=15)
@given(workloads(), st.data())
def test_predictions_outside_one_to_the_request_are_clamped_and_counted(load: Workload, data: st.DataObject) -> None:
    wild = data.draw(st.lists(st.integers(-5, 30), min_size=len(load.submit), max_size=len(load.submit)))
    clamped = np.clip(wild, 1, load.requested).tolist()
    schedule = load.schedule("FCFS-EASY-SPF", wild)
    assert columns(schedule) == load.by_oracle(backfill="SPF", estimates=clamped)
    assert schedule.clamped_predictions == sum(answer != used for answer, used in zip(wild, clamped, strict=True))


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("EASY", "FCFS-EASY-FCFS"),
        ("EASY-SJBF", "FCFS-EASY-SPF"),
        ("SAF-EASY", "SAF-EASY-FCFS"),
        ("SAF-EASY-SPF", "SAF-EASY-SPF"),
        ("SJF-List", "SPF-List"),
        ("Strict", "FCFS-Strict"),
        ("List", "FCFS-List"),
    ],
)
def test_short_names_mean_what_the_literature_means(name: str, full: str) -> None:
    load = crowd(np.random.default_rng(5))
    assert columns(load.schedule(name)) == expected(load, full, None)


@pytest.mark.parametrize("seed", [151, 158, 1280, 2870, 3186, 4684, 5749])
def test_a_job_let_in_by_one_answer_can_move_the_reservation_by_another(seed: int) -> None:
    """In these seven FIT lets a job in before the reservation, END has it end behind, and the next submission sees another reservation."""
    draw = random.Random(seed)
    jobs, machine = draw.randint(3, 14), draw.randint(1, 6)
    submit = sorted(draw.randint(0, 20) for _ in range(jobs))
    requested = [draw.randint(1, 20) for _ in range(jobs)]
    runtime = [draw.randint(1, seconds) for seconds in requested]
    procs = [draw.randint(1, machine) for _ in range(jobs)]
    for _ in range(jobs):
        draw.randint(0, 2)
    load = Workload(machine, submit, runtime, procs, requested, [None] * jobs, requested)
    order, fit, end = ([draw.randint(1, seconds) for seconds in requested] for _ in range(3))
    scheduler, semantics = draw.choice(EASY_NAMES + OTHER_NAMES), draw.choice(["per-second", "per-event"])
    schedule = load.schedule(scheduler, Told(order, fit, end), semantics=semantics)
    assert columns(schedule) == load.by_oracle(**policy_of(scheduler), estimates=order, fit=fit, end=end, semantics=semantics)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("FCFS", "is an order of the queue, not an algorithm.*FCFS-EASY"),
        ("saf", "is an order of the queue, not an algorithm.*SAF-EASY"),
        ("XXX-EASY", "unknown order 'XXX'.*FCFS.*WFP3"),
        ("Strict-SPF", "takes no backfill order"),
        ("SPF-Conservative", "takes no other order"),
        ("MIXED(1,x,2)-EASY", "not all numbers"),
        ("MIXED(nan,0,1)-EASY", "finite weights"),
        ("MIXED(inf,0,1)-EASY", "finite weights"),
        ("EASY(reservations=99999999999999999999)", "unknown scheduler"),
        ("EASY(plans=maybe)", "takes reservations=k and plans=requested"),
        ("SCORE(r*x)-EASY", "'x' at letter 3 is not a feature"),
    ],
)
def test_a_scheduler_that_there_is_not_is_refused_by_its_name(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        crowd(np.random.default_rng(0), size=2).schedule(name)


def test_predictions_beyond_the_clock_are_refused() -> None:
    load = Workload(2, [0, 1], [1, 1], [1, 1], [1, 1], [None, None], [1, 1])
    with pytest.raises(InputError, match="more than the simulator's clock holds"):
        load.schedule("EASY", "requested*99999999999999999999")
