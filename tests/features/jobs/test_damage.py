"""A repeated row of a job is a copy, and rows far beyond all others do not set the file's own clock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from features.jobs.cleaning import AHEAD, BEHIND, COPY, clean
from features.jobs.damage import among, copies, file_clock, numbers
from features.jobs.schema import Trace, conform, jobs_from, masked
from features.jobs.usage import usage
from pipelines.readers.read import read_trace
from tests.conftest import SHARED, needs_shared

YEAR_S = 365 * DAY_S


def trace(count: int = 600, **changed: tuple[int, int]) -> Trace:
    """``count`` jobs an hour apart; ``changed`` is a row and its value by column."""
    columns = {
        "job_id": np.arange(count),
        "submit_s": np.arange(count) * 3600,
        "wait_s": np.full(count, 60),
        "runtime_s": np.full(count, 1800),
        "procs": np.ones(count, np.int64),
        "requested_s": np.full(count, 9 * YEAR_S),
    }
    for name, (row, value) in changed.items():
        columns[name][row] = value
    return Trace("clocked", conform({**columns, "wait_s": masked(columns["wait_s"], np.ones(count, bool))}, count), procs=4)


@pytest.mark.parametrize("column", ["submit_s", "wait_s", "runtime_s"])
@pytest.mark.parametrize("row", [3, 599])
def test_one_row_far_ahead_is_left_out_with_the_column_that_puts_it_there(column: str, row: int) -> None:
    cleaned = clean(trace(**{column: (row, 3 * YEAR_S)}))
    assert len(cleaned.jobs) == 599
    assert cleaned.rejected_jobs[["rule", "action", "column", "before"]].to_numpy().tolist() == [
        [AHEAD, "dropped", column, 3 * YEAR_S]
    ]


def test_what_the_trace_itself_reaches_is_not_ahead() -> None:
    assert len(clean(trace(wait_s=(3, 20 * DAY_S))).jobs) == 600
    assert len(clean(trace(runtime_s=(599, 29 * DAY_S))).jobs) == 600
    assert len(clean(trace(count=40, wait_s=(3, 3 * YEAR_S))).jobs) == 40  # too few to tell


def test_the_clock_leaves_out_ten_rows_and_not_eleven() -> None:
    submit, stay = np.arange(600.0) * 3600, np.full(600, 100.0)
    for many, moved in ((10, False), (11, True)):
        late = np.where(np.arange(600) < many, 3.0 * YEAR_S, stay)
        assert (file_clock(submit, late)[1] > YEAR_S) == moved


@pytest.mark.parametrize("early", [1, 12])
def test_few_jobs_years_before_all_others_are_left_out(early: int) -> None:
    late = trace()
    submit = late.jobs["submit_s"].where(late.jobs["submit_s"] < early * 3600, late.jobs["submit_s"] + 3 * YEAR_S)
    jobs = late.jobs.assign(submit_s=submit)
    cleaned = clean(replace(late, jobs=jobs))
    assert (len(cleaned.jobs), cleaned.counts().to_dict()) == (600 - early, {("dropped", BEHIND): early})
    assert usage(jobs) == usage(cleaned.jobs)


@needs_shared
@pytest.mark.parametrize("log", sorted((SHARED / "traces").glob("*.[sc][wsv][fv]*")), ids=lambda path: path.name)
def test_no_job_of_a_real_log_is_behind_its_clock_or_a_copy(log: Path) -> None:
    read = read_trace(log, timezone="America/Denver")
    rules = clean(read, procs=200_000, missing_request="runtime").rejected_jobs["rule"]
    assert not {BEHIND, COPY} & set(rules)


@needs_shared
def test_the_job_that_ends_three_weeks_after_the_last_submission_stays() -> None:
    cleaned = clean(read_trace(str(SHARED / "traces" / "CERIT-wagap-2013.swf.gz"), procs=2176))
    assert AHEAD not in set(cleaned.rejected_jobs["rule"])
    end = cleaned.jobs["submit_s"] + cleaned.jobs["wait_s"] + cleaned.jobs["runtime_s"]
    assert end.max() - cleaned.jobs["submit_s"].max() > 21 * DAY_S


JOB = {"job_id": 7, "submit_s": 0, "wait_s": 5, "runtime_s": 60, "procs": 2, "requested_s": 90, "user": "ann"}


@pytest.mark.parametrize(
    ("rows", "repeated"),
    [
        ([JOB, JOB, JOB], [False, True, True]),
        ([JOB, {**JOB, "submit_s": 9}], [False, False]),  # the number was used again
        ([JOB, {**JOB, "user": "bob"}], [False, False]),
        ([JOB, {**JOB, "wait_s": 6}, JOB], [False] * 3),  # tasks of an array that share its number
        ([{**JOB, "job_id": -1}] * 2, [False, False]),  # no number
    ],
)
def test_a_row_is_a_copy_if_it_repeats_the_only_job_of_its_identity(rows: list[dict], repeated: list[bool]) -> None:
    assert copies(jobs_from(pd.DataFrame(rows))).tolist() == repeated


def test_a_job_is_called_as_its_source_writes_it() -> None:
    jobs = jobs_from(pd.DataFrame([JOB, JOB]))
    assert numbers(jobs.assign(written_id=pd.Categorical([None, "7_3"]))).tolist() == ["7", "7_3"]


def test_a_job_is_found_by_number_and_submission() -> None:
    jobs = jobs_from(pd.DataFrame([JOB, {**JOB, "submit_s": 9}, {**JOB, "job_id": 8}]))
    assert among(jobs, jobs.iloc[[1]].astype({"submit_s": "Int64"})).tolist() == [False, True, False]
