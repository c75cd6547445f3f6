"""What a site's settings name, and whether it answers: object store, database, registry."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from features.errors import InputError, masked
from pipelines.storage.database import DATABASE, connected, named
from pipelines.storage.places import at
from pipelines.storage.remote import told
from pipelines.workflows.finding import BY_HAND, Finding


def reached(home: Path) -> tuple[list[str], list[Finding]]:
    """Return a line for each service that answers, and a finding for each that does not.

    ``home`` is the place of what machines share. No line holds a secret.
    """
    lines: list[str] = []
    found: list[Finding] = []
    for part, where, ask in _services(home):
        try:
            lines.append(f"{part}: {where}: {ask()}")
        except InputError as error:
            found.append(Finding(part, where, str(error), f"{BY_HAND}: start it, or set it right"))
    return lines, found


def _services(home: Path) -> list[tuple[str, str, Callable[[], str]]]:
    services: list[tuple[str, str, Callable[[], str]]] = []
    if at(home).shared:
        services.append(("lake", str(home), lambda: _store(home)))
    if url := os.environ.get(DATABASE):
        services.append(("database", named(url), lambda: _database(url)))
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        services.append(("registry", masked(uri), _registry))
    return services


def _store(home: Path) -> str:
    with told(home):
        try:
            return f"{len(home.fs.ls(home.path, detail=False)):,} entries"  # type: ignore[attr-defined]
        except FileNotFoundError as error:
            if "specified bucket" in str(error):
                raise InputError(f"{home}: {error}: make the bucket, or set another") from error
            return "nothing there yet"


def _database(url: str) -> str:
    with closing(connected(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        return f"PostgreSQL {cursor.fetchone()[0]}"


def _registry() -> str:
    from pipelines.storage.registry import tracking

    store = tracking()
    return f"{len(store.client.search_registered_models()):,} registered models"
