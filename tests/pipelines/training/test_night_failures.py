"""A night whose registry fails: before publication it changes nothing, after it the next night sets the aliases."""

from __future__ import annotations

import shutil
from pathlib import Path

import mlflow
import pytest

from features.errors import InputError
from models.registry import registration
from pipelines.lake import publishing
from pipelines.training.night import night, own_registry
from tests.support.arriving import CHANGE_DAY, contents, source

pytestmark = [pytest.mark.usefixtures("undrawn_pictures", "quick_methods"), pytest.mark.thorough]
FIRST = CHANGE_DAY - 3


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory):
    """A home with one night done."""
    before = mlflow.get_tracking_uri()
    home, trace = tmp_path_factory.mktemp("failures") / "home", source(jobs=900)
    do(home, trace, 0)
    yield home, trace
    mlflow.set_tracking_uri(before)


@pytest.fixture
def home(prepared, tmp_path: Path):
    """A copy of it; the registry's database holds absolute places of artifacts, which stay readable where they are."""
    return Path(shutil.copytree(prepared[0], tmp_path / "home"))


def do(home: Path, trace, number: int):
    midnight = trace.midnights[FIRST + number]
    return night(trace.accounting(midnight), trace.label(midnight), home)


def aliases(home: Path) -> dict[str, str]:
    client = own_registry(home).client
    return {name: str(version) for name, version in client.get_registered_model("runtime-arriving").aliases.items()}


def boom(*_: object, **__: object):
    raise RuntimeError("boom")


def test_a_version_damaged_on_its_way_into_the_registry_fails_the_night_and_changes_nothing(
    prepared, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, named = contents(home), aliases(home)
    real, names = registration.new_version, []

    def damaged(tracking, name, logged, *rest):
        names.append(name)
        if len(names) == 2:  # the refreshed champion
            folder = Path(mlflow.artifacts.download_artifacts(logged.model_uri)) / "artifacts" / "runtime_model"
            file = folder / "history.parquet"
            file.write_bytes(file.read_bytes()[:-100])
        return real(tracking, name, logged, *rest)

    monkeypatch.setattr(registration, "new_version", damaged)
    with pytest.raises(InputError, match="does not answer when it is loaded back"):
        do(home, prepared[1], 1)
    assert len(names) == 2
    assert contents(home) == before
    assert aliases(home) == named


def test_aliases_that_cannot_be_set_stop_no_night(prepared, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, named = prepared[1], aliases(home)
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(publishing, "aliases_of", lambda *_: boom)
        first = do(home, trace, 1)
    assert aliases(home)["champion"] == named["champion"] != first.row["champion"]
    assert "is published, but its aliases or pages could not be updated (boom)" in capsys.readouterr().err
    second = do(home, trace, 2)
    assert len(second.nights) == 3
    assert aliases(home)["champion"] == second.row["champion"]
