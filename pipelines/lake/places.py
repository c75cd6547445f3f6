"""Places of files, in a directory or at a URL: written whole, listed, read, removed.

A place in a directory is a :class:`pathlib.Path`, one at a URL a ``upath.UPath`` of fsspec, which has the same methods;
annotations say ``Path`` for both. A file in a directory is written under a temporary name, synced and moved into its
place: after a crash or a power loss the old file or the new one is there, whole. At a URL it is put whole, with the
retries of the file system's library.

The home directory is $QUEUECAST_HOME, or ``.queuecast`` in the working directory. If $QUEUECAST_LAKE names a URL or
another directory, the files that machines share are there: tables, counters, pages, remembered traces and systems.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PosixPath
from typing import Any

from features.errors import ADDRESS, InputError, is_plain, masked
from models.registry.syncing import sync

_OUTAGES = ("botocore", "aiobotocore", "aiohttp", "urllib3", "gcsfs", "azure", "psycopg2")
"""Packages whose errors mean that a store or a database does not answer as it should."""


def place_of(address: str) -> Path:
    """Return the place that a URL or a local path names; raise InputError if invalid."""
    address = address.strip()
    scheme, colon, rest = address.partition("://")
    scheme = scheme.lower()
    odd = not is_plain(address) or (not colon and re.match("file:", address, re.IGNORECASE))
    if odd or "::" in scheme or scheme in ("local", "") or not address:
        shown = f"{masked(address)!r}" if is_plain(address) else "the address of the lake (not shown: it may hold a password)"
        raise InputError(f"{shown}: give a directory, file:///DIRECTORY or a URL such as s3://bucket/prefix")
    if not colon:
        return Path(address).expanduser().absolute()
    if scheme == "file":
        if not rest.startswith("/"):
            raise InputError(f"{masked(address)}: file:///DIRECTORY has three slashes")
        return Path(rest)
    if (parts := ADDRESS.fullmatch(address)) is None or parts["user"] is not None or parts["query"] is not None:
        raise InputError(f"{masked(address)}: credentials do not belong in a URL: set them by the store's own means")
    if not rest.strip("/") or rest.startswith("/"):
        raise InputError(f"{masked(address)}: names no bucket")
    from upath import UPath

    address = f"{scheme}://{re.sub('/+', '/', rest)}"
    try:
        place: Any = UPath(address.rstrip("/"), use_listings_cache=False)
        _ = place.fs  # loads the library
    except (ImportError, ValueError) as error:
        raise InputError(f"{masked(address)}: {_one_line(error)}; Queuecast's extra 'server' brings s3fs") from error
    return place


def is_url(place: Path) -> bool:
    """Tell whether a place is at a URL, and not in a directory."""
    return not isinstance(place, Path)


@contextmanager
def store_errors(place: Path) -> Iterator[None]:
    """Turn errors at a URL into InputErrors of one line, but FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        library = type(error).__module__.partition(".")[0]
        if is_url(place) and (isinstance(error, OSError) or library in _OUTAGES):
            raise InputError(f"{place}: the object store does not answer as it should: {_one_line(error)}") from error
        raise


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn an OSError on writing ``path`` into an InputError of one line."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error


def exists(place: Path) -> bool:
    """Tell whether a file is there; raise InputError if a store does not answer."""
    with store_errors(place):
        return place.exists()


def read(place: Path) -> bytes | None:
    """Return the content of a file, None if there is none."""
    with store_errors(place):
        try:
            return place.read_bytes()
        except FileNotFoundError:
            return None


def opened(place: Path) -> Any:
    """Return a file opened for random reads."""
    if is_url(place):
        with store_errors(place):
            return place.fs.open(place.path, "rb")  # type: ignore[attr-defined]
    from pyarrow import OSFile

    return OSFile(str(place))  # Arrow's threads would hold memory of a Python file


def listed(folder: Path) -> dict[str, float]:
    """Return the files below a folder, by names relative to it, with Unix times of writing."""
    if not is_url(folder):
        files = {}
        for path in sorted(folder.rglob("*")):
            with suppress(FileNotFoundError):  # another process may just have removed it
                if path.is_file():
                    files[path.relative_to(folder).as_posix()] = path.stat().st_mtime
        return files
    base: str = folder.path.rstrip("/") + "/"  # type: ignore[attr-defined]
    with store_errors(folder):
        try:
            entries = folder.fs.find(base, detail=True)  # type: ignore[attr-defined]
        except FileNotFoundError:
            return {}
    return {path.removeprefix(base): _written_s(entry) for path, entry in sorted(entries.items())}


