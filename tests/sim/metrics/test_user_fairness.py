"""Fairness between users, against hand-made cases and a plain reading of the definition."""

from __future__ import annotations

import numpy as np
import pytest

from sim.metrics.schedule_metrics import evaluate
from sim.metrics.user_fairness import fairness, fairness_of, per_user, user_jobs
from tests.sim.metrics.test_schedule_metrics import schedule_of


def test_nuwt_is_total_wait_over_processor_seconds_used():
    schedule = schedule_of([0, 0, 5], [10, 80, 2], [100, 50, 4], [2, 1, 1], user=["a", "b", "a"])
    users = per_user(schedule)
    assert list(users.index) == ["a", "b"]
    values = [12 / 204, 80 / 50]
    assert users["nuwt"].tolist() == pytest.approx(values)
    record = fairness(schedule)
    assert record["nuwt_mean"] == pytest.approx(np.mean(values))
    assert record["nuwt_sd"] == pytest.approx(np.std(values))
    assert record["nuwt_below_1"] == 0.5
    assert evaluate(schedule)[["nuwt_mean", "nuwt_sd"]].to_dict() == pytest.approx(record[["nuwt_mean", "nuwt_sd"]].to_dict())


def test_a_user_that_used_nothing_is_left_out_of_mean_and_deviation():
    schedule = schedule_of([0, 0], [5, 5], [10, 10], [1, 1], user=["a", "b"])
    schedule.jobs.loc[0, "runtime_s"] = 0
    record = fairness(schedule)
    assert per_user(schedule)["nuwt"].isna().tolist() == [True, False]
    assert (record["users"], record["nuwt_mean"], record["nuwt_sd"], record["nuwt_below_1"]) == (2, 0.5, 0.0, 1.0)
    assert fairness_of(user_jobs(schedule))["nuwt_mean"] == 0.5


def test_jobs_of_no_known_user_are_counted_apart():
    schedule = schedule_of([0, 0], [10, 20], [10, 10], [1, 1], user=["a", None])
    record = fairness(schedule)
    assert (record["users"], record["jobs_without_user"]) == (1, 1)
    assert record["nuwt_mean"] == 1.0
    assert evaluate(schedule)["nuwt_mean"] == 1.0
