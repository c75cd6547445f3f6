"""Windows keep every job once, drop the jobs the rules name, and each can be simulated as it stands."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.clock import DAY_S, WEEK_S
from features.errors import InputError
from features.jobs.schema import REQUIRED, conform
from sim.campaigns.windows import split_windows

ORIGIN_S = 1234


def table(submit: list[int], wait: list[int | None] | None = None, runtime: list[int] | None = None) -> pd.DataFrame:
    """A cleaned jobs table, jobs numbered from 101, submissions given from the first one, which is not second 0."""
    columns = {
        "job_id": range(101, 101 + len(submit)),
        "submit_s": ORIGIN_S + np.array(submit),
        "wait_s": wait,
        "runtime_s": runtime or [1] * len(submit),
        "procs": [1] * len(submit),
        "requested_s": [10 * WEEK_S] * len(submit),
        "user": ["ann"] * len(submit),
    }
    return conform(columns, len(submit)).astype(dict.fromkeys(REQUIRED, "int64"))


def members(jobs: pd.DataFrame, split: str = "weeks", **rules) -> dict[int, list[int]]:
    return {window.number: window.jobs["job_id"].tolist() for window in split_windows(jobs, split, **rules).windows}


def test_weeks_count_from_the_first_submission_and_end_before_the_next_begins() -> None:
    jobs = table([0, WEEK_S - 2, WEEK_S, 2 * WEEK_S - 2, 2 * WEEK_S])
    assert members(jobs, skip_first=False) == {0: [101, 102], 1: [103, 104], 2: [105]}
    window = split_windows(jobs, "weeks").windows[0]
    assert (window.number, window.begin_s, window.end_s) == (1, ORIGIN_S + WEEK_S, ORIGIN_S + 2 * WEEK_S)


def test_the_first_window_is_left_out_and_its_jobs_are_named() -> None:
    split = split_windows(table([0, 5, WEEK_S, WEEK_S + 5]), "weeks")
    assert [window.number for window in split.windows] == [1]
    assert split.dropped.to_dict("list") == {"job_id": [101, 102], "rule": ["first-window", "first-window"]}
    assert split.counts() == {"first-window": 2}


def test_a_job_that_starts_in_one_window_and_ends_in_another_is_dropped() -> None:
    last = WEEK_S - 100  # the submission of all, in seconds before the second week begins
    jobs = table([last] * 4, wait=[0, 0, 100, 99], runtime=[99, 100, 50, 50])
    jobs = pd.concat([table([0], wait=[0]).assign(job_id=1), jobs], ignore_index=True)
    split = split_windows(jobs, "weeks", skip_first=False)
    # 101 ends in the last second of its week, 102 in the first of the next; 103 was submitted in this week, but ran wholly in the next
    assert [window.jobs["job_id"].tolist() for window in split.windows] == [[1, 101, 103]]
    assert split.dropped.to_dict("list") == {"job_id": [102, 104], "rule": ["crosses-windows", "crosses-windows"]}
    assert split.basis == "recorded starts and ends"
    assert members(jobs, skip_first=False, drop="none") == {0: [1, 101, 102, 103, 104]}


def test_where_no_start_is_recorded_the_submission_stands_for_it_and_the_result_says_so() -> None:
    submit, runtime = [0, WEEK_S - 10, WEEK_S - 10], [1, 9, 10]
    split = split_windows(table(submit, runtime=runtime), "weeks", skip_first=False)
    assert split.windows[0].jobs["job_id"].tolist() == [101, 102]
    assert split.basis == "submission and submission + runtime, as no start is recorded"
    partly = split_windows(table(submit, wait=[0, 5, None], runtime=runtime), "weeks", skip_first=False)
    assert partly.windows[0].jobs["job_id"].tolist() == [101]
    assert partly.basis.endswith("submission and submission + runtime for 1 jobs whose start is not recorded")


def test_windows_without_jobs_are_named_whether_nobody_came_or_everybody_was_dropped() -> None:
    jobs = table([0, WEEK_S, 3 * WEEK_S - 5, 5 * WEEK_S], runtime=[1, 1, 9, 1])
    split = split_windows(jobs, "weeks")
    assert [window.number for window in split.windows] == [1, 5]
    assert split.empty == (2, 3, 4)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data())
def test_every_job_is_in_one_window_or_dropped_by_one_rule(data: st.DataObject) -> None:
    days = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=30).map(sorted))
    wait = data.draw(st.lists(st.one_of(st.none(), st.integers(0, WEEK_S)), min_size=len(days), max_size=len(days)))
    runtime = data.draw(st.lists(st.integers(1, WEEK_S), min_size=len(days), max_size=len(days)))
    jobs = table([day * DAY_S for day in days], wait, runtime)
    rules = {"skip_first": data.draw(st.booleans()), "drop": data.draw(st.sampled_from(["crossing", "none"]))}
    try:
        split = split_windows(jobs, "weeks", **rules)
    except InputError:
        return
    held = [job for window in split.windows for job in window.jobs["job_id"]]
    assert Counter(held + split.dropped["job_id"].tolist()) == Counter(jobs["job_id"].tolist())
    for window in split.windows:
        pd.testing.assert_frame_equal(window.jobs, jobs.iloc[window.rows].reset_index(drop=True))
        assert window.jobs["submit_s"].between(window.begin_s, window.end_s - 1).all()


@pytest.mark.parametrize(
    ("split", "rules", "words"),
    [
        ("fortnights", {}, "unknown windows 'fortnights'; known: whole, weeks, months"),
        ("weeks", {"drop": "some"}, "unknown drop rule 'some'; known: crossing, none"),
        ("weeks", {}, "no window has a job left: the trace has 1 weeks and the first is left out"),
    ],
)
def test_what_cannot_be_split_is_told_in_one_line(split: str, rules: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        split_windows(table([0, 1]), split, **rules)
