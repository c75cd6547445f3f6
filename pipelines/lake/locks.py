"""Locks by place: one process at a time, on one machine or, through PostgreSQL, on many.

In a directory a lock is a file. If $QUEUECAST_DATABASE is the URL of a PostgreSQL database, it is an advisory lock
there, which ends with the connection when its process dies; passwords are in libpq's settings or the URL, not shown. A
lake at a URL needs such a database.
"""

import hashlib
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from features.errors import ADDRESS, InputError
from pipelines.lake.places import is_url, local_home, made_folder

DATABASE = "QUEUECAST_DATABASE"
"""Environment variable: URL of the site's database, for locks and Dagster."""
CONNECTION = {"connect_timeout": 10, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""libpq's parameters of a connection: seconds, and probes, until a host without answer counts as gone."""


def named(url: str) -> str:
    """Return ``PostgreSQL database NAME at HOST:PORT`` for a URL.

    Raises InputError, without the URL, for any other text.
    """
    parts = ADDRESS.fullmatch(url)
    if parts is None or parts["scheme"] != "postgresql" or not (parts["path"] or "").strip("/"):
        raise InputError(
            f"{DATABASE} is not a URL such as postgresql://user:password@host:port/database, with %40 for an @ in a password "
            "(it is not shown: it may hold a password)"
        )
    socket = re.search(r"\bhost=([\w./-]+)", parts["query"] or "")
    host = parts["host"] or (socket[1] if socket else "this machine's socket")
    return f"PostgreSQL database {parts['path'].strip('/')} at {host}:{parts['port'] or 5432}"


def connected(url: str) -> Any:
    """Return a psycopg2 connection in autocommit mode.

    Raises InputError if the database does not answer.
    """
    try:
        import psycopg2
    except ImportError as error:
        raise InputError(f"{DATABASE} is set and psycopg2 is missing: install Queuecast with its extra 'server'") from error
    name = named(url)
    try:
        connection = psycopg2.connect(url, **CONNECTION)
    except psycopg2.Error as error:
        raise InputError(f"{name} does not answer: {reason(error)}") from error
    connection.autocommit = True
    return connection


def reason(error: BaseException) -> str:
    """Return the first line of libpq's message: host, port, user, database, no password."""
    import psycopg2

    if isinstance(error, psycopg2.ProgrammingError):
        return "its URL has an option that libpq does not know"
    return " ".join(str(error).strip().partition("\n")[0].split())[:200]


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
