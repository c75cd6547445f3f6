"""Start decisions inside the compiled simulator: the oracle's starts, and the oracle's questions, each asked of the same job at the same second.

The cases by hand are for a machine of ten processors; a job is written (submit, runtime, processors) and asks for what it runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim import Schedule, simulate
from sim.names import ALGORITHMS, PLANNERS, Rush
from sim.names import scheduler as named
from sim.semantics import SEMANTICS
from tests.oracle import scheduler as oracle
from tests.oracle.decisions import Until, Whim, decided
from tests.support.fresh import seeds
from tests.support.uncompiled import agree_uncompiled
from tests.support.workloads import (
    CONSERVATIVE,
    EASY_NAMES,
    PREDICTORS,
    PURE,
    TABLE_CORRECTIONS,
    Told,
    Workload,
    by_kernel,
    crowd,
    dependent_workloads,
    schedulers,
    workloads,
)

several = st.builds(lambda name, k: name.replace("EASY", f"EASY(reservations={k})"), st.sampled_from(EASY_NAMES), st.integers(2, 4))
conservative = st.just(CONSERVATIVE)
any_scheduler = st.one_of(schedulers, several, conservative)
semantics = st.sampled_from(SEMANTICS)
policies = st.fixed_dictionaries(
    {"semantics": semantics, "correction": st.sampled_from(TABLE_CORRECTIONS), "starvation_s": st.sampled_from([None, 0, 3, 50])}
)
whims = st.builds(Whim, st.integers(0, 99), st.sampled_from([10, 30, 60, 90, 100]))
limits = st.integers(0, 4)


def test_a_patience_bounds_how_long_a_job_is_skipped_and_a_pause_how_often_it_is_asked_about() -> None:
    """Two jobs that fit at once: always told to wait, they are asked about at 0 and 60 s, and start at 120 s."""
    load = Workload(10, [0, 0], [500, 500], [4, 4], [500, 500], [None, None], [500, 500])
    whim = Whim(percent=100)
    made = load.schedule("EASY+RUSH(patience=120,every=60)", None, start_decision=whim)
    assert made.jobs["start_s"].tolist() == [120, 120]
    assert [(said.job, said.now_s) for said in whim.said] == [(job, second) for second in (0, 60) for job in (0, 1)]


def asking(load: Workload, scheduler: str, decision: Any, skips: int = 10, predictor: Any = None, **policy: Any) -> Schedule:
    """The compiled simulator's schedule when ``decision`` is asked."""
    return load.schedule(f"{scheduler}+RUSH(skips={skips})", predictor, start_decision=decision, **policy)


def agree(load: Workload, scheduler: str, whim: Whim, skips: int = 10, predictor: Any = None, **policy: Any) -> Whim:
    """Check that kernel and oracle ask the same and start the same; returns what was said."""
    told = Whim(whim.seed, whim.percent)
    if scheduler == CONSERVATIVE:
        policy.pop("starvation_s", None)
    jobs = decided(load, scheduler, told, skips=skips, predictor=predictor, **policy)
    heard = Whim(whim.seed, whim.percent)
    made = asking(load, scheduler, heard, skips, predictor, **policy)
    assert heard.said == told.said
    assert made.jobs["start_s"].tolist() == [job.start for job in jobs]
    assert made.jobs["corrections"].tolist() == [job.corrections for job in jobs]
    return told


