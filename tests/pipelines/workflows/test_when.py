"""Answers about a live queue: the same as accounting tells later, and what would start sooner."""

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from models.packed.start_distribution import EDGES_S
from models.packed.start_predictor import RECENT, StartModel
from models.starts.states import FEATURES, PLANS, states
from pipelines.dated.history import user_history
from pipelines.workflows.when import Job, like, queue_of
from sim.ahead import Ahead
from sim.questions import queued, queues
from tests.support.queues import PROCS, waited

MODEL = StartModel(
    RECENT, tuple(FEATURES), PLANS, {}, {}, np.stack([np.minimum(EDGES_S / 1e5, 1.0), np.minimum(EDGES_S / 2e5, 1.0)]), 0, 0
)


def snapshot(at: int) -> tuple[pd.DataFrame, int]:
    """Return the queue that the job ``at`` finds, as a snapshot shows it, and the second."""
    clean = waited()
    jobs, start = clean.jobs, user_history(clean).start_s
    now = int(jobs["submit_s"].iloc[at])
    live = ((jobs["submit_s"] <= now) & (start + jobs["runtime_s"] > now)).to_numpy(bool)
    live = live & (np.arange(len(live)) <= at)
    runs = start[live] < now
    unix = clean.origin_unix_s or 0
    table = pd.DataFrame(
        {
            "job_id": jobs["job_id"][live].astype(str),
            "runs": runs,
            "user": jobs["user"][live].astype(object),
            "queue": jobs["queue"][live].astype(object),
            "procs": jobs["procs"][live],
            "requested_s": jobs["requested_s"][live],
            "submit_unix_s": jobs["submit_s"][live] + unix,
            "start_unix_s": pd.array(np.where(runs, start[live] + unix, 0), "Int64"),
        }
    )
    table["start_unix_s"] = table["start_unix_s"].mask(~runs)
    return table.reset_index(drop=True), now


def crowded() -> int:
    """Return a job, of the last ones, that finds a queue of at least five."""
    clean = waited()
    start, submit = user_history(clean).start_s, clean.jobs["submit_s"].to_numpy(np.int64)
    count = np.array([((submit <= now) & (start > now)).sum() for now in submit])
    return int(np.flatnonzero(count >= 5)[-1])


def test_a_live_queue_is_described_as_accounting_describes_it_later() -> None:
    at, clean = crowded(), waited()
    table, now = snapshot(at)
    start = user_history(clean).start_s
    found = queue_of(clean, start, table, now)
    live = states(found.jobs, found.waiting, np.full(len(found.waiting), now), np.full(len(found.waiting), now), PROCS)
    jobs = queued(clean, start, start + clean.jobs["runtime_s"].to_numpy(np.int64))
    rows = np.flatnonzero(np.isin(clean.jobs["job_id"].astype(str), found.job_id[found.waiting]))
    later = states(jobs, rows, np.full(len(rows), now), np.full(len(rows), now), PROCS)
    assert len(rows) >= 5
    assert live == pytest.approx(later)
    _, _, runs, waits = next(queues(jobs, rows[-1:], np.array([now])))
    there = Ahead(PROCS).starts(jobs, runs, waits, now)
    assert (Ahead(PROCS).starts(found.jobs, found.running, found.waiting, now) == there).all()


def test_a_shorter_limit_starts_a_job_sooner_only_where_it_does_in_simulation() -> None:
    table, now = snapshot(crowded())
    found = queue_of(waited(), user_history(waited()).start_s, table, now, [Job(16, 57_600, "user1", "long"), Job(1, 600, "user1")])
    asked = np.array([row for row in found.waiting if found.job_id[row].startswith("new-")])
    long, short = found.answered(MODEL, asked, scenarios=32)
    assert (long.waited_s, long.procs, long.user) == (0, 16, "user1")
    place = int(np.searchsorted(found.waiting, asked[0]))
    for change in long.changes:
        other = found.changed(int(asked[0]), change.procs, change.requested_s)
        starts = [
            Ahead(PROCS, scenarios=32).starts(each, found.running, found.waiting, now)[:, place] for each in (found.jobs, other)
        ]
        gained = starts[1] - starts[0]
        assert change.mean_s == pytest.approx(gained.mean())
        assert change.sure == ((gained < 0).mean() >= 0.9)
    assert any(change.sure for change in long.changes)
    assert {change.what for change in short.changes} == {"half the limit", "a quarter of the limit"}


def test_what_cannot_be_is_refused_in_one_line() -> None:
    table, now = snapshot(crowded())
    start = user_history(waited()).start_s
    with pytest.raises(InputError, match=r"is submitted after .* which is now"):
        queue_of(waited(), start, table, now - 3600)
    with pytest.raises(InputError, match=r"64 processors, and the machine of waited has 32"):
        queue_of(waited(), start, table, now, [Job(64, 600)])


def test_earlier_answers_are_counted_of_jobs_alike() -> None:
    rows = pd.DataFrame(
        {
            "at_s": [0, 10, 20, 30],
            "fits": [True, True, False, True],
            "waited_s": [0.0, 100.0, 50.0, np.nan],
            "wait_10_s": 0.0,
            "wait_50_s": [0.0, 40.0, 50.0, 0.0],
            "wait_90_s": [0.0, 90.0, 60.0, 0.0],
        }
    )
    assert like(rows, True, 30) == {"answers": 2, "median_error_s": 30.0, "held_80": 0.5}
    assert like(rows, False, 30) == {"answers": 1, "median_error_s": 0.0, "held_80": 1.0}
    assert like(rows.drop(columns="waited_s"), True, 30) == {}
