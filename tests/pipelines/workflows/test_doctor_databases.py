"""Damaged databases of a home are named with how to mend them, and sound ones are left alone."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pipelines.workflows.doctor_databases import databases

PLACES = (
    "dagster/history/runs.db",
    "dagster/history/runs/index.db",
    "dagster/history/runs/0f.db",
    "dagster/schedules/schedules.db",
)
PAGE = 4096


def overwritten(whole: bytes) -> bytes:
    return whole[:PAGE] + b"\xa5" * PAGE + whole[2 * PAGE :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda whole: whole[: len(whole) // 2 + 100],
    "a page overwritten": overwritten,
    "zero bytes": lambda whole: bytes(len(whole)),
    "empty": lambda whole: b"",
    "a text": lambda whole: b"a note\n" * 2000,
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a sound database at each place."""
    for place in (*PLACES, "mlflow.db"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(tmp_path / place)) as database, database:
            database.execute("CREATE TABLE t (a)")
            database.executemany("INSERT INTO t VALUES (?)", [("x" * 100,)] * 200)
    (tmp_path / "dagster" / ".ready").touch()
    return tmp_path


def test_sound_databases_are_no_finding(home: Path) -> None:
    assert [*databases(home)] == []


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_database_of_dagster_is_named_and_begun_anew(home: Path, place: str, how: str) -> None:
    path = home / place
    damaged = DAMAGE[how](path.read_bytes())
    path.write_bytes(damaged)
    path.with_name(f"{path.name}-journal").write_bytes(b"")
    (finding,) = databases(home)
    assert (finding.part, finding.where) == ("dagster", place)
    assert finding.what.startswith("is empty: it was cut" if how == "empty" else "is damaged: ")
    assert finding.mend.startswith(f"begin anew without it ({path.name}.damaged is kept); lost is ")
    assert finding.mend.endswith("no result")
    assert path.read_bytes() == damaged, "looking changes nothing"
    assert finding.repair is not None
    finding.repair()
    assert path.with_name(f"{path.name}.damaged").read_bytes() == damaged
    assert not path.exists()
    assert not path.with_name(f"{path.name}-journal").exists(), "it would be played into the new database"
    assert not (home / "dagster" / ".ready").exists(), "the next command sets its store up, alone"
    assert [*databases(home)] == []


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_registry_is_for_a_backup_unless_it_is_empty(home: Path, how: str) -> None:
    path = home / "mlflow.db"
    path.write_bytes(DAMAGE[how](path.read_bytes()))
    (finding,) = databases(home)
    assert (finding.part, finding.where) == ("registry", "mlflow.db")
    assert (finding.repair is None) == (how != "empty")
    assert "backup" in finding.mend


def test_a_folder_in_the_place_of_what_sqlite_keeps_is_no_damage_of_the_database(home: Path) -> None:
    (home / "dagster/history/runs.db-journal").mkdir()
    (finding,) = databases(home)
    assert finding.what.startswith("cannot be read: ")
    assert finding.mend == "by hand: look at the permissions of it and of its folder, and at the disk"


def test_a_transaction_that_a_kill_cut_off_is_no_damage(home: Path) -> None:
    path = home / "mlflow.db"
    if (process := os.fork()) == 0:
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("PRAGMA cache_size = 1")
        database.execute("BEGIN")
        database.execute("UPDATE t SET a = a || a")
        os._exit(0)
    os.waitpid(process, 0)
    assert path.with_name("mlflow.db-journal").stat().st_size
    with (
        pytest.raises(sqlite3.OperationalError, match="readonly"),
        closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database,
    ):
        database.execute("PRAGMA integrity_check")
    assert [*databases(home)] == []
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT DISTINCT length(a) FROM t").fetchall() == [(100,)]
