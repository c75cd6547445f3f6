"""Jobs that follow others: submitted when those have ended and their user has thought (SWF fields 17 and 18), not as recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim import evaluate, simulate
from tests.support.workloads import Workload, any_scheduler, dependent_workloads

SECONDS = [10, 9, 8, 5]
FOLLOWED = Workload(
    10, [0, 0, 9, 12], SECONDS, [10] * 4, SECONDS, [None] * 4, SECONDS, [None, 1, None, None], [None, 0, None, None]
)
"""The second job comes when the first has ended, as recorded the first second."""


def test_metrics_wait_from_the_simulated_submission() -> None:
    # waits of 0, 13, 1 and 6 s; with tau = 10 s slowdowns of 1, 22/10, 1 (9/10) and 11/10
    metrics = evaluate(FOLLOWED.schedule("SPF-EASY", dependencies=True))
    assert metrics["mean_wait_s"] == 5
    assert metrics["mean_bounded_slowdown"] == pytest.approx((1 + 2.2 + 1 + 1.1) / 4)


@pytest.mark.slow
@settings(max_examples=12)
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
