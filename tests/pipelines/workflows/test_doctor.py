"""``queuecast doctor``: what it finds in a damaged home, what it would do, and that it removes nothing that a reader may use."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from features.errors import InputError
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import aliases_of
from pipelines.storage.registry import tracking
from pipelines.storage.versions import Versions
from pipelines.workflows.doctor import examine, repair
from tests.campaigns import doctor as campaign
from tests.support.command import queuecast
from tests.support.system_calls import available

MODEL = "runtime-t"


def connect(home: Path):
    return tracking(f"sqlite:///{home / 'mlflow.db'}")


def publish(home: Path, number: int) -> None:
    store, lake = connect(home), Lake(home / "lake", f"run-{number}")
    lake.write("jobs", "t", pd.DataFrame({"number": [number]}))
    lake.write_page("t.html", MODEL, str(number))
    lake.name_models(MODEL, {"champion": str(number)})
    lake.versions(MODEL).publish(lake.draft, aliases_of(store, MODEL))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home with two versions, which nobody else may read."""
    before = os.umask(0o077)
    client = connect(tmp_path).client
    client.create_registered_model(MODEL)
    for number in (1, 2):
        client.create_model_version(MODEL, tmp_path.as_uri())
        publish(tmp_path, number)
    yield tmp_path
    os.umask(before)


def found(home: Path) -> list[str]:
    return [f"{each.what} -> {each.mend}" for each in examine(home, lambda: connect(home))]


def mended(home: Path) -> list[str]:
    """Repair; return what was done. Nothing is found afterwards."""
    done: list[str] = []
    assert repair(home, lambda: connect(home), lambda each: done.append(each.mend)) == []
    assert found(home) == []
    return done


def seen(home: Path) -> tuple[int, str, str]:
    number = int(Lake(home / "lake").read("jobs", "t")[0]["number"].iloc[0])
    champion = connect(home).client.get_model_version_by_alias(MODEL, "champion").version
    return number, (home / "reports" / "t.html").read_text(), str(champion)


def test_a_sound_home_has_nothing_to_mend(home: Path) -> None:
    assert found(home) == []
    assert queuecast("doctor", home=home).returncode == 0


def test_a_damaged_pointer_is_put_back_from_its_copy(home: Path) -> None:
    pointer = home / "lake" / "current" / f"{MODEL}.json"
    pointer.write_text(pointer.read_text()[:40])
    asked = queuecast("doctor", "--json", home=home)
    stated = json.loads(asked.stdout.splitlines()[0])
    assert asked.returncode == 1
    assert (stated["part"], stated["where"], stated["by_hand"], stated["repaired"]) == ("lake", MODEL, False, False)
    with pytest.raises(InputError, match="is damaged"):
        Lake(home / "lake").read("jobs", "t")
    assert queuecast("doctor", "--repair", home=home).returncode == 0
    assert seen(home) == (2, "2", "2")
    pointer.write_text("")
    (home / "lake" / "current" / f"{MODEL}.followed").write_text("")
    assert found(home)[0].endswith("by hand: restore it from a backup")
    assert queuecast("doctor", "--repair", home=home).returncode == 1


def test_a_damaged_table_leads_back_to_the_version_before(home: Path) -> None:
    table = Lake(home / "lake").path("jobs", "t")
    table.write_bytes(b"cut")
    assert mended(home)[0].startswith("go back to the version before, ")
    assert seen(home) == (1, "1", "1")
    Lake(home / "lake").path("jobs", "t").unlink()
    assert mended(home) == ["leave them out of the version, so that they are made anew"]
    with pytest.raises(InputError, match="materialise jobs of t first"):
        Lake(home / "lake").read("jobs", "t")


def test_aliases_and_pages_that_do_not_follow_are_set_again(home: Path) -> None:
    versions = Versions(home / "lake", MODEL)
    current, before = versions.kept()
    (home / "reports" / "t.html").unlink()
    connect(home).client.delete_registered_model_alias(MODEL, "champion")
    assert mended(home) == ["set the aliases again", "show what was published"]
    versions.put(before, current)  # as if a process had died after the pointer
    assert mended(home) == ["let aliases and pages follow it"]
    assert seen(home) == (1, "1", "1")


def test_a_damaged_draft_stops_no_other_and_goes(home: Path) -> None:
    draft = home / "lake" / "drafts" / MODEL / "dead.json"
    draft.write_text('{"id": ')
    client = connect(home).client
    client.create_model_version(MODEL, home.as_uri())
    publish(home, 3)
    assert seen(home) == (3, "3", "3")
    assert mended(home) == ["remove it"]
    assert not draft.exists()


def test_a_registry_that_was_cut_is_told_and_begun_anew(home: Path) -> None:
    (home / "mlflow.db").write_bytes(b"")
    assert found(home)[0].startswith("is empty: it was cut; a backup brings its models back -> begin anew without them")
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        database.execute("CREATE TABLE t (a)")
        database.execute("INSERT INTO t VALUES (1)")
        database.commit()
    whole = (home / "mlflow.db").read_bytes()
    (home / "mlflow.db").write_bytes(whole[:4096] + b"x" * (len(whole) - 4096))
    assert "by hand: restore it from a backup" in found(home)[0]


def test_files_that_others_may_read_are_closed(home: Path) -> None:
    (home / "lake").chmod(0o755)
    assert mended(home) == ["take that away (umask 077)"]
    assert (home / "lake").stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="system calls can be watched on Linux for x86-64 only")
def test_after_ten_kills_the_doctor_finds_repairs_and_finds_nothing(tmp_path: Path) -> None:
    counts = campaign.campaign(20, 1, tmp_path, ("promotion", "ingestion"))
    assert counts.findings == []
    assert counts.attempts == 20
