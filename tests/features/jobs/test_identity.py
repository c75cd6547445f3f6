"""A job is its number, submission and user; a row that repeats it is a copy, unless the number is that of an array."""

import pandas as pd
import pytest

from features.jobs.damage import among, copies, numbers
from features.jobs.schema import jobs_from

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
