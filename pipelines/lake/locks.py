"""Locks by place: one process at a time, on one machine or, through PostgreSQL, on many.

In a directory a lock is a file. If $QUEUECAST_DATABASE names a PostgreSQL database, it is an advisory lock there, which ends with
the connection when its process dies. A lake at a URL needs such a database.
"""

import hashlib
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from features.errors import InputError
from pipelines.lake.database import DATABASE, connected, named, reason
from pipelines.lake.home import local_home
from pipelines.lake.places import is_url, made_folder


class Busy(InputError):
    """Raised if another process holds a lock."""


@contextmanager
def held(place: Path, most_s: float | None = None) -> Iterator[None]:
    """Hold the lock called ``place``, after waiting for ``most_s`` seconds at most.

    None waits for ever. Raises Busy if another process keeps the lock, and InputError if the database does not answer.
    """
    if url := os.environ.get(DATABASE):
        with _advisory(url, str(place), most_s):
            yield
        return
    try:
        with FileLock(_file(place), timeout=-1 if most_s is None else most_s):
            yield
    except Timeout:
        raise Busy(f"{place}: another process is using it") from None


def _file(place: Path) -> Path:
    if not is_url(place):
        made_folder(place.parent)
        return place
    if place.protocol != "memory":  # type: ignore[attr-defined]
        raise InputError(f"{place}: machines that share a URL need locks: set {DATABASE}=postgresql://...")
    return made_folder(local_home() / "locks") / f"{_digest(str(place))[:32]}.lock"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


@contextmanager
def _advisory(url: str, name: str, most_s: float | None) -> Iterator[None]:
    """Hold PostgreSQL's advisory lock of ``name`` on a connection of its own."""
    connection = connected(url)
    import psycopg2

    number = int(_digest(name)[:16], 16) - (1 << 63)
    try:
        with connection.cursor() as cursor:
            try:
                cursor.execute("SELECT set_config('lock_timeout', %s, false)", (f"{math.ceil(1000 * most_s) if most_s else 0}ms",))
                cursor.execute("SELECT pg_advisory_lock(%s)" if most_s != 0 else "SELECT pg_try_advisory_lock(%s)", (number,))
                got = most_s != 0 or bool(cursor.fetchone()[0])
            except psycopg2.errors.LockNotAvailable:
                got = False
            except psycopg2.Error as error:
                raise InputError(f"{named(url)} does not answer: {reason(error)}") from error
        if not got:
            raise Busy(f"{name}: another process is using it")

        yield
    finally:
        with suppress(psycopg2.Error):  # the lock ends with the connection
            connection.close()
