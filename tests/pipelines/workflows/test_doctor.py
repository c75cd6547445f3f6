"""``queuecast doctor``: what it finds in a damaged home, what it would do, and that it removes nothing that a reader may use."""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import dagster as dg
import pandas as pd
import pytest
from dagster._core.utils import make_new_run_id

from features.errors import InputError
from pipelines.storage.home import home as site_home
from pipelines.storage.instance import PROCESS_TAG, instance, process_mark
from pipelines.storage.lake import Lake
from pipelines.storage.publishing import aliases_of, alone
from pipelines.storage.registry import tracking
from pipelines.storage.versions import Versions
from pipelines.workflows.doctor import examine, repair
from pipelines.workflows.doctor_databases import reached, runs_of_dagster
from tests.support.command import queuecast

MODEL = "runtime-t"


def connect(home: Path):
    return tracking(f"sqlite:///{home / 'mlflow.db'}")


def publish(home: Path, number: int, place: Path | None = None) -> None:
    """Publish a version of a home, whose lake may be at another ``place``."""
    store, lake = connect(home), Lake((place or home) / "lake", f"run-{number}")
    lake.write("jobs", "t", pd.DataFrame({"number": [number]}))
    lake.write_page("t.html", MODEL, str(number))
    lake.name_models(MODEL, {"champion": str(number)})
    lake.versions(MODEL).publish(lake.maker, aliases_of(store, MODEL))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home with two versions, which no other user may read."""
    before = os.umask(0o077)
    client = connect(tmp_path).client
    client.create_registered_model(MODEL)
    for number in (1, 2):
        client.create_model_version(MODEL, tmp_path.as_uri())
        publish(tmp_path, number)
    yield tmp_path
    os.umask(before)


def findings(home: Path) -> list[str]:
    return [f"{each.what} -> {each.mend}" for each in examine(home, lambda: connect(home))]


def mended(home: Path) -> list[str]:
    """Repair; return what was done. Nothing is found afterwards."""
    done: list[str] = []
    assert repair(home, lambda: connect(home), lambda each: done.append(each.mend)) == []
    assert findings(home) == []
    return done


def seen(home: Path) -> tuple[int, str, str]:
    number = int(Lake(home / "lake").read("jobs", "t")[0]["number"].iloc[0])
    champion = connect(home).client.get_model_version_by_alias(MODEL, "champion").version
    return number, (home / "reports" / "t.html").read_text(), str(champion)


def test_a_sound_home_has_nothing_to_mend(home: Path) -> None:
    assert findings(home) == []
    assert queuecast("doctor", home=home).returncode == 0


def test_a_lake_at_an_object_store_is_looked_at_with_this_machines_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"memory://{uuid.uuid4().hex}/site"
    for name, value in {"QUEUECAST_LAKE": url, "QUEUECAST_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    tmp_path.chmod(0o700)
    place = site_home()
    asked = partial(examine, place, partial(connect, tmp_path))
    assert reached(place) == ([f"lake: {url}: nothing there yet"], [])
    client = connect(tmp_path).client
    client.create_registered_model(MODEL)
    for number in (1, 2):
        client.create_model_version(MODEL, tmp_path.as_uri())
        publish(tmp_path, number, place)
    assert reached(place)[0][0] == f"lake: {url}: 2 entries"
    assert [*asked()] == []
    table = Lake(place / "lake").path("jobs", "t")
    table.write_bytes(b"cut")
    (tmp_path / "mlflow.db").write_bytes(b"")
    mends = [(each.part, each.mend.partition(", ")[0].partition(" (")[0]) for each in asked()]
    assert mends == [("registry", "begin anew without it"), ("lake", "go back to the version before")]


@pytest.mark.slow
def test_a_damaged_pointer_is_told(home: Path) -> None:
    pointer = home / "lake" / "current" / f"{MODEL}.json"
    pointer.write_text(pointer.read_text()[:40])
    asked = queuecast("doctor", "--json", home=home)
    finding = json.loads(asked.stdout.splitlines()[0])
    assert asked.returncode == 1
    assert (finding["part"], finding["where"], finding["by_hand"], finding["repaired"]) == ("lake", MODEL, True, False)
    with pytest.raises(InputError, match="is damaged"):
        Lake(home / "lake").read("jobs", "t")
    assert findings(home)[0].endswith("by hand: restore it from a backup")
    assert queuecast("doctor", "--repair", home=home).returncode == 1


def test_a_damaged_table_leads_back_to_the_version_before(home: Path) -> None:
    table = Lake(home / "lake").path("jobs", "t")
    table.write_bytes(b"cut")
    assert mended(home)[0].startswith("go back to the version before, ")
    assert seen(home) == (1, "1", "1")
    Lake(home / "lake").path("jobs", "t").unlink()
    assert mended(home)[0] == "leave them out of the version, so that they are made anew"
    with pytest.raises(InputError, match="materialise jobs of t first"):
        Lake(home / "lake").read("jobs", "t")


def test_a_damaged_page_costs_no_table(home: Path) -> None:
    current = Versions(home / "lake", MODEL).current()
    (home / "lake" / current.files["reports/t.html"]).write_text("cut")
    assert mended(home)[0] == "leave them out of the version, so that they are made anew"
    assert Lake(home / "lake").read("jobs", "t")[0]["number"].tolist() == [2]
    assert not (home / "reports" / "t.html").exists(), "it is made anew"
    assert len(Versions(home / "lake", MODEL).kept()) == 2, "the version before is kept"


def test_a_subject_at_which_a_night_works_is_left_alone_and_no_night_begins_while_it_is_repaired(home: Path) -> None:
    Lake(home / "lake").path("jobs", "t").write_bytes(b"cut")
    with alone(home, "t"):
        assert findings(home) == []
    for finding in examine(home, lambda: connect(home)):
        with pytest.raises(InputError, match="is running"), alone(home, "t"):
            pass
        assert finding.repair is not None
        finding.repair()
    assert mended(home) == ["let aliases and pages follow it"], "the next round"
    assert seen(home) == (1, "1", "1")


@pytest.mark.slow
def test_another_home_is_looked_at_with_its_own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "there"))
    ids, marks = [make_new_run_id() for _ in range(3)], (process_mark(), "999999999", "999999999@another.machine")
    with instance() as running:
        for id, mark in zip(ids, marks, strict=True):
            running.add_run(dg.DagsterRun("full_run", run_id=id, status=dg.DagsterRunStatus.STARTED, tags={PROCESS_TAG: mark}))
    monkeypatch.delenv("DAGSTER_HOME")
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "here"))
    (dead,) = runs_of_dagster(tmp_path / "there")
    assert f"gone: {ids[1][:8]}" in dead.what
    assert not (tmp_path / "here").exists()
    assert dead.repair is not None
    dead.repair()
    assert [*runs_of_dagster(tmp_path / "there")] == []


def test_aliases_and_pages_that_do_not_follow_are_set_again(home: Path) -> None:
    versions = Versions(home / "lake", MODEL)
    before = versions.kept()[1]
    connect(home).client.delete_registered_model_alias(MODEL, "champion")
    assert mended(home) == ["set the aliases again"]
    versions.put([before])  # as if a process had died after the pointer
    assert mended(home) == ["let aliases and pages follow it"]
    assert seen(home) == (1, "1", "1")


def test_a_damaged_draft_is_told_and_forgotten(home: Path) -> None:
    (home / "lake" / "drafts" / f"{MODEL}.json").write_text('{"files": ')
    assert mended(home) == ["forget what was not published", "let aliases and pages follow it"]
    assert seen(home) == (2, "2", "2")


def test_a_registry_that_was_cut_is_told_and_begun_anew(home: Path) -> None:
    (home / "mlflow.db").write_bytes(b"")
    assert findings(home)[0].startswith("is empty: it was cut -> begin anew without it (mlflow.db.damaged is kept)")
    with closing(sqlite3.connect(home / "mlflow.db")) as database:
        database.execute("CREATE TABLE t (a)")
        database.execute("INSERT INTO t VALUES (1)")
        database.commit()
    whole = (home / "mlflow.db").read_bytes()
    (home / "mlflow.db").write_bytes(whole[:4096] + b"x" * (len(whole) - 4096))
    assert "by hand: restore it from a backup" in findings(home)[0]
    (home / "mlflow.db").write_text("a note\n" * 1000)
    assert "by hand: restore it from a backup" in findings(home)[0]
    with pytest.raises(InputError, match=r"mlflow\.db: .*; queuecast doctor says how to mend it"):
        connect(home)


def test_beside_a_damaged_database_of_dagster_the_other_checks_go_on(home: Path) -> None:
    (home / "dagster").mkdir()
    for name in (".ready", "runs.db"):  # what Dagster could not open
        (home / "dagster" / name).write_text("a note")
    table = Lake(home / "lake").path("jobs", "t")
    table.write_bytes(b"cut")
    asked = queuecast("doctor", "--json", home=home)
    rows = [json.loads(line) for line in asked.stdout.splitlines()]
    assert asked.returncode == 1
    assert [(each["part"], each["where"]) for each in rows] == [("dagster", "dagster/runs.db"), ("lake", MODEL)]
    assert "is damaged: file is not a database" in rows[0]["what"]
    assert str(table.relative_to(home / "lake")) in rows[1]["what"]
    done = mended(home)
    assert [each.partition(" ")[0] for each in done] == ["begin", "go", "let"]


def test_whatever_dagster_cannot_read_is_a_finding_beside_others(home: Path) -> None:
    (home / "dagster").mkdir()
    (home / "dagster" / ".ready").touch()
    (home / "dagster" / "dagster.yaml").write_text("storage: [")
    Lake(home / "lake").path("jobs", "t").write_bytes(b"cut")
    dagster, lake = findings(home)
    assert dagster.startswith("cannot be read: ")
    assert dagster.endswith("by hand: restore its folder from a backup, or move it away")
    assert lake.startswith("missing or damaged in the current version")
