"""Jobs that follow others: submitted when those have ended and their user has thought (SWF fields 17 and 18), not as recorded.

Cases worked out by hand, told to the oracle and to the compiled simulator alike, then both on random workloads. The machine of the cases
has ten processors. A job is written (submit, runtime, processors) or (submit, runtime, processors, requested); jobs are called A, B, C,
... in file order, and ``C=("A", 5)`` says that C follows A after 5 seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim import evaluate, simulate
from sim.semantics import SEMANTICS
from tests.oracle import scheduler as oracle
from tests.support.fresh import seeds
from tests.support.workloads import (
    CONSERVATIVE,
    EASY_NAMES,
    PREDICTORS,
    TABLE_CORRECTIONS,
    Moody,
    Workload,
    by_kernel,
    by_oracle,
    dependent_crowd,
    dependent_workloads,
    schedulers,
    workloads,
)

SIMULATORS: dict[str, Callable] = {"oracle": by_oracle, "kernel": by_kernel}
Times = tuple[list[int], list[int]]
NAMES = "ABCDEFGH"


@pytest.fixture(params=SIMULATORS)
def simulator(request: pytest.FixtureRequest) -> Callable:
    return SIMULATORS[request.param]


def workload(*jobs: tuple[int, ...], user: str | None = None, **follows: tuple[str, int | None]) -> Workload:
    rows = [job if len(job) == 4 else (*job, job[1]) for job in jobs]
    submit, runtime, procs, requested = (list(column) for column in zip(*rows, strict=True))
    preceding: list[int | None] = [None] * len(jobs)
    think: list[int | None] = [None] * len(jobs)
    for name, (before, seconds) in follows.items():
        preceding[NAMES.index(name)], think[NAMES.index(name)] = NAMES.index(before) + 1, seconds
    return Workload(10, submit, runtime, procs, requested, [user] * len(jobs), requested, preceding, think)


def times(simulator: Callable, load: Workload, scheduler: str = "FCFS-EASY", semantics: str = "per-second", **policy: Any) -> Times:
    """Submissions and starts."""
    made = simulator(load, scheduler, dependencies=True, semantics=semantics, **policy)
    return made.submit, made.start


@pytest.mark.parametrize("semantics", SEMANTICS)
class TestByHand:
    @pytest.mark.parametrize("recorded_s", [0, 4, 10, 13, 100])
    def test_a_follower_is_submitted_after_end_and_think_time_whenever_it_was_recorded(
        self, simulator: Callable, semantics: str, recorded_s: int
    ) -> None:
        load = workload((0, 10, 1, 20), (recorded_s, 5, 1), B=("A", 3))
        assert times(simulator, load, semantics=semantics) == ([0, 13], [0, 13])

    def test_a_missing_think_time_is_none(self, simulator: Callable, semantics: str) -> None:
        for think in (None, 0):
            load = workload((0, 10, 10, 20), (1, 5, 10), B=("A", think))
            assert times(simulator, load, semantics=semantics) == ([0, 10], [0, 10])

    def test_dependencies_are_off_unless_asked_for(self, simulator: Callable, semantics: str) -> None:
        load = workload((0, 10, 5), (1, 5, 5), B=("A", 3))
        assert simulator(load, semantics=semantics).start == [0, 1]

    def test_the_wait_of_the_job_before_delays_the_follower(self, simulator: Callable, semantics: str) -> None:
        # B waits for A until 10 and runs until 15; C comes at 17 and fits.
        load = workload((0, 10, 10), (2, 5, 10), (3, 5, 10), C=("B", 2))
        assert times(simulator, load, semantics=semantics) == ([0, 2, 17], [0, 10, 17])

    def test_followers_of_followers(self, simulator: Callable, semantics: str) -> None:
        # A 0-10, B 10-15, C 16-18, D at once: 18.
        load = workload((0, 10, 1), (0, 5, 1), (0, 2, 1), (0, 1, 1), B=("A", 0), C=("B", 1), D=("C", 0))
        assert times(simulator, load, semantics=semantics) == ([0, 10, 16, 18], [0, 10, 16, 18])

    def test_many_may_follow_one(self, simulator: Callable, semantics: str) -> None:
        # B, C and D follow A, which ends at 10, after 4, 0 and 4 seconds. C holds all until 16, then B, then D, by file order. E after D.
        follows = {"B": ("A", 4), "C": ("A", 0), "D": ("A", 4), "E": ("D", 1)}
        load = workload((0, 10, 10), (1, 5, 10), (1, 6, 10), (1, 7, 10), (1, 1, 10), **follows)
        assert times(simulator, load, semantics=semantics) == ([0, 14, 10, 14, 29], [0, 16, 10, 21, 29])

    def test_the_job_before_may_be_of_the_same_second_if_it_is_above_in_the_file(self, simulator: Callable, semantics: str) -> None:
        assert times(simulator, workload((7, 10, 1), (7, 5, 1), B=("A", 1)), semantics=semantics) == ([7, 18], [7, 18])

    @pytest.mark.parametrize("number", [2, 3, 77, 0, -5])
    def test_a_job_that_names_itself_or_one_below_or_none_is_submitted_as_recorded(
        self, simulator: Callable, semantics: str, number: int
    ) -> None:
        load = replace(workload((0, 10, 1), (1, 5, 1), (2, 5, 1)), preceding=[None, number, 1], think=[None, 50, 3])
        assert times(simulator, load, semantics=semantics) == ([0, 1, 13], [0, 1, 13])

    def test_a_think_time_alone_delays_nobody(self, simulator: Callable, semantics: str) -> None:
        load = replace(workload((0, 10, 1), (1, 5, 1), (2, 5, 1)), preceding=[None, None, 1], think=[None, 50, 3])
        assert times(simulator, load, semantics=semantics) == ([0, 1, 13], [0, 1, 13])

    def test_submissions_of_one_second_keep_file_order_followers_or_not(self, simulator: Callable, semantics: str) -> None:
        # A ends at 10; B and C come at 15, one of them because A has ended.
        first = workload((0, 10, 10), (0, 5, 10), (15, 5, 10), B=("A", 5))
        assert times(simulator, first, semantics=semantics) == ([0, 15, 15], [0, 15, 20])
        second = workload((0, 10, 10), (15, 5, 10), (15, 5, 10), C=("A", 5))
        assert times(simulator, second, semantics=semantics) == ([0, 15, 15], [0, 15, 20])

    @pytest.mark.parametrize("order", ["FCFS", "SPF", "LQF", "F3"])
    def test_the_earlier_submission_is_the_earlier_simulated_one(self, simulator: Callable, semantics: str, order: str) -> None:
        # C, recorded for 1, comes at 10, D at 5; both (5 s) need all and meet in the queue until B ends at 20: D first, then C.
        load = workload((0, 10, 5), (0, 20, 5), (1, 5, 10), (5, 5, 10), C=("A", 0))
        assert times(simulator, load, f"{order}-Strict", semantics) == ([0, 0, 10, 5], [0, 0, 25, 20])

    def test_starvation_counts_from_the_simulated_submission(self, simulator: Callable, semantics: str) -> None:
        # C (SPF or alone) runs 10-18. Then B has waited 8 s since A's end, 18 since its record: not over 10, and D is shorter.
        load = workload((0, 10, 10), (0, 9, 10), (9, 8, 10), (12, 5, 10), B=("A", 0))
        made = times(simulator, load, "SPF-EASY", semantics, starvation_s=10)
        assert made == ([0, 10, 9, 12], [0, 23, 10, 18])

    def test_an_end_is_learnt_before_the_follower_it_lets_in_is_estimated(self, simulator: Callable, semantics: str) -> None:
        # The user's A and B run 5 and 10 s; C is submitted as B ends: (5 + 10)/2. (Per-event, a submission recorded for 10 would not know B.)
        load = workload((0, 5, 1, 100), (0, 10, 1, 100), (1, 1, 1, 100), user="u", C=("B", 0))
        made = simulator(load, "FCFS-EASY", "last2", dependencies=True, semantics=semantics)
        assert made.predicted == [100, 100, 7]

    def test_a_follower_whose_predecessor_runs_beyond_its_prediction_waits_for_its_end(
        self, simulator: Callable, semantics: str
    ) -> None:
        load = replace(workload((0, 10, 6, 20), (1, 5, 4), B=("A", 2)), estimates=[3, 5])
        made = simulator(load, dependencies=True, semantics=semantics)
        assert (made.submit, made.start, made.corrections) == ([0, 12], [0, 12], [1, 0])


# Where the semantics differ


def test_a_follower_competes_with_the_submissions_of_its_second_per_second_and_comes_after_them_per_event(
    simulator: Callable,
) -> None:
    # A ends at 10; B follows at once; C, below B in the file, is recorded for 10.
    for requested in (10, 20):
        load = workload((0, 10, 10, requested), (1, 5, 10), (10, 5, 10), B=("A", 0))
        assert times(simulator, load) == ([0, 10, 10], [0, 10, 15])
        # Per-event C is there first: it starts at 10, at its submission if A was foreseen to end, at A's end if not.
        assert times(simulator, load, semantics="per-event") == ([0, 10, 10], [0, 15, 10])


def test_per_event_the_pass_of_an_end_does_not_see_the_follower(simulator: Callable) -> None:
    # C (9 s) waits since 1. A ends at 10: per-second B (1 s), A's follower, is shorter and starts; per-event C is alone in A's pass.
    load = workload((0, 10, 10), (0, 1, 10), (1, 9, 10), B=("A", 0))
    assert times(simulator, load, "SPF-EASY") == ([0, 10, 1], [0, 10, 11])
    assert times(simulator, load, "SPF-EASY", "per-event") == ([0, 10, 1], [0, 19, 10])


def test_per_event_the_follower_comes_before_the_next_end_of_the_same_second(simulator: Callable) -> None:
    # A and B (5 each, asked 20) end at 10. A's end lets C (1 s) in before B's end makes room for one of C and D (9 s): C, by SPF.
    load = workload((0, 10, 5, 20), (0, 10, 5, 20), (1, 1, 10), (1, 9, 10), C=("A", 0))
    assert times(simulator, load, "SPF-EASY", "per-event") == ([0, 0, 10, 1], [0, 0, 10, 11])
    # As B's follower it is too late: D starts as B ends.
    load = workload((0, 10, 5, 20), (0, 10, 5, 20), (1, 1, 10), (1, 9, 10), C=("B", 0))
    assert times(simulator, load, "SPF-EASY", "per-event") == ([0, 0, 10, 1], [0, 0, 19, 10])


def test_per_event_submissions_of_one_second_queue_as_they_came_whatever_the_file_order(simulator: Callable) -> None:
    # One at a time. D is submitted at 1, before A's end of that second lets B in, although B is above D in the file; C runs from 1 to 2.
    load = workload((0, 1, 10), (0, 1, 10), (0, 1, 10), (1, 1, 10), B=("A", 0))
    assert times(simulator, load, semantics="per-event") == ([0, 1, 0, 1], [0, 3, 1, 2])


# The oracle and the compiled simulator


def test_metrics_wait_from_the_simulated_submission() -> None:
    # As in the case of starvation: waits of 0, 13, 1 and 6 s; with tau = 10 s slowdowns of 1, 22/10, 1 (9/10) and 11/10.
    load = workload((0, 10, 10), (0, 9, 10), (9, 8, 10), (12, 5, 10), B=("A", 0))
    metrics = evaluate(load.schedule("SPF-EASY", dependencies=True))
    assert metrics["mean_wait_s"] == 5
    assert metrics["mean_bounded_slowdown"] == pytest.approx((1 + 2.2 + 1 + 1.1) / 4)


def test_the_schedule_keeps_the_order_of_the_table() -> None:
    load = workload((0, 50, 1), (1, 5, 1), (2, 5, 1), B=("A", 0))
    jobs = load.schedule("EASY", dependencies=True).jobs
    assert jobs["job_id"].tolist() == [1, 2, 3]
    assert jobs["submit_s"].tolist() == [0, 50, 2]
    assert jobs["end_s"].tolist() == [50, 55, 7]
    assert jobs["runtime_s"].tolist() == load.runtime


policies = st.fixed_dictionaries(
    {
        "semantics": st.sampled_from(SEMANTICS),
        "correction": st.sampled_from(TABLE_CORRECTIONS),
        "starvation_s": st.sampled_from([None, 0, 3, 50]),
    }
)
any_scheduler = st.one_of(
    schedulers,
    st.builds(lambda name, k: name.replace("EASY", f"EASY(reservations={k})"), st.sampled_from(EASY_NAMES), st.integers(2, 4)),
)


def agree(load: Workload, scheduler: str, predictor: Any, **policy: Any) -> None:
    if scheduler == CONSERVATIVE and policy.get("starvation_s") is not None:
        reject()  # refused: there no job starves
    expected = by_oracle(load, scheduler, predictor, **policy)
    assert by_kernel(load, scheduler, predictor, **policy) == expected


@pytest.mark.slow
@settings(max_examples=125)
@given(dependent_workloads(), any_scheduler, st.sampled_from(PREDICTORS), policies)
def test_any_small_workload_with_dependencies(load: Workload, scheduler: str, predictor: str | None, policy: dict) -> None:
    agree(load, scheduler, predictor, dependencies=True, **policy)


@pytest.mark.slow
@settings(max_examples=75)
@given(dependent_workloads(), st.sampled_from(["FCFS-EASY", "FCFS-EASY-SPF", CONSERVATIVE]), st.sampled_from(SEMANTICS))
def test_last2_learns_and_is_asked_again_where_jobs_follow_others(load: Workload, scheduler: str, semantics: str) -> None:
    agree(load, scheduler, "last2", dependencies=True, semantics=semantics, correction="conditional")


@pytest.mark.slow
@settings(max_examples=75)
@given(dependent_workloads(), any_scheduler, st.integers(0, 9), policies, st.booleans())
def test_predictors_in_python_are_told_and_asked_the_same(
    load: Workload, scheduler: str, seed: int, policy: dict, conditional: bool
) -> None:
    policy = policy | ({"correction": "conditional"} if conditional else {})
    agree(load, scheduler, Moody(seed), dependencies=True, **policy)


@pytest.mark.parametrize("seed", seeds(40))
def test_crowds_with_dependencies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    load = dependent_crowd(rng, machine=int(rng.choice([5, 64])))
    scheduler = [
        "FCFS-EASY",
        "FCFS-EASY-SPF",
        "SAF-EASY-LEXP",
        "F2-EASY-F4",
        "WFP3-EASY-SPF",
        CONSERVATIVE,
        "SPF-JustBF",
        "LEXP-List",
    ][seed % 8]
    predictor = [*PREDICTORS, Moody(seed)][seed % 6]
    policy = {"semantics": SEMANTICS[seed // 8 % 2], "correction": TABLE_CORRECTIONS[seed % 4]}
    agree(load, scheduler, predictor, dependencies=True, **policy)


eighths = st.integers(-8, 8).map(lambda number: number / 8)  # sums of them are exact, so that ties are ties


@pytest.mark.slow
@settings(max_examples=100)
@given(dependent_workloads(), st.tuples(eighths, eighths, eighths).filter(any), st.sampled_from(SEMANTICS))
def test_mixed_policies_with_dependencies(load: Workload, weights: tuple[float, ...], semantics: str) -> None:
    made = by_kernel(load, f"MIXED({','.join(map(str, weights))})-EASY", dependencies=True, semantics=semantics)
    jobs = load.jobs_by_oracle(order=oracle.mixed(*weights), estimates=load.estimates, dependencies=True, semantics=semantics)
    assert (made.submit, made.start) == ([job.submit for job in jobs], [job.start for job in jobs])


@pytest.mark.slow
@settings(max_examples=100)
@given(dependent_workloads(), any_scheduler, policies)
def test_nobody_is_submitted_before_its_predecessor_has_ended_and_the_user_has_thought(
    load: Workload, scheduler: str, policy: dict
) -> None:
    assume(scheduler != CONSERVATIVE or policy["starvation_s"] is None)
    made = by_kernel(load, scheduler, dependencies=True, **policy)
    assert all(start >= submit for start, submit in zip(made.start, made.submit, strict=True))
    for job, before in enumerate(load.predecessors()):
        ended = None if before is None else made.start[before] + load.runtime[before] + (load.think[job] or 0)
        assert made.submit[job] == (load.submit[job] if ended is None else ended)


@pytest.mark.slow
@settings(max_examples=50)
@given(workloads(), any_scheduler, st.sampled_from([*PREDICTORS, Moody(1)]), policies)
def test_dependencies_change_nothing_where_no_job_follows_one_above(
    load: Workload, scheduler: str, predictor: Any, policy: dict
) -> None:
    assume(scheduler != CONSERVATIVE or policy["starvation_s"] is None)
    themselves = list(range(1, len(load.submit) + 1))
    without = by_kernel(load, scheduler, predictor, **policy)
    assert by_kernel(replace(load, preceding=themselves), scheduler, predictor, dependencies=True, **policy) == without


@pytest.mark.slow
@settings(max_examples=50)
@given(dependent_workloads(), any_scheduler, st.randoms(use_true_random=False))
def test_renaming_jobs_changes_nothing(load: Workload, scheduler: str, random: Any) -> None:
    table = load.table()
    names = dict(zip(table["job_id"], random.sample(range(1, 1000), len(table)), strict=True))
    renamed = table.assign(
        job_id=table["job_id"].map(names),
        preceding_job=pd.array([number and names.get(number, 5000 + number) for number in load.preceding], "Int64"),
    )
    settled = [simulate(jobs, procs=load.machine, scheduler=scheduler, dependencies=True).jobs for jobs in (table, renamed)]
    pd.testing.assert_frame_equal(*(jobs.drop(columns="job_id") for jobs in settled))
    assert settled[1]["job_id"].tolist() == renamed["job_id"].tolist()


def test_a_column_that_says_the_same_of_every_job_is_refused() -> None:
    """As in CERIT's trace, where both fields are 1 in every row and mean nothing."""
    load = replace(workload((0, 10, 1), (5, 10, 1), (100, 10, 1)), preceding=[1, 1, 1], think=[1, 1, 1])
    with pytest.raises(InputError, match=r"all 3 jobs name job 1"):
        load.schedule("EASY", dependencies=True)
