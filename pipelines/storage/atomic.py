"""Atomic and durable writes, in a directory or at an object store.

:mod:`pipelines.storage.places` has how.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TypeVar

from pipelines.storage.places import at
from pipelines.storage.remote import Overtaken, Seen

Result = TypeVar("Result")


def replacing(path: Path) -> AbstractContextManager[Path]:
    """Return a context of a temporary path; on success it replaces ``path``.

    Else the old file stays. The directory of ``path`` is created if missing.
    """
    return at(path).replacing(path)


def seen(path: Path) -> Seen:
    """Return what ``path`` holds, for a later :func:`write` instead of it."""
    return at(path).seen(path)


def write(path: Path, content: str | bytes, instead_of: Seen | None = None) -> Seen:
    """Replace the file at ``path``, as :func:`replacing` does; return what it holds now.

    Text is UTF-8. An object that is no longer what was ``instead_of`` which it is written stays, and Overtaken is raised. In a directory a lock
    must see to that.
    """
    return at(path).write(path, content.encode() if isinstance(content, str) else content, instead_of)


def append(path: Path, line: str) -> None:
    """Add a line to the file at ``path``; lines of several processes do not mix."""
    at(path).append(path, f"{line}\n".encode())


def until_written(change: Callable[[], Result], attempts: int = 10) -> Result:
    """Return the result of ``change``, done again where another process overtook it."""
    for _ in range(attempts - 1):
        with suppress(Overtaken):
            return change()
    return change()


def moved(source: Path, target: Path) -> None:
    """Move a file whose content is on the disk into its place; in a directory a folder, too."""
    at(target).moved(source, target)


def removed(path: Path) -> None:
    """Remove a file, if it is there, so that it does not come back."""
    at(path).removed(path)


def made_folder(folder: Path) -> Path:
    """Make a directory and those above it, if missing, so that they stay; return it."""
    return at(folder).folder(folder)
