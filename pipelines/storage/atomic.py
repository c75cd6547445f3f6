"""Atomic and durable writes: the one place that writes files of the home directory.

A file is written under a temporary name and moved into its place; then its directory is synced. After a crash or a power loss the
old file is there or the new one, whole, and whatever was written before it. At an object store a file is written in a local directory
and put as one object (:mod:`pipelines.storage.remote`).
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from models.registry.syncing import sync
from pipelines.storage import remote
from pipelines.storage.permissions import hand_over
from pipelines.storage.remote import Seen, is_remote

Result = TypeVar("Result")
_UNFINISHED = re.compile(r"(?P<process>\d+)-[0-9a-f]{12}\.(part|tmp)$")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path; on success it replaces ``path``.

    The directory of ``path`` is created if missing. If the body raises, the temporary file is removed and the old file stays.
    """
    made_folder(path.parent)
    temporary = being_made(path)
    try:
        yield temporary
        if not is_remote(path):
            hand_over(temporary, path)
            sync(temporary)
        moved(temporary, path)
    except BaseException:
        with suppress(OSError):  # the first error is raised; what stays is a temporary file
            temporary.unlink(missing_ok=True)
        raise


def being_made(path: Path) -> Path:
    """Return a new local path for the content of ``path``, until :func:`moved` puts it there."""
    name = f".{path.name}.{unfinished('tmp')}"
    if not is_remote(path):
        return path.with_name(name)
    for left in remote.scratch().iterdir():
        if _UNFINISHED.search(left.name) and not being_written(left):  # of a process that was killed
            left.unlink(missing_ok=True)
    return remote.scratch() / name


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


def seen(path: Path) -> Seen:
    """Return what ``path`` holds, for a later :func:`write` instead of it."""
    if is_remote(path):
        return remote.seen(path)
    try:
        return Seen(path.read_bytes())
    except FileNotFoundError:
        return Seen(None)


def write(path: Path, content: str | bytes, instead_of: Seen | None = None) -> Seen:
    """Replace the file at ``path``, as :func:`replacing` does; return what it holds now.

    Text is UTF-8. An object that is no longer what was ``instead_of`` which it is written stays, and Overtaken is raised. In a directory a lock
    must see to that.
    """
    content = content.encode() if isinstance(content, str) else content
    if is_remote(path):
        return remote.put(path, content, instead_of)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return Seen(content)


def append(path: Path, line: str) -> None:
    """Add a line to the file at ``path``; lines of several processes do not mix."""
    if is_remote(path):
        while True:
            before = remote.seen(path)
            with suppress(remote.Overtaken):
                remote.put(path, (before.content or b"") + f"{line}\n".encode(), before)
                return
    made_folder(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, f"{line}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def until_written(change: Callable[[], Result], attempts: int = 10) -> Result:
    """Return the result of ``change``, done again where another process overtook it."""
    for _ in range(attempts - 1):
        with suppress(remote.Overtaken):
            return change()
    return change()


def moved(source: Path, target: Path) -> None:
    """Move a file or directory whose content is on the disk into its place.

    A file may be moved to an object store.
    """
    if is_remote(target):
        remote.put_file(target, source)
        source.unlink()
        return
    os.replace(source, target)
    sync(target.parent)
    if source.parent != target.parent:
        sync(source.parent)


def removed(path: Path) -> None:
    """Remove a file, if it is there, so that it does not come back."""
    if is_remote(path):
        remote.remove(path)
    elif path.exists():
        path.unlink(missing_ok=True)
        sync(path.parent)


def made_folder(folder: Path) -> Path:
    """Make a directory and those above it, if missing, so that they stay; return it.

    An object store has none, and needs none.
    """
    if is_remote(folder):
        return folder
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        hand_over(each, each)
        sync(each.parent)
    return folder
