"""Atomic and durable writes: the one place that writes files of the home directory.

A file is written under a temporary name and moved into its place; then its directory is synced. After a crash or a power loss the
old file is there or the new one, whole, and whatever was written before it.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from models.registry.syncing import sync
from pipelines.storage.permissions import hand_over

_UNFINISHED = re.compile(r"(?P<process>\d+)-[0-9a-f]{12}\.(part|tmp)$")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path; on success it replaces ``path``.

    The directory of ``path`` is created if missing. If the body raises, the temporary file is removed and the old file stays.
    """
    made_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{unfinished('tmp')}")
    try:
        yield temporary
        hand_over(temporary, path)
        sync(temporary)
        moved(temporary, path)
    except BaseException:
        with suppress(OSError):  # the first error is raised; what stays is a temporary file
            temporary.unlink(missing_ok=True)
        raise


def unfinished(ending: str) -> str:
    """Return a new ending for an unfinished file's name; it tells this process."""
    return f"{os.getpid()}-{secrets.token_hex(6)}.{ending}"


def being_written(path: Path) -> bool:
    """Tell whether an unfinished file's process is alive; False for any other file."""
    found = _UNFINISHED.search(path.name)
    return found is not None and alive(int(found["process"]))


def alive(process: int) -> bool:
    """Tell whether a process of this number is running."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def write(path: Path, content: str | bytes) -> None:
    """Replace the file at ``path``, as :func:`replacing` does; text is UTF-8."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def append(path: Path, line: str) -> None:
    """Add a line to the file at ``path``; lines of several processes do not mix."""
    made_folder(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, f"{line}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def moved(source: Path, target: Path) -> None:
    """Move a file or directory whose content is on the disk into its place."""
    os.replace(source, target)
    sync(target.parent)
    if source.parent != target.parent:
        sync(source.parent)


def removed(path: Path) -> None:
    """Remove a file, if it is there, so that it does not come back."""
    if path.exists():
        path.unlink(missing_ok=True)
        sync(path.parent)


def made_folder(folder: Path) -> Path:
    """Make a directory and those above it, if missing, so that they stay; return it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        hand_over(each, each)
        sync(each.parent)
    return folder
