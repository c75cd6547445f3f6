"""A champion that was damaged or deleted in MLflow is refused, and the doctor goes back to the version before."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import mlflow
import pandas as pd
import pytest

from features.errors import InputError
from models.registry.tracking import REFRESHED_FROM, Tracking, aliases
from pipelines.lake.registry import predict_registered
from pipelines.studies.doctor import examine, repair
from pipelines.training.night import night, own_registry
from tests.support.arriving import CHANGE_DAY, source

pytestmark = [pytest.mark.usefixtures("undrawn_pictures", "quick_methods"), pytest.mark.thorough, pytest.mark.slow]
NAME = "runtime-arriving"
JOB = pd.DataFrame({"user": ["1"], "procs": [4], "requested_s": [3600], "submit_time": [pd.Timestamp("2024-03-01")]})
FIRST = CHANGE_DAY - 3


def do_night(home: Path, number: int):
    trace = source(jobs=900)
    midnight = trace.midnights[FIRST + number]
    return night(trace.accounting(midnight), trace.label(midnight), home)


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


def champion_deleted(store: Tracking) -> None:
    store.client.delete_model_version(NAME, champion(store).version)


def damaged(store: Tracking) -> None:
    place = store.client.get_model_version_download_uri(NAME, champion(store).version)
    data = next(Path(mlflow.artifacts.download_artifacts(place)).rglob("model.json"))
    data.write_text(data.read_text() + " ")


@pytest.mark.parametrize("change", [damaged, champion_deleted])
def test_a_lost_champion_is_refused_and_the_doctor_goes_back_to_the_one_before(
    two_nights: Path, tmp_path: Path, change: Callable[[Tracking], None]
) -> None:
    home = Path(shutil.copytree(two_nights, tmp_path / "home"))
    store = own_registry(home)
    change(store)
    with pytest.raises(InputError, match=NAME):
        predict_registered(NAME, JOB, store, home)
    assert [finding.where for finding in examine(home, lambda: own_registry(home))] == [NAME]
    assert repair(home, lambda: own_registry(home), lambda finding: None) == []
    assert predict_registered(NAME, JOB, store, home)["predicted_s"].iloc[0] > 0
    assert do_night(home, 2).row["champion"]


def test_a_registry_without_any_version_is_another_one(two_nights: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(two_nights, tmp_path / "home"))
    store = own_registry(home)
    store.client.delete_registered_model(NAME)
    with pytest.raises(InputError, match="has no version of runtime-arriving"):
        predict_registered(NAME, JOB, store, home)
