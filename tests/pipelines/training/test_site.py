"""The Slurm site of a trace in runs and nights: its jobs as of a night, the alarm, and what the night's page says."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import mlflow
import numpy as np
import pandas as pd
import pytest

from models.registry import tracking
from pipelines.assets.sensors import alerts_file, drift
from pipelines.assets.stages import NIGHT_TAG, applicable
from pipelines.definitions import defs
from pipelines.report.tables import pooled
from pipelines.training import site as dated_site
from pipelines.training.site import _as_of, site_of

GOLDEN = Path(__file__).parents[2] / "golden" / "slurm"
CATALOGUE = f"""
[traces.tiers]
place = "{GOLDEN}/tiers-A.txt"
machine = "{GOLDEN}/tiers-A"
format = "slurm"
timezone = "UTC"
procs = 48
"""
NIGHT = "2026-11-25"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "queuecast.toml").write_text(CATALOGUE)
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(tracking, "_SITE", None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_night_sees_of_the_record_what_accounting_held_then(place: Path) -> None:
    whole = site_of("tiers")
    assert whole is not None
    table = whole.jobs.table
    at_s = int(np.quantile(table["submit_s"], 0.8))
    seen = _as_of(table, at_s)
    first = table[: len(seen)]
    assert (first["submit_s"] <= at_s).all()
    assert len(table) > len(seen) == (table["submit_s"] <= at_s).sum()
    waits = first["start_s"] > at_s
    assert waits.any()
    assert (seen["start_s"] == first["start_s"].where(~waits, -1)).all()
    assert seen["end_s"].max() == at_s, "a job that runs is seen until then"
    later = table.assign(**{name: table[name].where(table[name] <= at_s, table[name] + 99) for name in ("start_s", "end_s")})
    pd.testing.assert_frame_equal(_as_of(later, at_s), seen)
    assert site_of("tiers", "2026-11-24").at_s < table["submit_s"].min()  # type: ignore[union-attr]


def test_a_pool_below_slurm_accounting_is_called_one_with_and_without_a_machine(place: Path) -> None:
    more = f'[traces.bare]\nplace = "{GOLDEN}/tiers-A.txt"\n[traces.made]\nformat = "generated"\n'
    (place / "queuecast.toml").write_text(CATALOGUE + more)
    assert pooled("tiers").startswith("These are the same jobs on one pool of processors")
    assert pooled("bare") == pooled("tiers")
    assert pooled("made") == pooled("nowhere") == ""


@pytest.mark.thorough
@pytest.mark.usefixtures("undrawn_pictures")
def test_a_night_of_a_site_alerts_where_its_record_stops_being_explained(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [str(day.date()) for day in pd.date_range("2026-10-20", periods=30)]
    days = pd.DataFrame({"day": names, "starts": 50, "explained": [49] * 24 + [20] * 6, "extra": 0})
    monkeypatch.setattr(dated_site, "by_day", lambda *given: days)
    monkeypatch.setattr(dated_site, "NIGHTLY_REPLAYS", 2)
    less = {"schedules": {"config": {"schedulers": ["EASY"], "predictors": ["requested"]}}}
    before = mlflow.get_tracking_uri()
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("traces", ["tiers"])
        given = {"partition_key": "tiers", "instance": instance, "run_config": {"ops": less}, "tags": {NIGHT_TAG: NIGHT}}
        done = defs.resolve_job_def("nightly").execute_in_process(
            **given, asset_selection=applicable(defs.resolve_job_def("nightly"), "tiers")
        )
        assert done.success
        failed = {check.check_name for check in done.get_asset_check_evaluations() if not check.passed}
        assert "record_stays_explained" in failed
        event = next(each for each in done.all_events if each.event_type == dg.DagsterEventType.PIPELINE_SUCCESS)
        drift(dg.build_run_status_sensor_context("drift", event, instance, done.dagster_run))
    mlflow.set_tracking_uri(before)
    alert = "decisions explained fell from 98% to 40% on 2026-11-13"
    assert alert in alerts_file(place / "home").read_text()
    assert (place / "home" / "reports" / "nights" / "tiers" / f"{NIGHT}.html").exists()
