"""The site's PostgreSQL database: connections that wait, and its name without secrets.

$QUEUECAST_DATABASE is its URL. Connections are tried again until the site's max wait is over: libpq gives
no code that tells a restart from a wrong password. Passwords are in libpq's settings or the URL, not shown.
"""

import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from features.errors import ADDRESS, InputError
from pipelines.lake import site

_T = TypeVar("_T")
DATABASE = "QUEUECAST_DATABASE"
"""Environment variable: URL of the site's database, for locks and Dagster."""
CONNECTION = {"connect_timeout": 10, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""libpq's parameters of a connection: seconds, and probes, until a host without answer counts as gone."""
_FIRST_S, _LONGEST_S = 0.1, 3.0
"""Pauses between attempts grow from the first, twofold, to the longest."""


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

    Raises InputError if the database does not answer in time.
    """
    try:
        import psycopg2
    except ImportError as error:
        raise InputError(f"{DATABASE} is set and psycopg2 is missing: install Queuecast with its extra 'server'") from error
    name = named(url)
    connection = patiently(lambda: psycopg2.connect(url, **CONNECTION), name)
    connection.autocommit = True
    return connection


def patiently(connect: Callable[[], _T], name: str) -> _T:
    """Return the result of ``connect``, called again while database ``name`` does not answer.

    Raises InputError after the site's max wait, and at once for an unusable URL.
    """
    import psycopg2

    begun, pause_s, wait_s = time.monotonic(), _FIRST_S, site.wait_s()
    while True:
        try:
            return connect()
        except psycopg2.Error as error:
            waited_s = time.monotonic() - begun
            refused = not isinstance(error, psycopg2.OperationalError)
            if refused or waited_s + pause_s > wait_s:
                waited = "" if refused else f" (waited {waited_s:.0f} s)"
                raise InputError(f"{name} {'refuses' if refused else 'does not answer'}{waited}: {reason(error)}") from error
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_S)


def reason(error: BaseException) -> str:
    """Return the first line of libpq's message: host, port, user, database, no password."""
    import psycopg2

    if isinstance(error, psycopg2.ProgrammingError):
        return "its URL has an option that libpq does not know"
    return " ".join(str(error).strip().partition("\n")[0].split())[:200]


def wait_for_databases() -> None:
    """Let SQLAlchemy make this process's PostgreSQL connections by :func:`patiently`."""
    import sqlalchemy

    if not sqlalchemy.event.contains(sqlalchemy.Engine, "do_connect", _connect):
        sqlalchemy.event.listen(sqlalchemy.Engine, "do_connect", _connect)
        sqlalchemy.event.listen(sqlalchemy.Pool, "checkout", _ask)


def _ask(connection: Any, record: Any, _: object) -> None:
    """Check that a kept connection still works; if not, the pool makes another."""
    if not type(connection).__module__.startswith("psycopg2") or not record.info.setdefault("queuecast/kept", False):
        record.info["queuecast/kept"] = True
        return
    import psycopg2
    from sqlalchemy.exc import DisconnectionError

    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        if not connection.autocommit:
            connection.rollback()
    except psycopg2.Error as error:
        raise DisconnectionError from error


def _connect(dialect: Any, _: object, positional: list[Any], options: dict[str, Any]) -> Any:
    """Connect in place of SQLAlchemy; return None for databases other than PostgreSQL."""
    if dialect.name != "postgresql":
        return None
    address = f"{options.get('host', 'this machine')}:{options.get('port', 5432)}"
    return patiently(
        lambda: dialect.connect(*positional, **{**CONNECTION, **options}),
        f"PostgreSQL database {options.get('dbname')} at {address}",
    )
