"""A run learns its order from what had ended by its date, once, and its champion follows what was published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.clock import WEEK_S
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import Trace
from models.registry.tracking import Tracking, aliases, all_versions
from pipelines.lake.registry import registered_policy, tracking
from pipelines.lake.tables import Lake
from pipelines.training.policy import keep_learned_policy, policy_schedules
from pipelines.training.work import Work, point_champions
from sim import simulate
from sim.settings import Learning
from tests.sim.campaigns.test_learned_order import PROCS, busy

MODEL, WEEKS = "policy-busy", 17
SMALL = Learning(budget=4, replicates=2, copies=1)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracking:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tracking()


def trace() -> tuple[CleanTrace, np.ndarray, int]:
    """Return a trace, the ends of its jobs, and a date two weeks before its last."""
    whole = clean(Trace("busy", busy(WEEKS + 2), PROCS))
    end_s = (whole.jobs["submit_s"] + whole.jobs["wait_s"].fillna(0) + whole.jobs["runtime_s"]).to_numpy(np.int64)
    return whole, end_s, int(whole.jobs["submit_s"].iloc[0]) + WEEKS * WEEK_S


def kept(lake: Lake, clean: CleanTrace, end_s: np.ndarray, until_s: int, store: Tracking, run_id: str = "run") -> pd.Series:
    lake.write_clean(clean)
    return keep_learned_policy(Work(lake, store, "runtime-busy", run_id=run_id), clean, end_s, until_s, SMALL).iloc[0]


def test_what_comes_after_the_date_changes_nothing_and_the_same_is_not_learned_again(tmp_path: Path, store: Tracking) -> None:
    whole, end_s, until_s = trace()
    lake = Lake(tmp_path / "lake")
    first = kept(lake, whole, end_s, until_s, store)
    assert (first["version"], first["low"] <= first["relative"] <= first["high"]) == ("1", True)
    later = end_s > until_s
    runtime = np.where(later, whole.jobs["requested_s"].to_numpy(np.int64), whole.jobs["runtime_s"].to_numpy(np.int64))
    other = replace(whole, jobs=whole.jobs.assign(runtime_s=runtime, procs=np.where(later, 1, whole.jobs["procs"])))
    assert later.sum() > 20
    assert kept(lake, other, np.where(later, end_s + 9, end_s), until_s, store)["version"] == "1"
    early = whole.jobs["submit_s"].to_numpy(np.int64) < until_s - WEEK_S
    changed = replace(whole, jobs=whole.jobs.assign(procs=np.where(early, 1, whole.jobs["procs"])))
    assert kept(lake, changed, end_s, until_s, store)["version"] == "2", "what was known counts"
    assert len(all_versions(store, MODEL)) == 2


def test_the_registered_policy_is_simulated_and_published_as_champion(tmp_path: Path, store: Tracking) -> None:
    whole, end_s, until_s = trace()
    lake = Lake(tmp_path / "lake")
    row = kept(lake, whole, end_s, until_s, store)
    assert aliases(store, MODEL) == {}, "no alias moves before the run is published"
    (schedule,) = policy_schedules(lake, whole, store, seed=3)
    policy = registered_policy(f"registry:{MODEL}@1", lambda: store)
    expected = simulate(whole.jobs, procs=PROCS, scheduler=row["scheduler"], starvation_s=policy.starvation_s)
    assert (schedule.scheduler, schedule.predictor, schedule.seed) == (row["scheduler"], "requested", 3)
    pd.testing.assert_series_equal(schedule.jobs["start_s"], expected.jobs["start_s"])
    point_champions(lake, "busy", store)
    assert aliases(store, MODEL) == {"champion": "1"}


def test_a_trace_too_short_to_learn_from_says_so(tmp_path: Path, store: Tracking) -> None:
    whole, end_s, until_s = trace()
    lake = Lake(tmp_path / "lake")
    row = kept(lake, whole, end_s, until_s - 9 * WEEK_S, store)
    assert row["version"] == ""
    assert "7 whole weeks with jobs before the date are too few" in row["note"]
    assert policy_schedules(lake, whole, store) == []
    point_champions(lake, "busy", store)
    assert all_versions(store, MODEL) == []
