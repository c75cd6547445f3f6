"""Jobs that follow others: submitted when those have ended and their user has thought (SWF fields 17 and 18), not as recorded.

The compiled simulator is held against the oracle on random workloads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
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
    agree,
    by_kernel,
    dependent_crowd,
    dependent_workloads,
    schedulers,
)

FOLLOWED = Workload(
    10,
    [0, 0, 9, 12],
    [10, 9, 8, 5],
    [10] * 4,
    [10, 9, 8, 5],
    [None] * 4,
    [10, 9, 8, 5],
    [None, 1, None, None],
    [None, 0, None, None],
)
"""The second job comes when the first has ended, as recorded the first second."""


def test_metrics_wait_from_the_simulated_submission() -> None:
    # waits of 0, 13, 1 and 6 s; with tau = 10 s slowdowns of 1, 22/10, 1 (9/10) and 11/10
    metrics = evaluate(FOLLOWED.schedule("SPF-EASY", dependencies=True))
    assert metrics["mean_wait_s"] == 5
    assert metrics["mean_bounded_slowdown"] == pytest.approx((1 + 2.2 + 1 + 1.1) / 4)


def test_the_schedule_keeps_the_order_of_the_table() -> None:
    jobs = FOLLOWED.schedule("SPF-EASY", dependencies=True).jobs
    assert jobs[["job_id", "submit_s", "end_s", "runtime_s"]].T.to_numpy().tolist() == [
        [1, 2, 3, 4],
        [0, 10, 9, 12],
        [10, 32, 18, 23],
        [10, 9, 8, 5],
    ]


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
    with pytest.raises(InputError, match=r"all 4 jobs name job 1"):
        replace(FOLLOWED, preceding=[1] * 4, think=[1] * 4).schedule("EASY", dependencies=True)
