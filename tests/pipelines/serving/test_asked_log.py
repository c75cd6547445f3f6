"""Logged answers find their jobs, and what could not be joined is counted."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from features.jobs.cleaning import clean
from features.jobs.schema import Trace, conform
from models.runtime.answers import rows_of
from pipelines.serving.asked_log import answered

ORIGIN_S = 1_700_000_000
JOBS = {
    "job_id": [11, 12, 13, 14],
    "submit_s": [0, 100, 130, 9000],
    "wait_s": [0, 0, 0, 0],
    "runtime_s": [100, 200, 400, 50],
    "procs": [4, 4, 4, 1],
    "requested_s": [600, 600, 600, 600],
    "user": ["ada", "ada", "ada", None],
}
MADE = Trace("site", conform(JOBS, 4), procs=8, origin_unix_s=ORIGIN_S, timezone="UTC")


def entry(submit_s: int, predicted_s: int = 100, **changes) -> str:
    fields = {"asked_s": 1.0, "model": "runtime-site", "version": "3", "user": "ada", "group": None, "executable": None, "procs": 4}
    fields |= {"requested_s": 600, "elapsed_s": 0, "submit_unix_s": ORIGIN_S + submit_s, "job_id": None, "predicted_s": predicted_s}
    return json.dumps({**fields, "snapshot_age_s": 0, "user_known": True, **changes})


def log(directory, *lines: str):
    directory.mkdir(exist_ok=True)
    (directory / "asked-2023-11-14.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return directory


def test_answers_are_joined_by_number_else_by_user_processors_request_and_time(tmp_path):
    lines = [
        entry(0, 100),  # job 11, exactly right
        entry(101, 100, quantiles={"0.9": 150}),  # job 12, which ran twice as long
        entry(131, 800, quantiles={"0.9": 500}),  # job 13, though job 12 is within reach too
        entry(5000, 25, user=None, procs=1, job_id=14, version="4"),
    ]
    figures = answered(clean(MADE), log(tmp_path / "asked", *lines))
    assert figures is not None
    assert (figures["answers"], figures["judged"]) == (4, 4)
    assert figures["accuracy"] == pytest.approx((1 + 0.5 + 0.5 + 0.5) / 4)
    assert figures["underpredicted"] == 0.5
    assert figures["at_most_p0.9"] == 0.5
    assert figures["mean_error_s"] == pytest.approx((0 + 100 + 400 + 25) / 4)


def test_one_job_has_one_answer_and_the_others_are_counted(tmp_path):
    lines = [
        entry(0),
        entry(1),
        entry(2, user="eve"),
        entry(0, procs=5),
        entry(3, job_id=999),
        entry(9500),
        entry(50, elapsed_s=50),
    ]
    row = answered(clean(MADE), log(tmp_path / "asked", *lines, "no json", "[]", "{}"))
    assert row is not None
    assert (row["answers"], row["judged"], row["later"], row["not_joined"]) == (6, 1, 1, 4)
    assert (row["running"], row["unreadable"]) == (1, 3)


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({"job_id": "5_1"}, 1),  # as accounting writes it, though 11 and 12 are its number and another's
        ({"job_id": "12", "submit_unix_s": ORIGIN_S + 130}, 2),  # a number that the source gives to another row
        ({"job_id": "12", "user": "bob"}, -1),
        ({"job_id": "12", "procs": 8}, -1),
        ({"job_id": "12", "requested_s": 60}, -1),
        ({"job_id": "12", "submit_unix_s": ORIGIN_S + 9 * 86_400}, -1),  # the number is used again
    ],
)
def test_a_job_is_joined_by_its_number_as_written_if_user_processors_and_request_agree(changes: dict, row: int) -> None:
    jobs = clean(MADE).jobs.assign(written_id=pd.Categorical([None, "5_1", "12", None]))
    asked = {"user": "ada", "procs": 4, "requested_s": 600, "submit_unix_s": ORIGIN_S + 100}
    assert rows_of([asked | changes], jobs, ORIGIN_S) == [row]


def test_a_night_judges_the_log_of_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    assert answered(clean(MADE)) is None
    log(tmp_path / "asked", entry(0, model="runtime-other"))
    assert answered(clean(MADE)) is None
    log(tmp_path / "asked", entry(0), entry(700))
    record = answered(clean(MADE))
    assert record is not None
    assert (record["answers"], record["judged"], record["not_joined"], record["accuracy"]) == (2, 1, 1, 1.0)
