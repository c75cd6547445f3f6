"""The site's PostgreSQL database: its connections, and its name without secrets.

$QUEUECAST_DATABASE is its URL. Passwords are in libpq's settings or the URL, not shown.
"""

import re
from typing import Any

from features.errors import ADDRESS, InputError

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
