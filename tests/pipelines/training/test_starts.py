"""States of queues and models of starts, in runs and nights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from features.jobs.cleaning import CleanTrace
from models.packed.start_distribution import EDGES_S
from models.packed.start_predictor import EASY
from models.registry.start_registration import load, start_content
from models.registry.tracking import Tracking, aliases
from models.starts.evaluation import ranked_scores
from models.starts.model import best_kind
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake, keep_features, read_features
from pipelines.training import queue_states
from pipelines.training.queue_states import QueueQuestions, keep_states, read_states
from pipelines.training.starts import keep_start_model
from pipelines.training.work import Cutoff, Work, point_champions
from sim.starts.closings import Closed, closed
from tests.support.queues import PROCS, waited

NAME, UNTIL_S = "start-waited", 30 * DAY_S


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracking:
    """Return a registry of the test's own, for a site that learns from its last questions alone."""
    monkeypatch.setattr(queue_states, "LEARNED", 700)
    monkeypatch.setattr(queue_states, "MOST_JUDGED", 150)
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tracking()


def why_none(lake: Lake, clean: CleanTrace, date: Cutoff) -> str:
    lake.write_clean(clean)
    return keep_states(lake, clean, keep_features(lake, clean), date, lambda done, of: None)


def kept(lake: Lake, clean: CleanTrace, date: Cutoff) -> QueueQuestions:
    """Keep the states of a trace, and return what was asked."""
    assert why_none(lake, clean, date) == ""
    asked = read_states(lake, clean, read_features(lake, clean))
    assert asked is not None
    return asked


def ended_by(clean: CleanTrace, at_s: int) -> CleanTrace:
    """Return the trace as accounting holds it at a second: the jobs that have ended."""
    end = clean.jobs["submit_s"] + clean.jobs["wait_s"].astype("int64") + clean.jobs["runtime_s"]
    return replace(clean, jobs=clean.jobs[end <= at_s].reset_index(drop=True))


@pytest.mark.slow
def test_a_run_registers_the_better_model_and_judges_it_on_what_follows(tmp_path: Path, store: Tracking) -> None:
    clean, date, lake = waited(), Cutoff("runtime-waited", UNTIL_S, UNTIL_S), Lake(tmp_path / "lake")
    asked = kept(lake, clean, date)
    result = keep_start_model(Work(lake, store, "runtime-waited"), clean, asked, date)
    assert (result.champion, result.challenger) == ("2", "1")
    rows = lake.read_for(clean, "starts")[0]
    assert (rows["at_s"] >= UNTIL_S).all()
    start = pd.Series(read_features(lake, clean).start_s, clean.jobs["job_id"])
    assert (rows["at_s"] + rows["waited_s"] == start[rows["job_id"]].to_numpy()).all()
    chances = rows[[f"by_{edge:.0f}_s" for edge in EDGES_S]].to_numpy()
    assert rows["score"].to_numpy() == pytest.approx(ranked_scores(chances, rows["waited_s"].to_numpy()))
    assert (rows["wait_50_s"] - rows["waited_s"]).abs().mean() < (rows["plan_s"] - rows["waited_s"]).abs().mean()
    assert not aliases(store, NAME), "no alias moves before the tables are published"
    point_champions(lake, "waited", store)
    assert aliases(store, NAME) == {"champion": "2", "challenger": "1"}
    model = mlflow.pyfunc.load_model(f"models:/{NAME}/2")
    answers = pd.DataFrame(model.predict(start_content(load(store, NAME)).example()))
    assert answers["wait_50_s"].isna().tolist() == [True, False], "the first job runs"
    assert 0 <= answers["chance_1h"][1] <= answers["chance_24h"][1] <= 1
    assert (answers["snapshot_age_s"] == 0).all()


@pytest.mark.thorough
@pytest.mark.slow
def test_nights_ask_only_what_is_new_and_judge_what_was_answered_by_the_versions_of_before(tmp_path: Path, store: Tracking) -> None:
    lake, nights = Lake(tmp_path / "lake"), []
    for day in (30, 31, 32):
        clean = ended_by(waited(), day * DAY_S)
        date = Cutoff("runtime-waited", day * DAY_S, 0, night=f"day-{day}")
        asked = kept(lake, clean, date)
        table, marks = lake.read_for(clean, "queue_states")
        keep_start_model(Work(lake, store, "runtime-waited"), clean, asked, date)
        point_champions(lake, "waited", store)
        nights.append((table, marks["asked_anew"], lake.read_for(clean, "starts")[0]))
    assert nights[0][1] == len(nights[0][0])
    assert 0 < nights[1][1] < 0.3 * len(nights[1][0]), "what was asked before is kept"
    anew = Lake(tmp_path / "other")
    kept(anew, ended_by(waited(), 32 * DAY_S), Cutoff("runtime-waited", 32 * DAY_S, 0, night="day-32"))
    whole, last = anew.read("queue_states", "waited")[0], nights[2][0]
    assert (
        (whole[["job_id", "at_s", "free", "waiting", "ahead"]] == last[["job_id", "at_s", "free", "waiting", "ahead"]]).all().all()
    )
    rows = nights[2][2]
    assert len(nights[0][2]) == 0 < len(nights[1][2]) < len(rows)
    assert (rows["at_s"] >= 30 * DAY_S).all()
    assert not rows.duplicated(["job_id", "at_s"]).any()
    first = rows.merge(nights[1][2], on=["job_id", "at_s"], suffixes=("", "_then"))
    assert (first["by_3600_s"] == first["by_3600_s_then"]).all(), "an answer stays what it was"
    judged = rows[rows["score"].notna()]
    assert judged["challenger_score"].notna().all()
    assert len(judged) > 10


