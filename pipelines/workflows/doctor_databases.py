"""Check the SQLite databases of a home directory: the registry, and Dagster's.

The latter hold runs, events, schedules and sensors.
"""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from features.errors import one_line
from pipelines.storage.atomic import moved, removed
from pipelines.workflows.doctor_registry import BY_HAND, Finding

_REGISTRY = "mlflow.db"
_LOST = {
    _REGISTRY: "its models, which a backup brings back",
    "runs.db": "the list of runs, and no result",
    "index.db": "the history of assets, and which traces and systems have nights, until queuecast run of each; no result",
    "schedules.db": "which schedules and sensors were switched off, and how far they were; no result",
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BESIDE = ("-journal", "-wal", "-shm")
"""Endings of files of SQLite's own, which would be played into a new database of the same name."""


def databases(home: Path) -> Iterator[Finding]:
    """Check every database; none of Dagster's holds a result, so a damaged one is begun anew."""
    for path in [home / _REGISTRY, *sorted((home / "dagster").rglob("*.db"))]:
        if not path.is_file():
            continue
        part, where = "registry" if path.name == _REGISTRY else "dagster", str(path.relative_to(home))
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o600 != 0o600:
            what = f"may not be read and written by its owner (mode {mode:03o})"
            yield Finding(part, where, what, "allow that", partial(path.chmod, mode | 0o600))
        elif (size := path.stat().st_size) == 0 or (error := _error(path))[0] in _DAMAGED:
            what = f"is damaged: {error[1]}" if size else "is empty: it was cut"
            if path.name == _REGISTRY and size:  # some of its models may still be served
                mend = f"{BY_HAND}: restore it from a backup, or move it away to begin anew without its models"
                yield Finding(part, where, what, mend)
                continue
            lost = _LOST.get(path.name, "what is shown of that run, and no result")
            mend = f"begin anew without it ({path.name}.damaged is kept); lost is {lost}"
            yield Finding(part, where, what, mend, partial(_begin_anew, path))
        elif error[0]:
            mend = f"{BY_HAND}: look at the permissions of its folder, and at the disk"
            yield Finding(part, where, f"cannot be read: {error[1]}", mend)


def _error(path: Path) -> tuple[int, str]:
    """Return SQLite's primary code and words for what is wrong with a database; 0 for a sound or locked one.

    It is opened for writing, since a transaction that a kill cut off is otherwise no more than an error.
    """
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=5)) as database:
            said = str(database.execute("PRAGMA integrity_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        code = error.sqlite_errorcode & 0xFF
        return (0 if code == sqlite3.SQLITE_BUSY else code), str(error)
    return (0 if said == "ok" else sqlite3.SQLITE_CORRUPT), one_line(said)


def _begin_anew(path: Path) -> None:
    """Move a database aside with what SQLite keeps beside it; the next command makes a new one."""
    for ending in _BESIDE:
        if (beside := path.with_name(path.name + ending)).exists():
            moved(beside, path.with_name(f"{path.name}.damaged{ending}"))
    moved(path, path.with_name(f"{path.name}.damaged"))
    for folder in path.parents:
        if folder.name == "dagster":
            removed(folder / ".ready")
