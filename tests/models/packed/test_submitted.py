"""What a consumer's queue is answered: as here, from raw columns, or one line that refuses it."""

import numpy as np
import pandas as pd
import pytest

from features.clock import local_clock_s
from models.packed.queue_state import NOT_YET, QueueJobs, states
from models.packed.start_predictor import StartPredictor, answers
from models.packed.submitted import read_queue
from models.registry.packing import assemble
from models.registry.start_registration import start_content
from tests.support.queues import start_model

PROCS, ORIGIN_S, ZONE = 64, 1_711_800_000, "Europe/Stockholm"
AT_S = 50_000
"""Seconds after the origin, ten hours after clocks went forward."""


@pytest.fixture(scope="module")
def predictor(tmp_path_factory) -> StartPredictor:
    model = start_model(AT_S - 3_600, PROCS, ORIGIN_S, ZONE)
    return StartPredictor(assemble(tmp_path_factory.mktemp("starts"), "start", start_content(model).write).data)


def some_queue(count: int = 70) -> tuple[pd.DataFrame, QueueJobs]:
    """Return a queue in any order with a consumer's columns, and its jobs in that order, in seconds from the origin."""
    draw = np.random.default_rng(1)
    submit, runs = draw.integers(0, AT_S, count), draw.random(count) < 0.3
    start = np.where(runs, draw.integers(submit, AT_S), NOT_YET)
    requested, user, queue = draw.integers(600, 90_000, count), draw.integers(-1, 5, count), draw.integers(0, 2, count)
    median = np.where(draw.random(count) < 0.2, requested, draw.integers(1, 600, count))
    procs, account = draw.integers(1, 5, count), draw.integers(0, 3, count)
    jobs = QueueJobs(submit, start, np.full(count, NOT_YET), procs, requested, user, queue, account, median[:, None])
    submitted, started = (
        local_clock_s(np.where(each == NOT_YET, 0, each), ORIGIN_S, ZONE).astype("datetime64[s]") for each in (submit, start)
    )
    table = pd.DataFrame(
        {
            "job_id": [str(number) for number in range(count)],
            "user": [None if each < 0 else f"user{each}" for each in user],
            "queue": [f"queue{each}" for each in queue],
            "account": [f"account{each}" for each in account],
            "procs": procs,
            "requested_s": requested,
            "submit_time": submitted,
            "start_time": pd.Series(started).where(runs),
            "predicted_50_s": np.where(median == requested, np.nan, median),
            "at_time": local_clock_s(np.array([AT_S]), ORIGIN_S, ZONE).astype("datetime64[s]")[0],
        }
    )
    return table, jobs


def test_a_queue_is_answered_as_its_states_are(predictor) -> None:
    table, jobs = some_queue()
    order = np.argsort(jobs.submit, kind="stable")
    jobs = QueueJobs(*(each[order] for each in jobs))
    waits = np.flatnonzero(jobs.start == NOT_YET)
    at = np.full(len(waits), AT_S)
    here = answers(predictor.model.chances(states(jobs, waits, at, local_clock_s(at, ORIGIN_S, ZONE), PROCS)))
    queue = table.set_axis(table["job_id"])
    there = predictor.predict(queue)
    assert list(there.index) == list(queue.index)
    assert there.iloc[order[waits]][list(here)].to_numpy() == pytest.approx(np.column_stack(list(here.values())), rel=1e-9)
    assert there["wait_50_s"].isna().tolist() == queue["start_time"].notna().tolist()
    assert (there["snapshot_age_s"] == 3_600).all()
    read = read_queue(table, PROCS, ZONE, 0)
    unix = QueueJobs(jobs.submit + ORIGIN_S, np.where(jobs.start == NOT_YET, NOT_YET, jobs.start + ORIGIN_S), *jobs[2:])
    assert (read.row == order).all()
    for ours, theirs in zip(read.jobs._replace(user=unix.user, queue=unix.queue, account=unix.account), unix, strict=True):
        assert (ours == theirs).all()


def test_what_is_left_out_is_the_request_and_the_latest_time(predictor) -> None:
    table = some_queue()[0].drop(columns="at_time")
    latest = max(table["submit_time"].max(), table["start_time"].max())
    by_request = table.assign(predicted_50_s=table["requested_s"].astype(float), at_time=latest)
    pd.testing.assert_frame_equal(predictor.predict(table.drop(columns="predicted_50_s")), predictor.predict(by_request))
    assert predictor.predict(table[:0]).empty
    running = table[table["start_time"].notna()]
    assert predictor.predict(running)["wait_50_s"].isna().all()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("procs", PROCS + 1, "row 2 .*column procs: 65 is more than the machine's 64"),
        ("start_time", pd.Timestamp("2030-01-01"), "row 2 .*column start_time: 2030-01-01 .*is after the question"),
        ("submit_time", pd.NaT, "row 2 .*column submit_time: NaT is missing"),
        ("submit_time", pd.Timestamp(1_711_800, unit="s"), "row 2 .*column submit_time: 1970-.*give the wall clock as a timestamp"),
        ("at_time", pd.Timestamp("2030-01-01"), "row 2 .*column at_time: 2030-01-01 .*differs from the time in the first row"),
        ("job_id", "0", "row 2 .*column job_id: 0 appears twice"),
        ("predicted_50_s", 1e6, "row 2 .*column predicted_50_s: 1000000.0 is not between 1 and requested_s"),
    ],
)
def test_a_wrong_value_is_refused_by_row_and_column(predictor, name: str, value: object, says: str) -> None:
    table = some_queue()[0]
    table.loc[2, name] = value
    with pytest.raises(ValueError, match=says):
        predictor.predict(table)
