"""Tests of tables as columns: the same as DataFrames, which are made when they are read."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from features import Trace, clean, jobs_from
from features.jobs.columns import TableColumns, Texts, changed, columns, held
from features.jobs.usage import usage
from sim import simulate

FRAME = jobs_from(
    pd.DataFrame(
        {
            "submit_s": [5, 0, 9],
            "runtime_s": [1, None, 3],
            "procs": [1, 2, 3],
            "requested_s": [9, 9, 9],
            "status": [1, None, 0],
            "user": ["b", None, "a"],
        }
    )
)


@pytest.mark.parametrize("labels", [[0, 1, 2], [7, 3, 5], ["x", "y", "z"]])
def test_a_table_as_columns_gives_the_same_dataframe(labels: list[object]) -> None:
    frame = FRAME.set_axis(pd.Index(labels) if labels != [0, 1, 2] else pd.RangeIndex(3))
    pd.testing.assert_frame_equal(columns(frame).frame(), frame)
    rows = np.array([2, 0])
    pd.testing.assert_frame_equal(
        columns(frame.set_axis(pd.Index(labels))).rows(rows).frame().reset_index(drop=True), frame.iloc[rows].reset_index(drop=True)
    )


def test_labels_that_repeat_name_no_row() -> None:
    assert columns(FRAME.set_axis([4, 4, 5])).labels is None


def test_texts_have_sorted_names_and_a_code_for_a_missing_one() -> None:
    texts = Texts.of(["b", None, "a", "b"])
    assert (texts.codes.tolist(), texts.names, texts.tolist()) == ([1, -1, 0, 1], ["a", "b"], ["b", None, "a", "b"])
    assert TableColumns({"plain": Texts.of(["b", None], plain=True)}).frame()["plain"].dtype == "str"


def test_a_dataclass_holds_columns_until_its_table_is_read() -> None:
    cleaned = clean(Trace("t", FRAME, procs=4))
    assert isinstance(held(cleaned), TableColumns)
    assert isinstance(held(changed(cleaned, name="u")), TableColumns)
    assert isinstance(held(cleaned), TableColumns)
    assert cleaned.jobs is cleaned.jobs is held(cleaned)
    again = pickle.loads(pickle.dumps(replace(cleaned, name="u")))
    pd.testing.assert_frame_equal(again.jobs, cleaned.jobs)
    pd.testing.assert_frame_equal(again.rejected_jobs, cleaned.rejected_jobs)


@pytest.mark.parametrize("kind", ["float64", "Float64", "int64[pyarrow]"])
def test_other_types_of_numbers_are_cleaned_alike(kind: str) -> None:
    """Tables of a Trace made by hand, with missing numbers among them."""
    recorded = FRAME.assign(wait_s=pd.array([3, None, 0], "Int64"), allocated_procs=pd.array([None, 2, 3], "Int64"))
    other = recorded.astype(dict.fromkeys(("wait_s", "runtime_s", "procs", "allocated_procs", "requested_s"), kind))
    assert usage(other) == usage(recorded)
    as_declared, cleaned = (clean(Trace("t", table, procs=4)) for table in (recorded, other))
    assert cleaned.touched() == as_declared.touched() == {"no-runtime dropped": 1}
    pd.testing.assert_frame_equal(cleaned.jobs, as_declared.jobs, check_dtype=False)


@pytest.mark.parametrize(("column", "value"), [("procs", 3), ("runtime_s", 2), ("user", "b")])
def test_an_edited_schedule_leaves_its_jobs_as_they_are(column: str, value: object) -> None:
    jobs = clean(Trace("t", FRAME, procs=4)).jobs
    as_cleaned = jobs.copy(deep=True)
    schedule = simulate(jobs, procs=4)
    schedule.jobs.loc[schedule.jobs.index[-1], column] = value
    pd.testing.assert_frame_equal(jobs, as_cleaned)
    assert schedule.jobs[column].iloc[-1] == value
