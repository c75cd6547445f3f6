"""``queuecast doctor``: what it finds in a damaged lake, and that its repair is the version before."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from models.registry import packing
from pipelines.lake.publishing import aliases_of, alone
from pipelines.lake.registry import tracking
from pipelines.lake.tables import Lake
from pipelines.studies.doctor import examine, repair
from tests.support.command import queuecast

MODEL = "runtime-t"


def connect(home: Path):
    return tracking(f"sqlite:///{home / 'mlflow.db'}")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with two versions, whose registered models have no files."""
    monkeypatch.setattr(packing, "fault_of", lambda *_: "")
    client = connect(tmp_path).client
    client.create_registered_model(MODEL)
    for number in (1, 2):
        client.create_model_version(MODEL, tmp_path.as_uri())
        lake = Lake(tmp_path / "lake", f"run-{number}")
        lake.write("jobs", "t", pd.DataFrame({"number": [number]}))
        lake.name_models(MODEL, {"champion": str(number)})
        lake.versions(MODEL).publish(lake.maker, aliases_of(connect(tmp_path), MODEL))
    return tmp_path


def findings(home: Path) -> list[str]:
    return [f"{finding.what} -> {finding.mend}" for finding in examine(home, lambda: connect(home))]


def mended(home: Path) -> list[str]:
    """Repair; return what was done. Nothing is found afterwards."""
    done: list[str] = []
    assert repair(home, lambda: connect(home), lambda finding: done.append(finding.mend)) == []
    return done


def seen(home: Path) -> tuple[int, str]:
    number = int(Lake(home / "lake").read("jobs", "t")[0]["number"].iloc[0])
    return number, str(connect(home).client.get_model_version_by_alias(MODEL, "champion").version)


def test_a_sound_home_has_nothing_to_mend(home: Path) -> None:
    assert findings(home) == []
    assert seen(home) == (2, "2")


def test_a_damaged_table_leads_back_to_the_version_before(home: Path) -> None:
    table = Lake(home / "lake").path("jobs", "t")
    table.write_bytes(b"cut")
    assert mended(home)[0].startswith("go back to the version before, ")
    assert seen(home) == (1, "1")
    Lake(home / "lake").path("jobs", "t").unlink()
    assert "let a run or night make it anew" in findings(home)[0]


def test_a_damaged_pointer_is_told_in_json_and_needs_a_backup(home: Path) -> None:
    (home / "lake" / "current" / f"{MODEL}.json").write_text('{"current": ')
    asked = queuecast("doctor", "--json", home=home)
    finding = json.loads(asked.stdout.splitlines()[0])
    assert asked.returncode == 1
    assert (finding["part"], finding["where"], finding["by_hand"]) == ("lake", MODEL, True)


def test_a_subject_at_which_a_night_works_is_left_alone(home: Path) -> None:
    Lake(home / "lake").path("jobs", "t").write_bytes(b"cut")
    with alone(home, "t"):
        assert findings(home) == []
    assert len(findings(home)) == 1


def test_an_alias_that_was_moved_by_hand_is_trusted(home: Path) -> None:
    connect(home).client.set_registered_model_alias(MODEL, "champion", "1")
    assert (findings(home), mended(home)) == ([], [])
    assert str(connect(home).client.get_model_version_by_alias(MODEL, "champion").version) == "1"


def test_an_alias_that_was_deleted_is_set_again(home: Path) -> None:
    connect(home).client.delete_registered_model_alias(MODEL, "champion")
    assert mended(home) == ["set them again"]
    assert seen(home) == (2, "2")


def test_a_registry_that_was_cut_is_told(home: Path) -> None:
    (home / "mlflow.db").write_bytes(b"")
    assert "is empty: it was cut" in findings(home)[0]
