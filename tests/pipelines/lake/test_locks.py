"""Locks and advisory locks of PostgreSQL, and a site's database: what is refused, and what is said."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from features.errors import InputError
from pipelines.lake import locks
from pipelines.lake.instance import dagster_home
from pipelines.lake.locks import DATABASE, Busy, connected, held, named

psycopg2 = pytest.importorskip("psycopg2")


class Connection:
    """A connection, and its cursor, that notes what it executes; raises or answers as it is let."""

    def __init__(self, free: bool = True, **raising: Exception) -> None:
        self.free, self.raising, self.asked, self.closed = free, raising, [], False

    def cursor(self) -> Connection:
        return self

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, text: str, given: tuple[Any, ...] = ()) -> None:
        self.asked.append((text.removeprefix("SELECT ").partition("(")[0], *given))
        if error := self.raising.get(self.asked[-1][0]):
            raise error

    def fetchone(self) -> tuple[bool]:
        return (self.free,)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Connection:
    connection = Connection()
    monkeypatch.setenv(DATABASE, "postgresql://user:secret@host/site")
    monkeypatch.setattr(locks, "connected", lambda url: connection)
    return connection


def test_a_lock_that_another_process_holds_is_busy(database: Connection) -> None:
    database.free = False
    with pytest.raises(Busy, match=r"x\.lock: another process is using it"), held(Path("x.lock"), 0):
        pass
    database.raising["pg_advisory_lock"] = psycopg2.errors.LockNotAvailable()
    with pytest.raises(Busy), held(Path("x.lock"), 1):
        pass
    assert database.closed


SECRET = "hunter2-planted"


def refusal(url: str) -> str:
    with pytest.raises(InputError) as refused:
        connected(url)
    assert SECRET not in str(refused.value)
    return str(refused.value)


@pytest.fixture
def nowhere() -> str:
    """Return the URL of a database whose server does not run."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    return f"postgresql://reader:{SECRET}@127.0.0.1:{port}/jobs"


def test_a_database_that_is_away_is_named_without_its_password(nowhere: str) -> None:
    port = nowhere.rpartition(":")[2].partition("/")[0]
    assert refusal(nowhere).startswith(f"PostgreSQL database jobs at 127.0.0.1:{port} does not answer: connection to server at ")


@pytest.mark.parametrize(
    "url",
    [
        f"reader:{SECRET}@host/jobs",
        f"mysql://reader:{SECRET}@host/jobs",
        f"postgresql://reader:{SECRET}@host",
        f"postgresql://reader:a/{SECRET}@host/jobs",
        f"postgresql://reader@host:{SECRET}/jobs",
    ],
)
def test_what_is_no_url_is_not_repeated(url: str) -> None:
    with pytest.raises(InputError, match="QUEUECAST_DATABASE is not a URL such as") as refused:
        named(url)
    assert SECRET not in str(refused.value)


@pytest.mark.slow
def test_dagsters_settings_name_the_variable_and_not_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nowhere: str
) -> None:
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    dagster_home()
    settings = tmp_path / "dagster" / "dagster.yaml"
    alone = settings.read_text()
    del os.environ["DAGSTER_HOME"]
    monkeypatch.setenv("QUEUECAST_DATABASE", nowhere)
    with pytest.raises(InputError, match=r"database jobs at 127\.0\.0\.1:\d+ does not answer"):
        dagster_home()
    assert yaml.safe_load(settings.read_text())["storage"]["custom"]["config"] == {"postgres_url": {"env": "QUEUECAST_DATABASE"}}
    assert settings.read_text().startswith(alone)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    del os.environ["DAGSTER_HOME"], os.environ["QUEUECAST_DATABASE"]
    dagster_home()
    assert settings.read_text() == alone