def drawn_apart(load: Workload, seed: int) -> Told:
    """A predictor whose answers to the three questions have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    order, fit, end = (np.ceil(np.array(load.requested) * rng.random(len(load.requested))).astype(int).clip(1) for _ in range(3))
    return Told(order.tolist(), fit.tolist(), end.tolist())


# Against the oracle


@pytest.mark.slow
@settings(max_examples=250)
@given(workloads(), any_scheduler, st.sampled_from(PREDICTORS), policies, whims, limits)
def test_any_small_workload(load: Workload, scheduler: str, predictor: Any, policy: dict, whim: Whim, skips: int) -> None:
    agree(load, scheduler, whim, skips, predictor, **policy)


@pytest.mark.slow
@settings(max_examples=120)
@given(workloads(), conservative, st.sampled_from(PREDICTORS), policies, whims, limits)
def test_a_plan_that_is_kept(load: Workload, scheduler: str, predictor: Any, policy: dict, whim: Whim, skips: int) -> None:
    agree(load, scheduler, whim, skips, predictor, **policy)


@pytest.mark.slow
@settings(max_examples=100)
@given(dependent_workloads(), any_scheduler, policies, whims, limits)
def test_where_jobs_follow_others(load: Workload, scheduler: str, policy: dict, whim: Whim, skips: int) -> None:
    agree(load, scheduler, whim, skips, dependencies=True, **policy)


@pytest.mark.slow
@settings(max_examples=100)
@given(workloads(), any_scheduler, policies, whims, limits, st.integers(0, 99))
def test_where_each_question_has_its_own_answer(
    load: Workload, scheduler: str, policy: dict, whim: Whim, skips: int, seed: int
) -> None:
    agree(load, scheduler, whim, skips, drawn_apart(load, seed), **policy)


@pytest.mark.slow
@pytest.mark.parametrize("percent", [0, 30])
@pytest.mark.parametrize("scheduler", ["FCFS-EASY-SPF", "FCFS-EASY(reservations=3)-SPF", "SPF-JustBF", CONSERVATIVE])
def test_busy_machines_where_each_question_has_its_own_answer(scheduler: str, percent: int) -> None:
    for seed in seeds(20):
        load = crowd(np.random.default_rng(seed), size=50, machine=16)
        agree(load, scheduler, Whim(seed, percent), 3, drawn_apart(load, seed))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["Strict", "List", "JustBF", "EASY"])
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_where_the_order_depends_on_who_waits(algorithm: str, semantics: str) -> None:
    weights = (0.5, -0.27, 0.31)  # no two of the same sum, whatever their signs: no ties between two jobs
    order = f"MIXED({','.join(map(str, weights))};standardised)"
    scheduler = f"{order}-{algorithm}" + (f"-{order}" if algorithm == "EASY" else "")
    policy: dict[str, Any] = {"order": oracle.Standardised(weights), "backfill": oracle.Standardised(weights)}
    for seed in seeds(15):
        load, told, heard = crowd(np.random.default_rng(seed), size=60, machine=16), Whim(seed, 40), Whim(seed, 40)
        jobs = decided(load, f"FCFS-{algorithm}", told, skips=3, semantics=semantics, **policy)
        made = asking(load, scheduler, heard, 3, semantics=semantics)
        assert (heard.said, made.jobs["start_s"].tolist()) == (told.said, [job.start for job in jobs])


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("scheduler", ["FCFS-EASY-FCFS", "WFP3-EASY-SAF", "FCFS-List"])
def test_crowds_with_queues_of_hundreds(scheduler: str, semantics: str) -> None:
    load = crowd(np.random.default_rng(5), size=340, machine=64)
    burst = replace(load, submit=(1_000_000 + np.array(load.submit) // 20).tolist())
    said = agree(burst, scheduler, Whim(1, 50), 2, semantics=semantics).said
    assert min(answer.now_s for answer in said) == 1_000_000
    assert sum(answer.skipped for answer in said) > 200


@pytest.mark.slow
def test_uncompiled_kernels_agree_too_and_stay_within_their_arrays() -> None:
    agree_uncompiled(
        "sim.kernel.test_start_decisions.test_any_small_workload",
        "sim.kernel.test_start_decisions.test_a_plan_that_is_kept",
    )


# Claims


@pytest.mark.slow
@settings(max_examples=75)
@given(workloads(), any_scheduler, policies, st.one_of(st.none(), st.integers(0, 99)))
def test_a_decision_that_never_skips_changes_nothing(load: Workload, scheduler: str, policy: dict, seed: int | None) -> None:
    assume(scheduler != CONSERVATIVE or policy["starvation_s"] is None)
    predictor = None if seed is None else drawn_apart(load, seed)
    alone = by_kernel(load, scheduler, predictor, **policy)
    whim = Whim(percent=0)
    asked = asking(load, scheduler, whim, predictor=predictor, **policy)
    assert asked.jobs["start_s"].tolist() == alone.start
    assert sorted(answer.job for answer in whim.said) == list(range(len(load.submit)))  # every job once


@pytest.mark.slow
@settings(max_examples=75)
@given(workloads(), any_scheduler, semantics, whims, limits)
def test_nobody_is_skipped_more_often_than_allowed_nor_asked_twice_in_a_pass(
    load: Workload, scheduler: str, semantics: str, whim: Whim, skips: int
) -> None:
    asking(load, scheduler, whim, skips, semantics=semantics)
    times = [sum(answer.skipped for answer in whim.said if answer.job == job) for job in range(len(load.submit))]
    assert max(times) <= skips
    if whim.percent == 100:
        assert times == [skips] * len(times)
    if semantics == "per-second":
        assert len({(answer.job, answer.now_s) for answer in whim.said}) == len(whim.said)


OTHERS = {"EASY": "EASY(reservations=2)", "Harm": "Harm(short=0)"}  # short jobs may pass a head that fits
EVERY = [OTHERS.get(name, name) for name in ALGORITHMS if name not in PLANNERS] + ["EASY"]


def load_of(*jobs: tuple[int, int, int]) -> Workload:
    submit, runtime, procs = (list(column) for column in zip(*jobs, strict=True))
    return Workload(10, submit, runtime, procs, runtime, ["u"] * len(jobs), runtime)


def starts(load: Workload, scheduler: str, decision: Any, semantics: str, skips: int = 10) -> list[int]:
    return asking(load, scheduler, decision, skips, semantics=semantics).jobs["start_s"].tolist()


def seconds(decision: Until | Whim, job: int) -> list[int]:
    """When ``job`` was asked about."""
    return [answer.now_s for answer in decision.said if answer.job == job]


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("algorithm", EVERY)
class TestByHand:
    def test_a_job_skipped_alone_is_asked_again_after_thirty_seconds(self, algorithm: str, semantics: str) -> None:
        until = Until({0: 105})
        assert starts(load_of((5, 10, 10)), algorithm, until, semantics) == [125]
        assert seconds(until, 0) == [5, 35, 65, 95, 125]

    def test_a_skipped_job_starts_at_the_latest_after_its_last_skip(self, algorithm: str, semantics: str) -> None:
        until = Until({0: 10**6})
        assert starts(load_of((5, 10, 10)), algorithm, until, semantics, skips=3) == [95]  # unasked
        assert seconds(until, 0) == [5, 35, 65]

    def test_skips_of_zero_ask_nobody(self, algorithm: str, semantics: str) -> None:
        until = Until({0: 10**6})
        assert (starts(load_of((5, 10, 10)), algorithm, until, semantics, skips=0), until.said) == ([5], [])

    def test_the_thirty_seconds_begin_anew_with_every_pass_that_skips(self, algorithm: str, semantics: str) -> None:
        # B comes at 20 and ends at 27: passes at 0, 20, 27, and then 57.
        until = Until({0: 30})
        assert starts(load_of((0, 10, 5), (20, 7, 5)), algorithm, until, semantics) == [57, 20]
        assert seconds(until, 0) == [0, 20, 27, 57]

    def test_a_skipped_head_holds_no_reservation(self, algorithm: str, semantics: str) -> None:
        # A needs all and is skipped until 5: B, from 1 to 101, is in its way. At 31 A does not fit, is not asked, and no wake-up follows.
        until = Until({0: 5})
        assert starts(load_of((0, 10, 10), (1, 100, 4)), algorithm, until, semantics) == [101, 1]
        assert seconds(until, 0) == [0, 1, 101]

    def test_whoever_is_skipped_keeps_its_place(self, algorithm: str, semantics: str) -> None:
        # All of one second and one size, each needs the machine: they go as they came, though they were skipped one by one.
        until = Until(dict.fromkeys(range(4), 40))
        assert starts(load_of(*[(0, 10, 10)] * 4), algorithm, until, semantics) == [60, 70, 80, 90]

    def test_a_skipped_job_is_in_front_of_those_that_came_after_it(self, algorithm: str, semantics: str) -> None:
        # B and C cannot start beside A. At 30 A starts before them, though in the passes at 1 and 2 they would have.
        until = Until({0: 20, 1: 20, 2: 20})
        assert starts(load_of((0, 10, 8), (1, 10, 8), (2, 10, 8)), algorithm, until, semantics) == [32, 42, 52]


def test_a_skip_is_counted_though_another_job_takes_the_place_in_the_same_pass() -> None:
    # A is skipped at 0 and, as B comes, at 1; B takes its processors in that very pass until 11. Two skips are all there are.
    until = Until({0: 10**6})
    assert starts(load_of((0, 10, 10), (1, 10, 4)), "EASY", until, "per-second", skips=2) == [11, 1]
    assert seconds(until, 0) == [0, 1]


@pytest.mark.parametrize("order", PURE)
def test_ties_keep_their_order_under_every_order(order: str) -> None:
    until = Until(dict.fromkeys(range(3), 20))
    served = starts(load_of((0, 10, 10), (0, 10, 10), (0, 10, 10)), f"{order}-EASY-{order}", until, "per-second")
    assert served == [30, 40, 50]


# Names and refusals


def test_the_options_of_rush() -> None:
    assert named("EASY").rush is None
    assert named("EASY+RUSH").rush == named("easy+rush()").rush == Rush("", 10, "variation")
    assert named("SAF-JustBF+RUSH(model=m/x@champion, skips=3,classes=little)").rush == Rush("m/x@champion", 3, "little")
    assert named("EASY+RUSH(model=m,cutoff=0.25)").rush == Rush("m", 10, "variation", cutoff=0.25)
    assert named("EASY-SJBF+RUSH(skips=0)").backfill == named("EASY-SJBF").backfill


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("EASY+RUSH(skips=-1)", "skips=-1 is not a number of times"),
        ("EASY+RUSH(skips=two)", "skips=two is not a number of times"),
        ("EASY+RUSH(classes=all)", "classes=all; known: variation, little"),
        (
            "EASY+RUSH(threshold=3)",
            "RUSH takes model=NAME, skips=NUMBER, patience=SECONDS, every=SECONDS, harm=yes|no, cutoff=PROBABILITY and "
            "classes=variation|little, not 'threshold=3'",
        ),
        ("EASY+RUSH(model=m,cutoff=1.5)", "cutoff=1.5 is not a probability"),
        ("EASY+RUSH(model=m,cutoff=half)", "cutoff=half is not a probability"),
        ("EASY+RUSH(model=oracle,cutoff=0.5)", "oracle tells no probability, and takes no cutoff"),
        ("EASY+RUSH(skips=1,skips=2)", "not 'skips=2'"),
        ("EASY+RUSH(model=)", "not 'model='"),
        ("EASY+RUSH(5)", "not '5'"),
        ("EASY+CRUSH", "unknown scheduler"),
        ("+RUSH(skips=3)", "unknown scheduler"),
        ("EASY+RUSH(skips=3", "unknown scheduler"),
        ("EASY+RUSH+RUSH", "unknown scheduler"),
    ],
)
def test_other_names_are_refused_in_one_line(name: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        simulate(load_of((0, 10, 10)).table(), procs=10, scheduler=name, start_decision=Whim())
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_rush_without_anybody_to_decide_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"scheduler 'EASY\+RUSH': RUSH asks a model that sees monitoring counters, and a trace has none"
    ):
        load_of((0, 10, 10)).schedule("EASY+RUSH")


def test_somebody_who_would_never_be_asked_is_refused() -> None:
    with pytest.raises(InputError, match="scheduler 'EASY' asks no model whether a job may start: add"):
        load_of((0, 10, 10)).schedule("EASY", start_decision=Whim())
