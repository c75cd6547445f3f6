"""Planned starts against actual ones, by hand and against a plain reading of the definition."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.metrics.predictability import predictability, told
from sim.metrics.schedule_metrics import evaluate
from tests.sim.metrics.test_schedule_metrics import schedule_of


def plans_of(rows: list[tuple[int, int, int]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["job_id", "time_s", "planned_start_s"])
    return table.astype("int64").assign(cluster="", nodes=None)


def test_what_was_told_first_is_compared_with_what_came():
    # Job 1 starts at once, as planned. Job 2 is told 100, then 70, and starts at 70. Job 3 is told 100, then 140, and starts at 120. No plan of job 4.
    plans = plans_of([(1, 0, 0), (2, 10, 100), (3, 20, 100), (2, 50, 70), (2, 60, 70), (3, 70, 140)])
    schedule = schedule_of([0, 10, 20, 30], [0, 60, 100, 0], [10] * 4, [1] * 4, plans=plans)
    assert predictability(schedule).to_dict() == {
        "jobs_planned": 3,
        "jobs_without_plan": 1,
        "predicted_start_error_s": (0 + 30 + 20) / 3,
        "predicted_start_error_waiting_s": (30 + 20) / 2,
        "plan_changes": (0 + 1 + 1) / 3,
        "plan_drift_s": (0 + 30 + 40 + 20) / 3,
        "started_by_first_plan": 2 / 3,
    }
    assert evaluate(schedule)["predicted_start_error_s"] == 50 / 3


@pytest.mark.parametrize(
    "plans", [None, plans_of([]), plans_of([(9, 0, 0)])], ids=["no planner", "no job planned", "of another job"]
)
def test_a_schedule_without_plans_has_no_error(plans):
    schedule = schedule_of([0], [5], [10], [1], plans=plans)
    assert np.isnan(evaluate(schedule)["predicted_start_error_s"])
    assert predictability(schedule).get("jobs_planned", 0) == 0
    assert predictability(schedule).empty == (plans is None or plans.empty)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=25), st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_drift_is_the_way_from_what_was_told_first_to_the_start(rows, start):
    plans = plans_of([(job, moment, planned) for moment, (job, planned) in enumerate(rows)])
    found = told(plans, np.array([1, 2, 3, 4]), np.array(start))
    for i in range(4):
        way = [planned for job, planned in rows if job == i + 1]
        assert found.planned[i] == bool(way)
        if way:
            steps = [abs(b - a) for a, b in zip(way, [*way[1:], start[i]], strict=True)]
            assert (found.first[i], found.drift[i]) == (way[0], sum(steps))
            assert found.changes[i] == sum(step > 0 for step in steps[:-1])
