"""Acceptable waits and complaints, against hand-made cases and a plain reading of the definition."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.metrics.satisfaction import acceptable_wait_s, dissatisfaction, user_jobs
from sim.metrics.schedule_metrics import evaluate
from sim.metrics.user_fairness import fairness, per_user
from tests.sim.metrics.test_schedule_metrics import schedule_of

H = 3600


@pytest.mark.parametrize(
    ("requested_h", "paper_h", "program_h"),
    [
        (1, 1, 1),
        (2.99, 2.99, 2.99),
        (3, 1.5, 3),
        (6.99, 3.495, 3.495),
        (7, 7 / 3, 3.5),
        (24, 6, 8),
        (100, 25, 25),
        (168, 33.6, 42),
        (336, 67.2, 67.2),
    ],
)
def test_acceptable_wait_of_one_processor_steps_where_the_divisor_does(requested_h, paper_h, program_h):
    requested = np.array([requested_h * H])
    assert acceptable_wait_s(np.array([1]), requested, "paper")[0] == pytest.approx(paper_h * H)
    assert acceptable_wait_s(np.array([1]), requested, "program")[0] == pytest.approx(program_h * H)


jobs = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(1, 9), st.integers(1, 8), st.sampled_from("abc")),
    min_size=1,
    max_size=20,
)


def accepted_s(rows: list, i: int) -> float:
    """The definition, job by job; requests below 3 h have divisor 1 and no floor."""
    submit, wait, runtime, procs, user = zip(*rows, strict=True)
    start = [submit[k] + wait[k] for k in range(len(rows))]
    own = [k for k in range(len(rows)) if user[k] == user[i]]
    at = max(submit[k] for k in own if submit[k] <= start[i])
    gone = [start[k] + runtime[k] for k in range(len(rows))]
    return sum((math.log(procs[k]) + 1) * runtime[k] for k in own if k == i or (submit[k] <= at < gone[k]))


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(jobs)
def test_a_user_accepts_the_sum_over_its_jobs_present_when_it_last_submitted(rows):
    rows = sorted(rows)
    submit, wait, runtime, procs, user = zip(*rows, strict=True)
    ratios = dissatisfaction(user_jobs(schedule_of(submit, wait, runtime, procs, user=user)))
    expected = [wait[i] / accepted_s(rows, i) for i in range(len(rows))]
    assert ratios.tolist() == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("users", "complaints"), [("open", 0), ("open(patience=program)", 0), ("open(patience=paper)", 1)])
def test_users_complain_by_the_rule_that_their_name_says(users, complaints):
    # three hours are requested and two waited: printed, half the request is accepted; the released program accepts three hours
    schedule = replace(schedule_of([0], [2 * H], [H], [1], requested=[3 * H], user=["a"]), users=users)
    assert (
        evaluate(schedule)["complaints"]
        == fairness(schedule)["complaints"]
        == (dissatisfaction(user_jobs(schedule)) > 1).sum()
        == complaints
    )


def test_complaints_are_counted_by_user_and_job():
    # One processor, one hour: an hour is accepted. User a has two jobs waiting at once and so accepts two.
    schedule = schedule_of([0, 0, 0], [2 * H, 2 * H + 1, H + 1], [H, H, H], [1, 1, 1], user=["a", "a", "b"])
    users = per_user(schedule)
    assert users["complaints"].tolist() == [1, 1]
    record = fairness(schedule)
    assert (record["users"], record["complaining_users"], record["complaints"]) == (2, 2, 2)
    assert evaluate(schedule)["complaints"] == 2


def test_sums_of_jobs_of_three_centuries_are_exact():
    # an hour's limit must not drown in the running sums of other jobs
    submit, requested = [0] * 2000 + [10**9], [10**10] * 2000 + [H]
    schedule = schedule_of(submit, [0] * 2000 + [H], [1] * 2001, [64] * 2000 + [1], requested=requested, user=["a"] * 2001)
    assert dissatisfaction(user_jobs(schedule))[-1] == 1.0
