"""Fairness between users, against hand-made cases and a plain reading of the definition."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim.metrics.user_fairness import acceptable_wait_s, dissatisfaction, fairness, per_user
from tests.conftest import needs_shared
from tests.sim.metrics.test_schedule_metrics import reference, schedule_of

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


def test_acceptable_wait_grows_with_the_logarithm_of_processors():
    waits = acceptable_wait_s(np.array([1, 64]), np.array([H, H]))
    assert waits[1] / waits[0] == pytest.approx(math.log(64) + 1)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 400 * H), min_size=2, max_size=50))
def test_only_the_programs_floors_make_acceptable_wait_rise_with_the_request(requests):
    requested = np.sort(np.array(requests))
    waits = acceptable_wait_s(np.ones(len(requested)), requested, "program")
    assert (np.diff(waits) >= 0).all()
    falls = acceptable_wait_s(np.ones(2), np.array([3 * H - 1, 3 * H]), "paper")
    assert falls[1] < falls[0]


def test_an_unknown_rule_names_the_known_ones():
    with pytest.raises(InputError, match="paper, program"):
        acceptable_wait_s(np.ones(1), np.ones(1), "mine")  # type: ignore[arg-type]


jobs = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(1, 9), st.integers(1, 8), st.sampled_from("abc")),
    min_size=1,
    max_size=20,
)


@settings(deadline=None, max_examples=60)
@given(jobs)
def test_a_user_accepts_the_sum_over_its_jobs_that_wait_at_the_submission(rows):
    submit, wait, runtime, procs, user = zip(*sorted(rows), strict=True)
    schedule = schedule_of(submit, wait, runtime, procs, user=user)
    table = schedule.jobs
    found = dissatisfaction(schedule, summed="waiting")
    for i in range(len(table)):
        if wait[i] == 0:
            assert found[i] == 0
            continue
        waiting = [k for k in range(len(table)) if user[k] == user[i] and submit[k] <= submit[i] < table["start_s"][k]]
        accepted = sum((math.log(procs[k]) + 1) * runtime[k] for k in waiting)  # requests below 3 h: divisor 1, no floor
        assert found[i] == pytest.approx(wait[i] / accepted, rel=1e-12)


@settings(deadline=None, max_examples=60)
@given(jobs)
def test_a_user_accepts_the_sum_over_its_jobs_present_at_its_last_submission(rows):
    submit, wait, runtime, procs, user = zip(*sorted(rows), strict=True)
    schedule = schedule_of(submit, wait, runtime, procs, user=user)
    table, own = schedule.jobs, [[k for k in range(len(submit)) if user[k] == name] for name in user]
    found = dissatisfaction(schedule)
    for i in range(len(table)):
        last = max(submit[k] for k in own[i] if submit[k] <= table["start_s"][i])
        present = [k for k in own[i] if submit[k] <= last < table["end_s"][k]]
        accepted = sum((math.log(procs[k]) + 1) * runtime[k] for k in present)
        assert found[i] == pytest.approx(wait[i] / accepted, rel=1e-12)


def test_the_two_readings_by_hand():
    # User a, one processor each. A is submitted at 0, waits 1 h and runs until 3 h (2 h); B, 1 h, is submitted at 1.5 h and starts at 4.5 h; C, 1 h, at
    # 4 h and starts at 5 h. B waits 3 h: at its submission it alone waits (1 h), and A is present (3 h); at its start a has last submitted C, when B
    # and C were there (2 h).
    schedule = schedule_of([0, 1.5 * H, 4 * H], [H, 3 * H, H], [2 * H, H, H], [1, 1, 1], user=["a"] * 3)
    assert dissatisfaction(schedule, summed="waiting").tolist() == [0.5, 3.0, 0.5]
    assert dissatisfaction(schedule, summed="present").tolist() == [0.5, 1.5, 0.5]
    assert [fairness(schedule, summed=one)["dissatisfied_jobs"] for one in ("waiting", "present")] == [1, 1]
    # without C the limit is that of B's own submission, with A running
    schedule = schedule_of([0, 1.5 * H], [H, 3 * H], [2 * H, H], [1, 1], user=["a"] * 2)
    assert dissatisfaction(schedule, summed="waiting").tolist() == [0.5, 3.0]
    assert dissatisfaction(schedule).tolist() == [0.5, 1.0]
    assert [fairness(schedule, summed=one)["dissatisfied_jobs"] for one in ("waiting", "present")] == [1, 0]


def test_an_unknown_reading_names_the_known_ones():
    with pytest.raises(InputError, match="unknown reading of the jobs summed up 'mine'; known: present, waiting"):
        dissatisfaction(schedule_of([0], [0], [1], [1], user=["a"]), summed="mine")  # type: ignore[arg-type]


def test_nuwt_is_total_wait_over_processor_seconds_used():
    schedule = schedule_of([0, 0, 5], [10, 30, 2], [100, 50, 4], [2, 1, 1], user=["a", "b", "a"])
    users = per_user(schedule)
    assert list(users.index) == ["a", "b"]
    nuwt = [12 / 204, 30 / 50]
    assert users["nuwt"].tolist() == pytest.approx(nuwt)
    record = fairness(schedule)
    assert record["nuwt_mean"] == pytest.approx(np.mean(nuwt))
    assert record["nuwt_std"] == pytest.approx(np.std(nuwt))


def test_complaints_are_counted_by_user_and_job():
    # One processor, one hour: an hour is accepted. User a has two jobs waiting at once and so accepts two.
    schedule = schedule_of([0, 0, 0], [2 * H, 2 * H + 1, H + 1], [H, H, H], [1, 1, 1], user=["a", "a", "b"])
    users = per_user(schedule)
    assert users["dissatisfied_jobs"].tolist() == [1, 1]
    record = fairness(schedule)
    assert (record["users"], record["dissatisfied_users"], record["dissatisfied_jobs"]) == (2, 2, 2)


def test_jobs_of_no_known_user_are_counted_apart():
    schedule = schedule_of([0, 0], [10, 20], [10, 10], [1, 1], user=["a", None])
    record = fairness(schedule)
    assert (record["users"], record["jobs_without_user"]) == (1, 1)
    assert record["nuwt_mean"] == 1.0
    assert np.isnan(dissatisfaction(schedule)[1])


def test_a_trace_without_users_says_so():
    schedule = schedule_of([0], [0], [1], [1], user=pd.Categorical.from_codes([-1], categories=["x"]))
    with pytest.raises(InputError, match="names no users"):
        fairness(schedule)


@needs_shared
def test_nuwt_of_a_whole_trace_agrees_with_plain_python():
    schedule = reference("kth-sp2", "easy_requested")
    wait: dict[int, int] = {}
    area: dict[int, int] = {}
    for job in schedule.jobs.itertuples():
        wait[job.user] = wait.get(job.user, 0) + job.start_s - job.submit_s
        area[job.user] = area.get(job.user, 0) + job.procs * job.runtime_s
    values = [wait[user] / area[user] for user in wait]
    record = fairness(schedule)
    assert record["users"] == len(values)
    assert record["nuwt_mean"] == pytest.approx(math.fsum(values) / len(values), rel=1e-12)
    assert record["nuwt_std"] == pytest.approx(np.std(values), rel=1e-12)
