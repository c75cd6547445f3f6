"""Check a home directory's databases, the runs that Dagster lists, and a site's servers."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from features.errors import InputError, masked, one_line
from pipelines.storage.database import DATABASE, connected, named
from pipelines.storage.places import is_url, move, remove, store_errors

if TYPE_CHECKING:
    from dagster import DagsterInstance

BY_HAND = "by hand"


@dataclass(frozen=True)
class Finding:
    """A fault: ``part`` of the home, ``where``, ``what``, and how to ``mend`` it.

    ``repair`` mends it; without one, it must be mended by hand.
    """

    part: str
    where: str
    what: str
    mend: str
    repair: Callable[[], object] | None = None


_REGISTRY = "mlflow.db"
_BESIDE = ("-journal", "-wal", "-shm")
"""Endings of SQLite's own files, which it would apply to a new database of the same name."""


def databases(home: Path) -> Iterator[Finding]:
    """Check every SQLite database; a damaged one of Dagster, without results, can begin anew."""
    for path in [home / _REGISTRY, *sorted((home / "dagster").rglob("*.db"))]:
        if not path.is_file():
            continue
        part = "registry" if path.name == _REGISTRY else "dagster"
        empty = path.stat().st_size == 0
        error, damaged = ("is empty: it was cut", True) if empty else _error(path)
        finding = partial(Finding, part, str(path.relative_to(home)), error)
        if error and not damaged:
            yield finding(f"{BY_HAND}: look at the permissions of it and of its folder, and at the disk")
        elif error and part == "registry" and not empty:  # some of its models may still be served
            yield finding(f"{BY_HAND}: restore it from a backup, or move it away to begin anew without its models")
        elif error:
            lost = "its models, which a backup brings back" if part == "registry" else "history, and no result"
            mend = f"begin anew without it ({path.name}.damaged is kept); lost is {lost}"
            yield finding(mend, partial(_begin_anew, path))


def _error(path: Path) -> tuple[str, bool]:
    """Return the error of a database, "" if it is sound or locked, and whether it is damaged.

    It is opened for writing; otherwise a transaction that a kill cut off would be an error.
    """
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=5)) as database:
            answer = str(database.execute("PRAGMA integrity_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        code = error.sqlite_errorcode & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return f"is damaged: {error}", True
        return "" if code == sqlite3.SQLITE_BUSY else f"cannot be read: {error}", False
    return ("", False) if answer == "ok" else (f"is damaged: {one_line(answer)}", True)


def _begin_anew(path: Path) -> None:
    """Move a database aside with SQLite's files beside it; the next command makes a new one."""
    for ending in (*_BESIDE, ""):
        if (beside := path.with_name(path.name + ending)).exists():
            move(beside, path.with_name(f"{path.name}.damaged{ending}"))
    for folder in path.parents:
        if folder.name == "dagster":
            remove(folder / ".ready")


def runs_of_dagster(home: Path) -> Iterator[Finding]:
    """Find unfinished runs of commands whose process is gone, for which nights wait."""
    import dagster as dg

    from pipelines.storage.instance import PROCESS_TAG, is_gone

    unfinished = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.NOT_STARTED]
    )
    try:
        if (opened := _instance(home)) is None:
            return
        with opened as instance:
            dead = [run for run in instance.get_runs(unfinished) if is_gone(run.tags.get(PROCESS_TAG, ""))]
    except Exception as error:  # whatever Dagster raises, the other checks go on
        mend = f"{BY_HAND}: restore its folder from a backup, or move it away"
        yield Finding("dagster", "runs", one_line(f"cannot be read: {error}", 200), mend)
        return

    def end() -> None:
        if (opened := _instance(home)) is not None:
            with opened as instance:
                for run in dead:
                    instance.report_run_failed(run, "its process was killed")

    if dead:
        what = f"{len(dead):,} runs in state {dead[0].status.value} whose process is gone: {', '.join(run.run_id[:8] for run in dead[:3])}"
        yield Finding("dagster", "runs", what, "mark them as failed", end)


def _instance(home: Path) -> DagsterInstance | None:
    """Open the Dagster instance of ``home``, which may be the site's; None without one."""
    import dagster as dg

    from pipelines.storage.home import home as site
    from pipelines.storage.home import local_home
    from pipelines.storage.instance import instance

    ours = home.resolve() == site().resolve()
    own = local_home() if ours else home
    ready = (own / "dagster" / ".ready").exists()
    if ours and (ready or os.environ.get("DAGSTER_HOME") or os.environ.get(DATABASE)):
        return instance()
    return dg.DagsterInstance.from_config(str(own / "dagster")) if ready else None


def reached(home: Path) -> tuple[list[str], list[Finding]]:
    """Return a line for each service that answers, and a finding for each that does not.

    ``home`` is the directory that machines share. No line contains a secret.
    """
    lines: list[str] = []
    findings: list[Finding] = []
    for part, where, ask in _services(home):
        try:
            lines.append(f"{part}: {where}: {ask()}")
        except InputError as error:
            findings.append(Finding(part, where, str(error), f"{BY_HAND}: start it, or set it right"))
    return lines, findings


def _services(home: Path) -> list[tuple[str, str, Callable[[], str]]]:
    services: list[tuple[str, str, Callable[[], str]]] = []
    if is_url(home):
        services.append(("lake", str(home), lambda: _store(home)))
    if url := os.environ.get(DATABASE):
        services.append(("database", named(url), lambda: _database(url)))
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        services.append(("registry", masked(uri), _registry))
    return services


def _store(home: Path) -> str:
    with store_errors(home):
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
