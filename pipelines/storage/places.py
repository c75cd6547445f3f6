"""Atomic and durable writes: the one module that tells a directory from an object store.

A file in a directory is written under a temporary name and moved into its place; then its directory is synced. After a crash or a
power loss, either the old file or the new one is there, whole, and so is all that was written before it. For an object store a
file is written in a local directory and put as one object (:mod:`pipelines.storage.remote`).
"""

import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from features.errors import InputError
from models.registry.syncing import sync
from pipelines.storage import remote
from pipelines.storage.permissions import hand_over
from pipelines.storage.remote import Held, Overtaken, Seen

Result = TypeVar("Result")
_PUTS = 4
"""Objects put at a time."""
_SPECIAL = {
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}
_UNFINISHED = re.compile(r"(?P<process>\d+)-[0-9a-f]{12}\.(part|tmp)$")


def unfinished(ending: str) -> str:
    """Return a new ending for an unfinished file's name, with this process's number."""
    return f"{os.getpid()}-{secrets.token_hex(6)}.{ending}"


def being_written(path: Path) -> bool:
    """Tell whether an unfinished file's process is alive; False for any other file."""
    match = _UNFINISHED.search(path.name)
    return match is not None and alive(int(match["process"]))


def alive(process: int) -> bool:
    """Tell whether a process of this number is running."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def regular(path: Path) -> Path:
    """Return the file to write for ``path``: of a symbolic link the target.

    So the link stays. The file need not exist. Raises InputError for what is no regular file, such as a device: moving a finished file there would remove it.
    """
    if not isinstance(path, Path):  # an object of a store
        return path
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        kind = stat.S_IFREG
    if kind != stat.S_IFREG:
        raise InputError(f"{path}: cannot be written: it is {_SPECIAL.get(kind, 'no file')}, and only files are replaced")
    return Path(os.path.realpath(path))


class Directory:
    """Files in a directory.

    ``shared`` tells whether machines that share no locks reach the place. Replaced files stay ``keep_h`` hours for readers, files
    that nothing lists yet ``unlisted_s`` seconds.
    """

    shared, keep_h, unlisted_s = False, 0.0, 0.0

    def seen(self, place: Path) -> Seen:
        """Return the content of ``place``."""
        try:
            return Seen(place.read_bytes())
        except FileNotFoundError:
            return Seen(None)

    def there(self, place: Path) -> bool:
        """Tell whether a file is there; raise InputError if a store does not answer."""
        return place.is_file()

    def listed(self, place: Path) -> dict[str, Held]:
        """Return the files below a folder, by names relative to it; it need not exist."""
        listed = {}
        for path in sorted(place.rglob("*")):
            with suppress(FileNotFoundError):  # another process may just have removed it
                if path.is_file():
                    listed[path.relative_to(place).as_posix()] = Held((now := path.stat()).st_size, now.st_mtime)
        return listed

    def now_s(self, place: Path) -> float:
        """Return the Unix time by the clock that dates the files."""
        return time.time()

    def modified_s(self, place: Path) -> float:
        """Return the Unix time at which a file was written."""
        return place.stat().st_mtime

    def folder(self, folder: Path) -> Path:
        """Make a directory and its parents, if missing, and sync them; return it."""
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for each in missing:
            hand_over(each, each)
            sync(each.parent)
        return folder

    def being_made(self, path: Path) -> Path:
        """Return a new local path for the content of ``path``, until :meth:`moved` puts it there."""
        return path.with_name(f".{path.name}.{unfinished('tmp')}")

    def finished(self, temporary: Path, path: Path) -> None:
        """Sync a written file to the disk, before it is moved to ``path``."""
        hand_over(temporary, path)
        sync(temporary)

    def moved(self, source: Path, target: Path) -> None:
        """Move a local file or folder, whose content is synced, into its place."""
        os.replace(source, target)
        sync(target.parent)
        if source.parent != target.parent:
            sync(source.parent)

    def moved_all(self, files: Mapping[Path, Path]) -> None:
        """Move local files (source -> target) as :meth:`moved` does; make their folders."""
        for source, target in files.items():
            self.folder(target.parent)
            self.moved(source, target)

    def write(self, place: Path, content: bytes, instead_of: Seen | None) -> Seen:
        """Replace the file at ``place``; return what it holds now.

        Raises Overtaken if an object has changed since ``instead_of`` was read. In a directory, hold a lock: nothing is compared.
        """
        with self.replacing(place) as temporary:
            temporary.write_bytes(content)
        return Seen(content)

    @contextmanager
    def replacing(self, path: Path) -> Iterator[Path]:
        """Yield a temporary path; on success it replaces ``path``, else the old file stays."""
        path = regular(path)
        self.folder(path.parent)
        temporary = self.being_made(path)
        try:
            yield temporary
            self.finished(temporary, path)
            self.moved(temporary, path)
        except BaseException:
            with suppress(OSError):  # the first error is raised; what stays is a temporary file
                temporary.unlink(missing_ok=True)
            raise

    def append(self, path: Path, line: bytes) -> None:
        """Add a line; lines of several processes do not mix."""
        path = regular(path)
        self.folder(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def removed(self, place: Path) -> None:
        """Remove a file, if it is there, and sync its directory."""
        if place.exists():
            place.unlink(missing_ok=True)
            sync(place.parent)

    def opened(self, path: Path, size: int = 0) -> Any:
        """Return a file opened for random reads; ``size`` is that of an object, if known."""
        from pyarrow import OSFile

        return OSFile(str(path))  # Arrow's threads would hold memory of a Python file


class Store(Directory):
    """Objects of a store; folders exist only in names."""

    shared, keep_h, unlisted_s = True, 24.0, 3600.0

    seen = staticmethod(remote.seen)
    there = staticmethod(remote.there)
    listed = staticmethod(remote.listed)
    now_s = staticmethod(remote.now_s)
    modified_s = staticmethod(remote.modified_s)
    removed = staticmethod(remote.remove)
    write = staticmethod(remote.put)

    def folder(self, folder: Path) -> Path:
        return folder

    def being_made(self, path: Path) -> Path:
        for left in remote.scratch().iterdir():
            if _UNFINISHED.search(left.name) and not being_written(left):  # of a process that was killed
                left.unlink(missing_ok=True)
        return remote.scratch() / f".{path.name}.{unfinished('tmp')}"

    def finished(self, temporary: Path, path: Path) -> None:
        """Do nothing: the store keeps what is put."""

    def moved(self, source: Path, target: Path) -> None:
        remote.put_file(target, source)
        source.unlink()

    def moved_all(self, files: Mapping[Path, Path]) -> None:
        with ThreadPoolExecutor(_PUTS) as threads:
            list(threads.map(self.moved, files.keys(), files.values()))

    def append(self, path: Path, line: bytes) -> None:
        while True:
            before = remote.seen(path)
            with suppress(Overtaken):
                remote.put(path, (before.content or b"") + line, before)
                return

    def opened(self, path: Path, size: int = 0) -> Any:
        return remote.Ranges(path, size)


_DIRECTORY, _STORE = Directory(), Store()


def at(place: Path) -> Directory:
    """Return the operations for files at ``place``: a directory's, or an object store's."""
    return _DIRECTORY if isinstance(place, Path) else _STORE


def replacing(path: Path) -> AbstractContextManager[Path]:
    """Return a context of a temporary path; on success it replaces ``path``.

    On an error the old file stays. The directory of ``path`` is created if missing.
    """
    return at(path).replacing(path)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn an OSError on writing ``path`` into an InputError of one line."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def seen(path: Path) -> Seen:
    """Return the content of ``path``, as ``instead_of`` for a later :func:`write`."""
    return at(path).seen(path)


def write(path: Path, content: str | bytes, instead_of: Seen | None = None) -> Seen:
    """Replace the file at ``path``, as :func:`replacing` does; return what it holds now.

    Text is UTF-8. If an object has changed since ``instead_of`` was read, it stays and Overtaken is raised. In a directory the
    caller must hold a lock.
    """
    return at(path).write(path, content.encode() if isinstance(content, str) else content, instead_of)


def until_written(change: Callable[[], Result], attempts: int = 10) -> Result:
    """Return the result of ``change``, called again if another process overtook it."""
    for _ in range(attempts - 1):
        with suppress(Overtaken):
            return change()
    return change()


def made_folder(folder: Path) -> Path:
    """Make a directory and its parents, if missing, and sync them; return it."""
    return at(folder).folder(folder)
