"""What a notebook gives: plain DataFrames, Series as predictions, paths, and slips that are refused in one line."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import features.jobs.schema
import queuecast
from features import InputError, Trace, clean, jobs_from
from features.jobs.schema import COLUMNS
from pipelines.readers.read import read_trace
from sim import simulate

FRAME = pd.DataFrame(
    {
        "submit_s": [30, 0, 10, 10, 20],
        "runtime_s": [40, 100, 60, 20, 30],
        "requested_s": [50, 200, 100, 60, 100],
        "procs": [2, 3, 4, 1, 1],
        "user": ["ann", "bob", None, "bob", "eve"],
    },
    index=list("abcde"),
)


def message(call: object, *arguments: object, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)  # type: ignore[operator]
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(("name", "examples"), [("how-to/notebooks.md", 11), ("tutorials/own-scheduler.md", 9)])
def test_the_page_prints_what_it_says(name: str, examples: int) -> None:
    page = Path(__file__).parents[2] / "docs" / name
    failed, attempted = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL | doctest.ELLIPSIS
    )
    assert attempted >= examples
    assert failed == 0
    assert doctest.testmod(features.jobs.schema).failed == 0


def test_a_frame_becomes_a_jobs_table_in_order_of_submission_with_its_labels() -> None:
    jobs = jobs_from(FRAME)
    assert jobs.columns.tolist() == list(COLUMNS)
    assert jobs.index.tolist() == list("bcdea")
    assert jobs["job_id"].tolist() == [2, 3, 4, 5, 1]
    assert jobs["user"].tolist()[0] == "bob"
    assert jobs["user"].isna().tolist() == [False, True, False, False, False]
    assert jobs["wait_s"].isna().all()
    assert jobs_from(FRAME.assign(submit_s=FRAME["submit_s"].astype(float), user=[1, 2, None, 2, 3])).equals(
        jobs.assign(user=pd.Categorical(["2.0", None, "2.0", "3.0", "1.0"]))
    )
    partly = jobs_from(FRAME.assign(requested_s=[50, 200, np.nan, 60, 100], wait_s=pd.array([0, 1, None, 3, 4], "Int64")))
    assert partly["requested_s"].isna().tolist() == [False, True, False, False, False]
    assert partly["wait_s"].fillna(-1).tolist() == [1, -1, 3, 4, 0]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"requested": 1}, "unknown column 'requested'; known: " + ", ".join(COLUMNS)),
        ({"procs": None}, "column procs is of type object, not of whole numbers"),
        ({"procs": "4"}, "column procs is of type str, not of whole numbers"),
        ({"procs": True}, "column procs is of type bool, not of whole numbers"),
        ({"runtime_s": [1, 2, 3.5, 4, 5]}, "row 'c': runtime_s np.float64(3.5) is not a whole number (1 such rows)"),
        (
            {"runtime_s": [1, -1, 3, -1, 5]},
            "row 'b': runtime_s np.int64(-1) is below 0: leave unknown values empty (2 such rows)",
        ),
        ({"submit_s": [1, np.nan, 3, 4, 5]}, "row 'b': submit_s np.float64(nan) is missing (1 such rows)"),
        ({"submit_s": [1, np.inf, 3, 4, 5]}, "row 'b': submit_s np.float64(inf) is not a whole number (1 such rows)"),
        (
            {"submit_s": pd.Timestamp("2024-05-01")},
            "column submit_s is of type datetime64[us], not of whole numbers (seconds since the first: (t - t.min()).dt.total_seconds())",
        ),
        ({"status": 7}, "row 'a': status np.int64(7) is not a status from 0 to 5 (5 such rows)"),
    ],
    ids=str,
)
def test_what_is_no_jobs_table_is_refused_by_column_and_row(change: dict[str, object], error: str) -> None:
    assert message(jobs_from, FRAME.assign(**change)) == error


@pytest.mark.parametrize("predictor", ["requested", "last2", "hierarchy", "knn", "nag"])
def test_index_labels_change_no_schedule(predictor: str) -> None:
    jobs = jobs_from(FRAME)
    labelled = simulate(jobs, procs=4, scheduler="EASY-SJBF", predictor=predictor, correction="tsafrir")
    plain = simulate(jobs.reset_index(drop=True), procs=4, scheduler="EASY-SJBF", predictor=predictor, correction="tsafrir")
    pd.testing.assert_frame_equal(labelled.jobs, plain.jobs)


def test_a_series_of_predictions_finds_its_jobs_by_label() -> None:
    jobs = jobs_from(FRAME)
    by_position = simulate(jobs, procs=4, scheduler="EASY-SJBF", predictor=jobs["runtime_s"].to_numpy())
    for series in (FRAME["runtime_s"], FRAME["runtime_s"].iloc[::-1], FRAME["runtime_s"].astype("Int64"), jobs["runtime_s"]):
        by_label = simulate(jobs, procs=4, scheduler="EASY-SJBF", predictor=series)
        pd.testing.assert_frame_equal(by_label.jobs, by_position.jobs)
    assert by_position.jobs["predicted_s"].tolist() == [100, 60, 20, 30, 40]
    for frame in (FRAME, FRAME.reset_index(drop=True), FRAME.sort_values("submit_s").reset_index(drop=True).iloc[::-1]):
        cleaned = queuecast.simulate(frame, "EASY-SJBF", frame["runtime_s"], procs=4).jobs
        assert (cleaned["predicted_s"] == cleaned["runtime_s"]).all()


def test_a_schedule_shows_itself_in_five_lines() -> None:
    lines = repr(simulate(jobs_from(FRAME), procs=4, scheduler="EASY-SJBF", predictor="last2")).splitlines()
    assert len(lines) == 5
    assert lines[0] == "Schedule of a trace: EASY-SJBF / last2, correction requested"
    assert lines[-1].split("; ")[0] == "  waits      mean 46 s, max 130 s"


JOBS = jobs_from(FRAME)
DAY = pd.Timestamp("2024-05-01")
MORE = "features.jobs_from tells more"
BAD = {
    "procs": ((JOBS,), {"procs": "100"}, "procs is '100', not a whole number of at least 1 processor"),
    "half": ((JOBS,), {"procs": 4.5}, "procs is 4.5, not a whole number of at least 1 processor"),
    "none": ((JOBS,), {"procs": None}, "give procs, the number of processors, or a machine"),
    "column": ((JOBS.drop(columns="runtime_s"),), {}, "the jobs table has no column runtime_s: features.jobs_from makes a complete table"),
    "twice": ((pd.concat([JOBS, JOBS[["procs"]]], axis=1),), {}, "the jobs table has the column procs twice"),
    "unsorted": ((JOBS.iloc[::-1],), {}, "3 jobs are submitted before the job above them, the first is job 5: clean the trace first"),
    "nan": ((JOBS.assign(runtime_s=np.nan),), {}, "runtime_s is missing for 5 jobs: clean the trace first"),
    "one nan": ((JOBS.assign(procs=[1, 2, np.nan, 1, 1]),), {}, "procs is missing for 1 jobs: clean the trace first"),
    "fraction": ((JOBS.assign(runtime_s=[1, 2, 3.5, 1, 1]),), {}, "runtime_s 3.5 of job 4 is not a whole number"),
    "text": ((JOBS.assign(procs="4"),), {}, "column procs is of type str, not of whole numbers: " + MORE),
    "times": ((JOBS.assign(submit_s=DAY),), {}, "column submit_s is of type datetime64[us], not of whole numbers: " + MORE),
    "users": ((JOBS.assign(user="ann"),), {}, "column user is of type str, not of categories: features.jobs_from makes them"),
    "series": ((JOBS["procs"],), {}, "a Series is not a jobs table: features.jobs_from makes one of a DataFrame"),
    "trace": ((clean(Trace("t", JOBS, procs=4)),), {}, "a CleanTrace is not a jobs table: give its .jobs"),
    "predictor": ((JOBS,), {"predictor": {}}, "a dict is not a predictor: give a name, a predictor, or seconds, one a job"),
    "too few": ((JOBS,), {"predictor": [1, 2]}, "predictor given: (2,) predictions for 5 jobs"),
}  # fmt: skip


@pytest.mark.parametrize("slip", BAD)
def test_every_misuse_of_simulate_is_one_line(slip: str) -> None:
    arguments, options, error = BAD[slip]
    assert message(simulate, *arguments, **{"procs": 4} | options) == error


def test_a_trace_is_read_from_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "; MaxProcs: 64\n1 0 5 100 4 -1 -1 4 3600 -1 1 3 2 7 1 2 -1 -1\n"
    Path("a.swf").write_text(text)
    Path("generated").write_text(text)
    assert read_trace(Path("a.swf")).name == "a"
    assert len(read_trace(Path("generated")).jobs) == 1
    assert message(read_trace, Path("b.swf")) == "b.swf: no such file"
    assert message(read_trace, None) == "a NoneType is neither a name of the catalogue nor a path"
