"""Whatever a person changes in MLflow, readers, services, runs and nights answer, and the doctor names it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import mlflow
import pandas as pd
import pytest

from features.errors import InputError
from models.registry.tracking import Tracking
from models.registry.versions import REFRESHED_FROM, aliases
from pipelines.lake.registry import predict_registered
from pipelines.serving.site_registry import SiteRegistry
from pipelines.studies.doctor import examine
from pipelines.training.night import night, own_registry
from tests.support.arriving import CHANGE_DAY, source
from tests.support.cutoffs import registered_in

pytestmark = [pytest.mark.usefixtures("undrawn_pictures", "quick_methods"), pytest.mark.thorough, pytest.mark.slow]
NAME = "runtime-arriving"
JOB = pd.DataFrame({"user": ["1"], "procs": [4], "requested_s": [3600], "submit_time": [pd.Timestamp("2024-03-01")]})
FIRST = CHANGE_DAY - 3


def do_night(home: Path, number: int):
    trace = source(jobs=900)
    midnight = trace.midnights[FIRST + number]
    return night("arriving", trace.label(midnight), lambda: trace.accounting(midnight), lambda: own_registry(home), home)


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory: pytest.TempPathFactory):
    """A home whose champion was refreshed by the second night from a version that has no alias."""
    before = mlflow.get_tracking_uri()
    home = tmp_path_factory.mktemp("by-hand") / "home"
    for number in (0, 1):
        do_night(home, number)
    store = own_registry(home)
    assert trained(store) not in aliases(store, NAME).values()
    yield home
    mlflow.set_tracking_uri(before)


def champion(store: Tracking):
    return store.client.get_model_version_by_alias(NAME, "champion")


def trained(store: Tracking) -> str:
    return champion(store).tags[REFRESHED_FROM]


def files(store: Tracking) -> Path:
    place = store.client.get_model_version_download_uri(NAME, champion(store).version)
    return Path(mlflow.artifacts.download_artifacts(place))


def written(store: Tracking, statement: str) -> None:
    """Change MLflow's database beside MLflow."""
    with closing(sqlite3.connect(store.place.removeprefix("sqlite:///"))) as database, database:
        database.execute(statement)


def alias_astray(store: Tracking) -> None:
    written(store, "UPDATE registered_model_aliases SET version = 99 WHERE alias = 'champion'")


def place_astray(store: Tracking) -> None:
    version = champion(store)
    places = "source = 'file:///elsewhere/model', storage_location = 'file:///elsewhere/model'"
    written(store, f"UPDATE model_versions SET {places} WHERE name = '{NAME}' AND version = {version.version}")


def trained_version_deleted(store: Tracking) -> None:
    store.client.delete_model_version(NAME, trained(store))


def champion_deleted(store: Tracking) -> None:
    store.client.delete_model_version(NAME, champion(store).version)


def run_deleted(store: Tracking) -> None:
    store.client.delete_run(champion(store).run_id)


def foreign(store: Tracking) -> None:
    run = store.client.create_run(store.experiment_id).info
    store.client.log_text(run.run_id, "weights", "model/weights.txt")
    version = store.client.create_model_version(NAME, f"{run.artifact_uri}/model", run.run_id)
    store.client.set_registered_model_alias(NAME, "champion", version.version)


def damaged(store: Tracking) -> None:
    data = next(files(store).rglob("model.json"))
    data.write_text(data.read_text() + " ")


def tag(name: str, value: str | None) -> Callable[[Tracking], None]:
    def edit(store: Tracking) -> None:
        if value is None:
            store.client.delete_model_version_tag(NAME, champion(store).version, name)
        else:
            store.client.set_model_version_tag(NAME, champion(store).version, name, value)

    edit.__name__ = f"{name} is {value}"
    return edit


CHANGES = [
    damaged,
    *(champion_deleted, foreign, place_astray, alias_astray, trained_version_deleted, run_deleted),
    *(tag(*edit) for edit in (("training_window_s", "soon"), ("method", None))),
]


FOUND = [damaged, champion_deleted, foreign, place_astray, alias_astray]
"""What the doctor names: files and aliases that are needed, not what is noted about a version."""


@pytest.fixture(params=CHANGES, ids=lambda change: change.__name__)
def changed(two_nights: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    home = Path(shutil.copytree(two_nights, tmp_path / "home"))
    request.param(own_registry(home))
    return home


def test_after_a_change_by_hand_all_answer_and_the_doctor_names_it(
    changed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    store = own_registry(changed)
    findings = [*examine(changed, lambda: own_registry(changed))]
    assert [finding.where for finding in findings] == [NAME] * len(findings)
    assert bool(findings) == (request.node.callspec.params["changed"] in FOUND)
    assert predict_registered(NAME, JOB, store, changed)["predicted_s"].iloc[0] > 0
    for variable, value in {"QUEUECAST_HOME": str(changed), "MLFLOW_TRACKING_URI": ""}.items():
        monkeypatch.setenv(variable, value)
    service = SiteRegistry()
    assert service.load(NAME, service.version(NAME, "champion")).method.name
    assert do_night(changed, 2).row["champion"]
    left = [finding for finding in examine(changed, lambda: own_registry(changed)) if finding.repair is not None]
    assert left == []


@pytest.mark.parametrize("changed", [damaged, champion_deleted], indirect=True, ids=lambda change: change.__name__)
def test_a_run_after_a_change_by_hand_registers_and_serves(changed: Path) -> None:
    trace = source(jobs=900)
    run = registered_in(changed, trace.accounting(trace.midnights[FIRST + 3]))
    assert run.models["champion"]
    assert aliases(own_registry(changed), NAME)["champion"] == run.models["champion"]


def test_a_registry_without_any_version_is_another_one(two_nights: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(two_nights, tmp_path / "home"))
    store = own_registry(home)
    store.client.delete_registered_model(NAME)
    with pytest.raises(InputError, match="has no version of runtime-arriving"):
        predict_registered(NAME, JOB, store, home)
