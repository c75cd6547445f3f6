"""The compiled simulator makes the oracle's schedule: every start, prediction and correction, for all it offers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim.kernel.corrections import CORRECTIONS
from sim.names import ALGORITHMS
from sim.semantics import SEMANTICS
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
    Result,
    Told,
    Workload,
    columns,
    crowd,
    policy_of,
    schedulers,
    source_of,
    workloads,
)

semantics = st.sampled_from(SEMANTICS)
policies = st.fixed_dictionaries(
    {"semantics": semantics, "correction": st.sampled_from(TABLE_CORRECTIONS), "starvation_s": st.sampled_from([None, 0, 3, 50])}
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
    )


@settings(max_examples=250, deadline=None)
@given(workloads(), schedulers, st.sampled_from(PREDICTORS), policies)
def test_any_small_workload(load: Workload, scheduler: str, predictor: str | None, policy: dict) -> None:
    assume(scheduler != CONSERVATIVE or policy["starvation_s"] is None)
    assert columns(load.schedule(scheduler, predictor, **policy)) == expected(load, scheduler, predictor, **policy)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(workloads(most=60), st.sampled_from(["FCFS-EASY-FCFS", "FCFS-EASY-SPF"]), semantics, st.sampled_from(TABLE_CORRECTIONS))
def test_outlived_predictions_under_the_schedulers_of_the_literature(
    load: Workload, scheduler: str, semantics: str, correction: str
) -> None:
    policy = {"semantics": semantics, "correction": correction}
    assert columns(load.schedule(scheduler, **policy)) == expected(load, scheduler, None, **policy)


# every order in front of every algorithm, and every order behind EASY
SAMPLE = [f"{front}-EASY-{behind}" for front, behind in zip(PURE, PURE[7:] + PURE[:7], strict=True)] + [*OTHER_NAMES, CONSERVATIVE]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(len(SAMPLE)), ids=SAMPLE)
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_crowds_under_every_order_and_algorithm(semantics: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    load = crowd(rng, size=150, machine=int(rng.choice([5, 64, 1000])))
    scheduler, predictor = SAMPLE[seed], PREDICTORS[seed % len(PREDICTORS)]
    policy = {
        "semantics": semantics,
        "correction": TABLE_CORRECTIONS[seed // 2 % len(TABLE_CORRECTIONS)],
        "starvation_s": 500 if seed % 3 == 0 and scheduler != CONSERVATIVE else None,
    }
    assert columns(load.schedule(scheduler, predictor, **policy)) == expected(load, scheduler, predictor, **policy)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(workloads(), st.sampled_from(EASY_NAMES), st.sampled_from([2, 3, 4, 5, 100]), st.sampled_from(PREDICTORS), policies)
def test_several_reservations(load: Workload, scheduler: str, reservations: int, predictor: str | None, policy: dict) -> None:
    scheduler = scheduler.replace("EASY", f"EASY(reservations={reservations})")
    assert columns(load.schedule(scheduler, predictor, **policy)) == expected(load, scheduler, predictor, **policy)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(workloads(), st.sampled_from(EASY_NAMES), policies)
def test_planned_by_requests_predictions_only_order_the_queue(load: Workload, scheduler: str, policy: dict) -> None:
    name = scheduler.replace("EASY", "EASY(plans=requested)")
    told = Told(load.estimates, load.requested, load.requested)
    assert columns(load.schedule(name, **policy)) == expected(load, scheduler, told, **policy)


@pytest.mark.parametrize("correction", TABLE_CORRECTIONS)
def test_per_event_only_plain_fcfs_easy_looks_away_when_a_job_comes_that_does_not_fit(correction: str) -> None:
    """A pass for its sake finds whatever expired predictions have made possible since, and with several reservations there is one."""
    for seed in seeds(10):
        load = crowd(np.random.default_rng(seed), size=60, machine=8)
        scheduler, policy = "FCFS-EASY(reservations=2)-FCFS", {"semantics": "per-event", "correction": correction}
        assert columns(load.schedule(scheduler, **policy)) == expected(load, scheduler, None, **policy)


eighths = st.integers(-8, 8).map(lambda number: number / 8)  # sums of them are exact, so that ties are ties


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(workloads(), st.tuples(eighths, eighths, eighths).filter(any), semantics)
def test_mixed_policies_of_three_features(load: Workload, weights: tuple[float, ...], semantics: str) -> None:
    name = f"MIXED({','.join(map(str, weights))})-EASY"
    made = columns(load.schedule(name, semantics=semantics))
    assert made == load.by_oracle(order=oracle.mixed(*weights), estimates=load.estimates, semantics=semantics)


@pytest.mark.parametrize("seed", seeds(20))
def test_mixed_policies_of_six_features_in_front_and_behind(seed: int) -> None:
    rng = np.random.default_rng(seed)
    load = crowd(rng)
    front, behind = (rng.uniform(-1, 1, 6).round(3).tolist() for _ in range(2))
    name = "-EASY-".join(f"MIXED({','.join(map(str, weights))})" for weights in (front, behind))
    order, backfill = oracle.mixed(*front), oracle.mixed(*behind)
    assert columns(load.schedule(name)) == load.by_oracle(order=order, backfill=backfill, estimates=load.estimates)


@pytest.mark.slow
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("seed", seeds(10))
def test_standardised_mixed_policies(seed: int, semantics: str) -> None:
    rng = np.random.default_rng(seed)
    load = crowd(rng, size=120)
    three, six = (rng.uniform(-1, 1, number).round(3).tolist() for number in (3, 6))
    name = "-EASY-".join(f"MIXED({','.join(map(str, weights))};standardised)" for weights in (three, six))
    order, backfill = oracle.Standardised([*three, 0, 0, 0]), oracle.Standardised(six)
    expected = load.by_oracle(order=order, backfill=backfill, estimates=load.estimates, semantics=semantics)
    assert columns(load.schedule(name, semantics=semantics)) == expected


@pytest.mark.parametrize("algorithm", ["EASY", "List", "JustBF", "Strict"])
def test_a_standardised_feature_that_all_share_is_no_matter_of_rounding(algorithm: str) -> None:
    """Ratios of 1/3, 1/7, ... are shared exactly, yet their standard deviation as computed may come out as a little more than 0."""
    for third in (3, 7, 11, 49):
        size = 30
        seconds = np.random.default_rng(third).integers(1, 10, size)
        procs, seconds = (seconds * third).tolist(), seconds.tolist()
        load = Workload(10 * third, [0] * size, seconds, procs, seconds, [None] * size, seconds)
        made = columns(load.schedule(f"MIXED(0,0.3,0,0.7,0,0;standardised)-{algorithm}"))
        order = oracle.Standardised((0, 0.3, 0, 0.7, 0, 0))
        assert made == load.by_oracle(algorithm=algorithm, order=order) == load.by_oracle(algorithm=algorithm, order="SPF")


@pytest.mark.parametrize("scheduler", ["FCFS-EASY-SPF", "SAF-EASY-SAF", "LRF-EASY-SRF", "LAF-List"])
def test_long_jobs_and_unix_times_overflow_nothing(scheduler: str) -> None:
    load = crowd(np.random.default_rng(7), machine=100_000, longest_s=40_000_000, origin_s=1_700_000_000)
    assert columns(load.schedule(scheduler)) == expected(load, scheduler, None)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(workloads(), st.data())
def test_predictions_outside_one_to_the_request_are_clamped_and_counted(load: Workload, data: st.DataObject) -> None:
    wild = data.draw(st.lists(st.integers(-5, 30), min_size=len(load.submit), max_size=len(load.submit)))
    clamped = np.clip(wild, 1, load.requested).tolist()
    schedule = load.schedule("FCFS-EASY-SPF", wild)
    assert columns(schedule) == load.by_oracle(backfill="SPF", estimates=clamped)
    assert schedule.clamped_predictions == sum(told != used for told, used in zip(wild, clamped, strict=True))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(workloads(), st.sampled_from(EASY_NAMES + OTHER_NAMES), semantics, st.randoms(use_true_random=False))
def test_each_question_is_answered_by_its_own_estimate(load: Workload, scheduler: str, semantics: str, random: Any) -> None:
    scheduler = scheduler.replace("EASY", random.choice(["EASY", "EASY(reservations=2)", "EASY(reservations=3)"]))
    order, fit, end = ([random.randint(1, seconds) for seconds in load.requested] for _ in range(3))
    schedule = load.schedule(scheduler, Told(order, fit, end), semantics=semantics)
    assert columns(schedule) == load.by_oracle(**policy_of(scheduler), estimates=order, fit=fit, end=end, semantics=semantics)


class Last2InPython(Told):
    """Last2 as an outside predictor would be written, from what it is told."""

    name = "last2-in-python"

    def __init__(self) -> None:
        super().__init__([], [], [])

    def begin(self, jobs: pd.DataFrame) -> None:
        self._jobs, self._past = jobs, {}  # type: ignore[var-annotated]

    def ended(self, job: int, now_s: int) -> None:
        self._past.setdefault(self._jobs["user"][job], []).append(int(self._jobs["runtime_s"][job]))

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        past = self._past.get(self._jobs["user"][job], [])[-2:]
        request = float(self._jobs["requested_s"][job])
        return min(sum(past) // 2, request) if len(past) == 2 and isinstance(self._jobs["user"][job], str) else request


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(workloads(), schedulers, semantics)
def test_a_predictor_in_python_is_told_what_a_compiled_one_learns(load: Workload, scheduler: str, semantics: str) -> None:
    assert columns(load.schedule(scheduler, Last2InPython(), semantics=semantics)) == expected(
        load, scheduler, "last2", semantics=semantics
    )


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [151, 158, 1280, 2870, 3186, 4684, 5749, *(10_000 + seed for seed in seeds(150))])
def test_a_job_let_in_by_one_answer_can_move_the_reservation_by_another(seed: int) -> None:
    """The first seven: FIT lets a job in before the reservation, END has it end behind, and the next submission sees another reservation."""
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
    scheduler, told = draw.choice(EASY_NAMES + OTHER_NAMES), draw.choice(["per-second", "per-event"])
    schedule = load.schedule(scheduler, Told(order, fit, end), semantics=told)
    assert columns(schedule) == load.by_oracle(**policy_of(scheduler), estimates=order, fit=fit, end=end, semantics=told)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("FCFS", "is an order of the queue and no algorithm.*FCFS-EASY"),
        ("saf", "is an order of the queue and no algorithm.*saf-EASY"),
        ("XXX-EASY", "unknown order 'XXX'.*FCFS.*WFP3"),
        ("Strict-SPF", "takes no order behind it"),
        ("SPF-Conservative", "takes no other order"),
        ("MIXED(1,x,2)-EASY", "not all numbers"),
        ("MIXED(nan,0,1)-EASY", "finite weights"),
        ("MIXED(inf,0,1)-EASY", "finite weights"),
        ("EASY(reservations=99999999999999999999)", "unknown scheduler"),
        ("EASY(plans=maybe)", "takes reservations=k and plans=requested"),
        ("SCORE(r*x)-EASY", "'x' at letter 3 is no feature"),
    ],
)
def test_a_scheduler_that_there_is_not_is_refused_by_its_name(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        crowd(np.random.default_rng(0), size=2).schedule(name)


def test_predictions_beyond_the_clock_are_refused() -> None:
    load = Workload(2, [0, 1], [1, 1], [1, 1], [1, 1], [None, None], [1, 1])
    with pytest.raises(InputError, match="more than the simulator's clock holds"):
        load.schedule("EASY", "requested*99999999999999999999")
