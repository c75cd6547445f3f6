"""Planned starts against actual ones, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sim.metrics.predictability import first_told
from sim.metrics.schedule_metrics import evaluate
from tests.sim.metrics.test_schedule_metrics import schedule_of


def plans_of(rows: list[tuple[int, int, int]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["job_id", "time_s", "planned_start_s"])
    return table.astype("int64").assign(cluster="", nodes=None)


def test_what_was_told_first_is_compared_with_what_came():
    # Job 1 starts at once, as planned. Job 2 is told 100, then 70, and starts at 70. Job 3 is told 100, then 140, and starts at 120. No plan of job 4.
    plans = plans_of([(1, 0, 0), (2, 10, 100), (3, 20, 100), (2, 50, 70), (2, 60, 70), (3, 70, 140)])
    schedule = schedule_of([0, 10, 20, 30], [0, 60, 100, 0], [10] * 4, [1] * 4, plans=plans)
    np.testing.assert_array_equal(first_told(plans, np.array([1, 2, 3, 4])), [0, 100, 100, np.nan])
    assert evaluate(schedule)["predicted_start_error_s"] == 50 / 3


@pytest.mark.parametrize(
    "plans", [None, plans_of([]), plans_of([(9, 0, 0)])], ids=["no planner", "no job planned", "of another job"]
)
def test_a_schedule_without_plans_has_no_error(plans):
    schedule = schedule_of([0], [5], [10], [1], plans=plans)
    assert np.isnan(evaluate(schedule)["predicted_start_error_s"])
