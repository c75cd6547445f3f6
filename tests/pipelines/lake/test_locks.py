"""Advisory locks of PostgreSQL: what is asked of the database, and what its answers mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from features.errors import InputError
from pipelines.lake import locks
from pipelines.lake.locks import DATABASE, Busy, held

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


def test_a_database_that_goes_away_is_told_without_its_password(database: Connection) -> None:
    database.raising["pg_advisory_lock"] = psycopg2.OperationalError("terminating connection")
    with pytest.raises(InputError, match="at host:5432 does not answer: terminating connection"), held(Path("x.lock")):
        pass