def _written_s(entry: Mapping[str, Any]) -> float:
    """Return the Unix time at which a file at a URL was written; now if its store has none."""
    written = next((entry[name] for name in ("LastModified", "mtime", "updated", "created") if name in entry), time.time())
    return written if isinstance(written, float) else float(written.timestamp())


def inside(folder: Path) -> list[Path]:
    """Return the paths in a folder, sorted; [] if there is no folder."""
    try:
        return sorted(path for path in folder.iterdir() if path.name not in ("", folder.name) or path.parent == folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def remove(place: Path) -> None:
    """Remove a file, if it is there."""
    with store_errors(place), suppress(FileNotFoundError):
        place.unlink()
        if not is_url(place):
            sync(place.parent)


def made_folder(folder: Path) -> Path:
    """Make a directory and its parents, if missing, and sync them; return it."""
    if is_url(folder):
        return folder
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for directory in missing:
        sync(directory.parent)
    return folder


def regular(path: Path) -> Path:
    """Return the file to write for ``path``: of a symbolic link the target.

    So the link stays. The file need not exist. Raises InputError for what is no regular file, such as a device: moving
    a finished file there would remove it.
    """
    if is_url(path):
        return path
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: cannot be written: it is no regular file, and only files are replaced")
    return Path(os.path.realpath(path))


def part_of(path: Path) -> Path:
    """Return a new local path for the content of ``path``, until :func:`move` puts it there."""
    if is_url(path):
        import tempfile

        handle, name = tempfile.mkstemp(prefix="queuecast-", suffix=".tmp")
        os.close(handle)
        return Path(name)
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(6).hex()}.tmp")


def move(source: Path, target: Path) -> None:
    """Move a local file or folder, whose content is synced, into its place."""
    if is_url(target):
        with store_errors(target):
            target.fs.put_file(str(source), target.path)  # type: ignore[attr-defined]
        source.unlink()
        return
    os.replace(source, target)
    sync(target.parent)
    if source.parent != target.parent:
        sync(source.parent)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path; on success it replaces ``path``, else the old file stays.

    The directory of ``path`` is created if missing.
    """
    path = regular(path)
    made_folder(path.parent)
    temporary = part_of(path)
    try:
        yield temporary
        if not is_url(path):
            sync(temporary)
        move(temporary, path)
    except BaseException:
        with suppress(OSError):  # the first error is raised; what stays is a temporary file
            temporary.unlink(missing_ok=True)
        raise


def write(path: Path, content: str | bytes) -> None:
    """Replace the file at ``path``, as :func:`replacing` does; text is UTF-8."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def append(path: Path, line: bytes) -> None:
    """Add a line to a file; in a directory, lines of several processes do not mix."""
    if is_url(path):
        write(path, (read(path) or b"") + line)
        return
    path = regular(path)
    made_folder(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _one_line(error: BaseException) -> str:
    return " ".join(masked(str(error)).split())[:200] or type(error).__name__


LAKE = "QUEUECAST_LAKE"
"""Environment variable: URL or directory of the files that machines share."""
PAGES = "/pages"
"""The path of the home directory's pages under the UI's own address, so that links hold wherever it is served."""


def home() -> Path:
    """Return the place of the files that machines share, by default :func:`local_home`.

    It need not exist yet. Raises InputError for an unusable URL, and for a directory that is the ``lake`` inside of
    one.
    """
    address = os.environ.get(LAKE)
    if not address:
        return local_home()
    place = place_of(address)
    if isinstance(place, PosixPath) and (place / "current").is_dir() and not (place / "lake").exists():
        raise InputError(f"{LAKE}={address}: is a lake itself: name the directory around it, {place.parent}")
    return place


def local_home() -> Path:
    """Return the absolute path of this machine's home directory; it need not exist yet.

    Raises InputError for a path with ? or %: SQLite's addresses end at the first and decode the second, so that
    databases would lie elsewhere.
    """
    place = Path(os.environ.get("QUEUECAST_HOME") or ".queuecast").expanduser().absolute()
    if sign := re.search("[?%]", str(place)):
        raise InputError(f"{place}: cannot be a home directory: {sign[0]} in its path leads databases elsewhere; rename it")
    return place


def archive() -> Path:
    """Return the folder for traces of the Parallel Workloads Archive from ``queuecast fetch``."""
    return local_home() / "archive"
