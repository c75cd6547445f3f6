"""The stage of a run that registers: what it leaves in the registry, and that a failure, a re-run and a night at the same time leave it whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mlflow
import pandas as pd
import pytest

from features.clock import DAY_S
from models.registry import tracking
from models.registry.tracking import Tracking, all_versions, prune
from pipelines.lake.tables import Lake
from pipelines.training.night import own_registry
from pipelines.training.work import Work
from tests.support.arriving import arriving
from tests.support.cutoffs import Registered, registered_in

pytestmark = pytest.mark.usefixtures("quick_methods")
NAME = "runtime-arriving"


def trace(jobs: int = 700):
    """A small trace whose last job runs on for 40 days after everything else has ended."""
    clean = arriving(jobs=jobs)
    long = clean.jobs.index == len(clean.jobs) - 1
    columns = {name: clean.jobs[name].where(~long, 40 * DAY_S) for name in ("runtime_s", "requested_s")}
    return replace(clean, jobs=clean.jobs.assign(**columns))


def register(home: Path, jobs: int = 700, name: str = "arriving") -> Registered:
    return registered_in(home, replace(trace(jobs), name=name))


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory):
    """A home in which one run registered."""
    before = mlflow.get_tracking_uri()
    home = tmp_path_factory.mktemp("registering")
    yield home, register(home)
    mlflow.set_tracking_uri(before)


def numbers(store: Tracking) -> set[str]:
    return {str(each.version) for each in all_versions(store, NAME)}


@pytest.mark.thorough
def test_one_long_job_at_the_tail_leaves_jobs_to_judge(registered) -> None:
    home, run = registered
    assert sorted(run.versions["alias"]) == ["", "challenger", "champion"]
    assert (run.versions["judged_jobs"] >= 200).all()
    assert run.versions["accuracy"].between(0, 1).all()
    assert numbers(own_registry(home)) == {"1", "2", "3"}  # two candidates, and the champion with the histories of the present


def test_a_re_run_over_the_same_jobs_registers_nothing_and_shows_what_serves(registered) -> None:
    home, run = registered
    store = own_registry(home)
    before = numbers(store)
    again = register(home)
    assert again.nothing_new
    assert numbers(store) == before
    pd.testing.assert_frame_equal(again.versions, run.versions.sort_values("version", ignore_index=True), check_dtype=False)
    assert again.versions.set_index("alias")["accuracy"]["champion"] > 0


@pytest.fixture
def plain(registered, tmp_path):
    """A model with eight versions that MLflow knows nothing else of; the champion is refreshed from the first."""
    store, name = own_registry(registered[0]), f"runtime-{tmp_path.name.replace('_', '-')}"
    store.client.create_registered_model(name)
    for number in range(1, 9):
        tags = {"refreshed_from": "1"} if number == 4 else {}
        run = store.client.create_run(store.experiment_id)
        store.client.create_model_version(name, f"runs:/{run.info.run_id}/m", run.info.run_id, tags=tags)
    store.client.set_registered_model_alias(name, "champion", "4")
    store.client.set_registered_model_alias(name, "challenger", "3")
    return store, name


def test_old_versions_go_with_their_runs_but_not_what_serves_nor_what_it_was_refreshed_from(plain, monkeypatch) -> None:
    store, name = plain
    runs = {str(each.version): each.run_id for each in all_versions(store, name)}
    monkeypatch.setattr(tracking, "KEPT_VERSIONS", 2)
    assert prune(store, name) == 0  # none is 90 days old
    later = tracking.time.time() + 100 * 86_400
    monkeypatch.setattr(tracking.time, "time", lambda: later)
    assert prune(store, name) == 3
    assert {str(each.version) for each in all_versions(store, name)} == {"1", "3", "4", "7", "8"}
    deleted = {number for number, run in runs.items() if store.client.get_run(run).info.lifecycle_stage == "deleted"}
    assert deleted == {"2", "5", "6"}
    assert prune(store, name) == 0


def test_what_is_published_stays_though_its_alias_was_moved_by_hand(plain, monkeypatch, tmp_path) -> None:
    store, name = plain
    work = Work(Lake(tmp_path / "lake", "a"), store, name)
    for champion in ("2", "5"):
        work.lake.name_models(name, {"champion": champion})
        work.lake.versions(name).publish("a")
    work.lake.name_models(name, {"champion": "6"})
    later = tracking.time.time() + 100 * 86_400
    monkeypatch.setattr(tracking, "KEPT_VERSIONS", 1)
    monkeypatch.setattr(tracking.time, "time", lambda: later)
    work.tidy()
    assert {str(version.version) for version in all_versions(store, name)} == {"1", "2", "3", "4", "5", "6", "8"}