@pytest.mark.thorough
def test_a_later_run_judges_the_champion_on_what_neither_has_learned_from(tmp_path: Path, store: Tracking) -> None:
    clean, lake, runs = waited(), Lake(tmp_path / "lake"), []
    for day in (28, 36, 32):  # a run, one with eight days more, and one whose date the champion has seen past
        date = Cutoff("runtime-waited", day * DAY_S, day * DAY_S)
        asked = kept(lake, clean, date)
        runs.append(keep_start_model(Work(lake, store, "runtime-waited"), clean, asked, date))
        point_champions(lake, "waited", store)
    first, later, before = runs
    assert (first.champion, later.comparison is not None) == ("2", True)
    assert later.comparison.jobs > 50  # type: ignore[union-attr]
    assert later.simulated in (first.champion, later.challenger, later.champion)
    assert before.champion == later.champion
    if int(load(store, NAME, later.champion).trained_s) > 32 * DAY_S:
        assert "has learned from what follows the date" in before.instead
    assert load(store, NAME, before.simulated).trained_s <= 32 * DAY_S


def test_a_trace_without_recorded_waits_learns_nothing_and_says_so(tmp_path: Path, store: Tracking) -> None:
    clean = waited()
    clean = replace(clean, jobs=clean.jobs.assign(wait_s=pd.array([pd.NA] * len(clean.jobs), dtype="Int64")))
    lake = Lake(tmp_path / "lake")
    why = why_none(lake, clean, Cutoff("runtime-waited", UNTIL_S, UNTIL_S))
    assert why == "waits are not recorded, so there is nothing to learn starts from"
    assert not any(lake.has(table, "waited") for table in ("queue_states", "start_model", "starts"))
    point_champions(lake, "waited", store)
    assert not aliases(store, NAME)
    few = ended_by(waited(), 5 * DAY_S)
    assert "questions before the date came true: 500 are needed" in why_none(lake, few, Cutoff("runtime-waited", 5 * DAY_S, 0))


def test_jobs_that_run_for_long_are_seen_however_many_came_later(monkeypatch: pytest.MonkeyPatch) -> None:
    clean = waited(jobs=300, days=10)
    clean.jobs.loc[:2, ["runtime_s", "requested_s", "procs"]] = [12 * DAY_S, 12 * DAY_S, 2]
    start_s, last = (clean.jobs["submit_s"] + clean.jobs["wait_s"]).to_numpy(np.int64), clean.jobs.tail(4)
    wanted = pd.MultiIndex.from_arrays([last["job_id"], last["submit_s"]], names=["job_id", "at_s"])
    tables = []
    for jobs in (300, 20):
        monkeypatch.setattr(queue_states, "_WARM_JOBS", jobs)
        rows = queue_states.rows_by_number(clean.jobs)
        tables.append(queue_states._asked(clean, start_s, wanted, rows, EASY, 0, lambda *_: None))
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.thorough
@pytest.mark.slow
def test_closings_of_a_log_run_ahead_once_they_are_found(tmp_path: Path, store: Tracking, monkeypatch: pytest.MonkeyPatch) -> None:
    times = tuple(day * DAY_S + 8 * 3_600 for day in range(7))
    clean, lake, runs = waited(pool=Closed(PROCS, closings=times, origin_s=1_700_003_600)), Lake(tmp_path / "lake"), []
    date = Cutoff("runtime-waited", UNTIL_S, UNTIL_S)
    for least in (10_000, 10):
        monkeypatch.setattr("sim.starts.closings._LEAST", least)
        asked = kept(lake, clean, date)
        runs.append((asked, keep_start_model(Work(lake, store, "runtime-waited"), clean, asked, date)))
        point_champions(lake, "waited", store)
    (blind, first), (knows, later) = runs
    monkeypatch.setattr("sim.starts.closings._LEAST", 10_000)
    nightly = kept(lake, ended_by(clean, 31 * DAY_S), Cutoff("runtime-waited", 31 * DAY_S, 0, night="day-31"))
    assert blind.ahead == "EASY"
    assert nightly.ahead == knows.ahead
    pool = closed(knows.ahead, PROCS)
    assert pool is not None
    assert set(times) <= set(pool.closings)
    assert "was trained with simulations of another scheduler" in later.why
    assert load(store, NAME, later.champion).ahead == knows.ahead != load(store, NAME, first.champion).ahead
    assert (knows.questions.scenarios != blind.questions.scenarios).any()


def test_scenarios_are_read_where_they_help_and_left_where_they_mislead() -> None:
    waits = np.array([0.0, 7200.0] * 40)
    right, wrong = (np.where(each[:, None] <= EDGES_S, 1.0, 0.0) for each in (waits, waits[::-1]))
    still = np.zeros(80, bool)
    assert best_kind({"state": wrong, "both": right}, waits, still)[0] == "both"
    assert best_kind({"state": right, "both": right}, waits, still)[0] == "both"
    kind, scores = best_kind({"state": right, "both": wrong}, waits, still)
    assert (kind, scores.mean()) == ("state", 1.0)
    assert best_kind({"state": right, "both": wrong}, waits, ~still)[0] == "both", "nothing came true"
    assert best_kind({"state": wrong, "both": wrong, "pooled": (right + wrong) / 2}, waits, still)[0] == "pooled"
