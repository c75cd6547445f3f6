"""Answers about a live queue: the same as accounting tells later, and what would start sooner."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from features.errors import InputError
from models.packed.queue_state import FEATURES, PLANS, states
from models.packed.start_distribution import EDGES_S
from models.packed.start_predictor import RECENT, StartModel
from pipelines.cli.when_answers import _by
from pipelines.lake.tables import features_of
from pipelines.readers.queue_file import OF_SLURM
from pipelines.readers.slurm.jobs import SlurmJobs
from pipelines.studies.when import Record, like, queue_of, record_of
from sim.site.queue_ahead import TraceQueue, changed
from sim.slurm.files import read_site
from sim.slurm.site import UNLIMITED, Association, Limits, Outage, Qos
from sim.starts.ahead import Ahead
from sim.starts.closings import Closed
from sim.starts.questions import blurred, queued, queues
from tests.sim.site.test_ahead import NOW_S, SITE, asked
from tests.support.queues import PROCS, waited

MODEL = StartModel(
    RECENT, tuple(FEATURES), PLANS, {}, {}, np.stack([np.minimum(EDGES_S / 1e5, 1.0), np.minimum(EDGES_S / 2e5, 1.0)]), 0, 0
)


def snapshot(at: int) -> tuple[pd.DataFrame, int]:
    """Return the queue that the job ``at`` finds, as a snapshot shows it, and the second."""
    clean = waited()
    jobs, start = clean.jobs, features_of(clean).start_s
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
    return table.assign(expected_unix_s=None, **dict.fromkeys(OF_SLURM, "")).reset_index(drop=True), now


def record() -> Record:
    return Record(waited(), features_of(waited()).start_s)


def with_new(table: pd.DataFrame, now: int, *jobs: dict[str, object]) -> pd.DataFrame:
    """Return a snapshot with jobs that would be submitted at its second."""
    new = {"runs": False, "start_unix_s": None, "expected_unix_s": None, **dict.fromkeys(OF_SLURM, "")}
    new |= {"submit_unix_s": now + (waited().origin_unix_s or 0), "queue": None}
    rows = [new | {"job_id": f"new-{number}"} | job for number, job in enumerate(jobs)]
    return pd.concat([table.astype(object), pd.DataFrame(rows).astype(object)], ignore_index=True)


def crowded() -> int:
    """Return a job, of the last ones, that finds a queue of at least five."""
    clean = waited()
    start, submit = features_of(clean).start_s, clean.jobs["submit_s"].to_numpy(np.int64)
    count = np.array([((submit <= now) & (start > now)).sum() for now in submit])
    return int(np.flatnonzero(count >= 5)[-1])


def test_a_live_queue_is_described_as_accounting_describes_it_later() -> None:
    at, clean = crowded(), waited()
    table, now = snapshot(at)
    start = features_of(clean).start_s
    queue = queue_of(record(), table, now)
    live = states(queue.jobs, queue.waiting, np.full(len(queue.waiting), now), np.full(len(queue.waiting), now), PROCS)
    jobs = queued(clean, start, start + clean.jobs["runtime_s"].to_numpy(np.int64))
    rows = np.flatnonzero(np.isin(clean.jobs["job_id"].astype(str), queue.job_id[queue.waiting]))
    later = states(jobs, rows, np.full(len(rows), now), np.full(len(rows), now), PROCS)
    assert len(rows) >= 5
    assert live == pytest.approx(later)
    there = Ahead(PROCS).starts(next(queues(jobs, rows[-1:], np.array([now])))[1])
    assert (Ahead(PROCS).starts(queue.present(queue.jobs)) == there).all()


def test_closings_that_the_model_has_learned_with_run_a_queue_ahead() -> None:
    table, now = snapshot(crowded())
    pool = Closed(PROCS, closings=(9 * 3_600, 3 * DAY_S), origin_s=1_700_003_600)
    easy, queue = queue_of(record(), table, now), queue_of(replace(record(), ahead=pool.text), table, now)
    assert (easy.ahead.by, queue.ahead.by) == ("EASY", pool.text)
    there = Ahead(PROCS, scenarios=64, pool=pool).starts(queue.present(queue.jobs))
    assert (queue.ahead.starts(queue.present(queue.jobs)) == there).all()
    assert "from 64 EASY simulations of the queue, with 2 closings a week" in _by(queue, "start-waited", "1")


def test_a_shorter_limit_starts_a_job_sooner_only_where_it_does_in_simulation() -> None:
    table, now = snapshot(crowded())
    wide = {"procs": 32, "requested_s": 57_600, "user": "user1", "queue": "long"}
    queue = queue_of(record(), with_new(table, now, wide, {"procs": 1, "requested_s": 600, "user": "user1"}), now, 32)
    new = np.array([row for row in queue.waiting if queue.job_id[row].startswith("new-")])
    long, short = queue.answered(MODEL, new)
    assert (long.waited_s, long.procs, long.user) == (0, 32, "user1")
    place = int(np.searchsorted(queue.waiting, new[0]))
    for change in long.changes:
        other = changed(queue.jobs, int(new[0]), change.procs, change.requested_s)
        starts = [Ahead(PROCS, scenarios=32).starts(queue.present(each))[:, place] for each in (queue.jobs, other)]
        gained = starts[1] - starts[0]
        assert change.mean_s == pytest.approx(gained.mean())
        assert change.sure == ((gained < 0).mean() >= 0.9)
    assert any(change.sure for change in long.changes)
    assert {change.what for change in short.changes} == {"half the limit", "a quarter of the limit"}


def test_what_cannot_be_is_refused_in_one_line() -> None:
    table, now = snapshot(crowded())
    with pytest.raises(InputError, match=r"was submitted after the present time"):
        queue_of(record(), table, now - 3600)
    with pytest.raises(InputError, match=r"64 processors, and the machine of waited has 32"):
        queue_of(record(), with_new(table, now, {"procs": 64, "requested_s": 600, "user": None}), now)


def test_a_slurm_sites_queue_waits_for_its_own_nodes_and_rules() -> None:
    site = read_site({"slurm.conf": SITE}, "site")
    past = {"submit_s": NOW_S - 3_000, "start_s": NOW_S - 2_000, "end_s": NOW_S - 1_600, "runtime_s": 400}
    jobs = asked(1, *[past] * 20).assign(nodelist="", exclude="", other_qos="", het=-1)
    texts = {"user": "u", "account": "a", "qos": "normal", "tres": "node=1", "reason": "", "features": "", "after": ""}
    usual = {**texts, "procs": 8, "requested_s": 600, "submit_unix_s": NOW_S - 50, "expected_unix_s": None}
    rows = [
        {"job_id": "30", "runs": True, "queue": "low", "nodes": "n1", "start_unix_s": NOW_S - 40},
        {"job_id": "31", "runs": False, "queue": "low", "nodes": "", "start_unix_s": None},
        {"job_id": "32", "runs": False, "queue": "other", "nodes": "", "start_unix_s": None},
        {"job_id": "33", "runs": False, "queue": "other", "nodes": "", "start_unix_s": None, "after": "afterok:30(unfulfilled)"},
        {"job_id": "34", "runs": False, "queue": "other", "nodes": "", "start_unix_s": None, "reason": "JobHeldUser"},
    ]
    kept = record_of(site, SlurmJobs(jobs, (), "made"), "UTC")
    assert kept.numbered["job_id"].tolist() == [str(at) for at in range(1, 21)]
    queue = queue_of(kept, pd.DataFrame([usual | row for row in rows]), NOW_S, 16)
    answers = {each.job_id: each.forecast for each in queue.answered(None, queue.waiting)}
    assert answers["32"]["wait_90_s"] < 60 < answers["31"]["wait_05_s"], "the free node is not of its partition"
    assert answers["33"]["wait_05_s"] > 60, "it waits for the job that runs"
    rows_there = np.zeros(len(queue.jobs.submit), bool)
    usual_s, running = queue.ahead.starts(queue.present(queue.jobs)), rows_there.copy()
    running[queue.running] = True
    again = [queue.ahead.starts(queue.present(queue.jobs), without=out) for out in (rows_there, running)]
    assert (again[0] == usual_s).all()
    assert (again[1][:, 0] < 60).all(), "its node is free without the job that runs there"
    assert (answers["34"]["wait_05_s"], answers["34"]["chance_24h"]) == (queue.ahead.within_s, 1.0)
    endless = pd.DataFrame([usual | row | {"requested_s": UNLIMITED} for row in rows])
    assert set(queue_of(kept, endless, NOW_S, 16).jobs.requested[queue.waiting]) == {365 * DAY_S}
    (answer,) = queue.answered(None, queue.waiting[:1])
    assert {each.what for each in answer.changes} == {"half the limit", "a quarter of the limit", "half the processors"}
    assert not any(each.sure for each in answer.changes), "the node is taken whatever it asks for"


def test_earlier_answers_are_counted_of_jobs_alike() -> None:
    rows = pd.DataFrame(
        {
            "at_s": [0, 10, 20, 30],
            "fits": [True, True, False, True],
            "waited_s": [0.0, 100.0, 50.0, np.nan],
            "wait_10_s": 0.0,
            "wait_50_s": [0.0, 40.0, 50.0, 0.0],
            "wait_90_s": [0.0, 90.0, 60.0, 0.0],
            "chance_1h": 0.5,
        }
    )
    shares = {"told_1h": 0.5, "came_1h": 1.0}
    assert like(rows, True, 30) == {"answers": 2, "median_error_s": 30.0, "held_80": 0.5, **shares}
    assert like(rows, False, 30) == {"answers": 1, "median_error_s": 0.0, "held_80": 1.0, **shares}
    assert like(rows.drop(columns="waited_s"), True, 30) == {"answers": 0}


def limited_site(nodes_lost: bool) -> tuple[TraceQueue, dict[str, int]]:
    """Return a queue at a site whose QOS ``one`` lets a user run one job, and the row of each job."""
    site = read_site(
        {"slurm.conf": f"AccountingStorageEnforce=limits\n{SITE.replace('Nodes=n2', 'Nodes=n2 AllowQos=normal,one')}"}, "s"
    )
    people = (Association("root"), Association("a", parent="root"), Association("a", "u", "a", qos=("normal", "one", "top")))
    rules = {"normal": Qos("normal"), "one": Qos("one", limits=Limits(user={"jobs": 1})), "top": Qos("top")}
    lost = (Outage("n2", NOW_S - 20, NOW_S + 900),) if nodes_lost else ()
    site = replace(site, associations=people, qos=rules, outages=lost)
    past = {"submit_s": NOW_S - 3_000, "start_s": NOW_S - 2_000, "end_s": NOW_S - 1_600, "runtime_s": 400}
    jobs = asked(1, *[past] * 20).assign(nodelist="", exclude="", other_qos="", het=-1)
    texts = {"user": "u", "account": "a", "qos": "", "tres": "node=1", "reason": "", "features": "", "after": "", "nodes": ""}
    usual = {**texts, "runs": False, "queue": "other", "procs": 8, "requested_s": 600, "submit_unix_s": NOW_S - 60}
    usual |= {"expected_unix_s": None, "start_unix_s": None}
    rows = [
        {"job_id": "30", "runs": True, "qos": "one", "queue": "low", "nodes": "n1", "start_unix_s": NOW_S - 40},
        {"job_id": "31", "qos": "normal"},
        {"job_id": "32", "qos": "one", "submit_unix_s": NOW_S - 61},
        {"job_id": "33", "procs": 4},
    ]
    queue = queue_of(record_of(site, SlurmJobs(jobs, (), "made"), "UTC"), pd.DataFrame([usual | row for row in rows]), NOW_S, 16)
    return queue, {str(queue.job_id[row]): int(row) for row in queue.waiting}


def test_a_lost_node_and_a_limit_reached_are_causes_with_the_seconds_that_they_cost() -> None:
    queue, row = limited_site(nodes_lost=True)
    causes = {each.what: each for each in queue.moved(row["31"], NOW_S - 50)}
    assert causes["nodes lost since"].count == 1
    assert causes["nodes lost since"].seconds == pytest.approx(900, abs=60), "it would start now, and the node is back then"
    assert not queue.moved(row["31"], NOW_S - 10), "it was lost before the earlier answer"
    queue, row = limited_site(nodes_lost=False)
    (reached,) = [
        each for each in queue.moved(row["32"], NOW_S - 50) if each.what.startswith("limit reached since (QOS one, user u")
    ]
    assert reached.seconds > 60
    assert not [each for each in queue.moved(row["32"], NOW_S - 30) if "limit" in each.what], "it was reached before"


def test_a_job_is_tried_with_each_qos_that_its_user_has_where_the_partition_allows_it() -> None:
    queue, row = limited_site(nodes_lost=False)
    places = queue.places(row["33"])
    assert {(each.queue, each.qos) for each in places} == {
        *((queue, qos) for queue in ("low", "high") for qos in ("normal", "one", "top")),
        ("other", "normal"),
        ("other", "one"),
    }
    assert [each.wait_50_s for each in places] == sorted(each.wait_50_s for each in places)
    assert {each.qos for each in queue.places(row["31"])} == {""}, "it asked for its QOS"


def test_a_blurred_sample_keeps_the_median_and_starts_that_are_not_known() -> None:
    starts = np.array([[0, 100, 86_400], [0, 200, 86_400], [0, 300, 86_400]])
    sample = blurred(starts, 86_400)
    assert np.median(sample, axis=0) == pytest.approx([0, 200, 86_400], abs=20)
    assert (sample.min(axis=0) >= 0).all()
    assert (sample[:, 2] == 86_400).all()
    assert np.quantile(sample[:, 1], 0.9) > 320
