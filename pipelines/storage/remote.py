"""Object stores, named by URLs, through fsspec.

Failed requests are tried again for a while, and listings are not cached. A place in a directory is a :class:`pathlib.Path`, one
in an object store a ``upath.UPath``, which has the same methods; annotations say ``Path`` for both. An object is put whole by one
request, so a reader sees the old or the new one. On S3 a put can be conditional on what was read before (:func:`seen`), so the
losing one of two writers gets Overtaken.
"""

import io
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from features.errors import ADDRESS, InputError, is_plain, masked
from pipelines.storage.site import wait_s

CONDITIONAL = ("s3", "s3a")
"""Protocols whose puts can be conditional here."""
_ATTEMPTS = 5
"""Max attempts at a conditional put that collides with another request."""
_FIRST_S, _FACTOR, _LONGEST_S = 0.1, 1.7, 15.0
"""Waits of s3fs between attempts: the first in seconds, the factor by which they grow, the longest in seconds."""
_OUTAGES = ("botocore", "aiobotocore", "aiohttp", "urllib3", "gcsfs", "azure", "psycopg2")
"""Packages whose errors mean that a store or a database does not answer as it should."""


class Overtaken(InputError):
    """Another process changed a place after it was read; nothing was written."""


class Seen(NamedTuple):
    """The content of a place, None for nothing, and the store's mark of it, "" if it has none."""

    content: bytes | None
    mark: str = ""


class Held(NamedTuple):
    """Size in bytes of a file or an object, and the Unix time at which it was written."""

    bytes: int
    modified_s: float


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
    if (parts := ADDRESS.fullmatch(address)) is None or parts["user"] is not None:
        raise InputError(f"{masked(address)}: credentials do not belong in a URL: set them by the store's own means")
    if not rest.strip("/") or rest.startswith("/"):
        raise InputError(f"{masked(address)}: names no bucket")
    address = f"{scheme}://{re.sub('/+', '/', rest)}"
    from upath import UPath

    try:
        place: Any = UPath(address.rstrip("/"), **_options(scheme))
        _patient(place.fs)
    except (ImportError, ValueError) as error:
        raise InputError(f"{masked(address)}: {_one_line(error)}; pip install queuecast[server] brings s3fs") from error
    return place


def is_outage(error: BaseException) -> bool:
    """Tell whether an error is one of a store or database that does not answer as it should."""
    return type(error).__module__.partition(".")[0] in _OUTAGES


@contextmanager
def store_errors(place: Path) -> Iterator[None]:
    """Turn errors of a store's library into InputErrors of one line.

    A missing object stays FileNotFoundError.
    """
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        if "bucket" in str(error):
            raise InputError(f"{place}: {_one_line(error)}: make it, or set QUEUECAST_LAKE to another") from error
        raise
    except Exception as error:
        if isinstance(error, (OSError, TimeoutError)) or is_outage(error):
            raise InputError(f"{place}: the object store does not answer as it should: {_one_line(error)}") from error
        raise


def there(place: Path) -> bool:
    """Tell whether an object is there; raise InputError if the store does not answer."""
    with store_errors(place):
        return place.exists()


def put(place: Path, content: bytes, instead_of: Seen | None = None) -> Seen:
    """Put an object whole; return its content and mark.

    Raises Overtaken if ``instead_of`` is given, puts can be conditional, and the object has changed since that was read.
    """
    fs: Any = place.fs  # type: ignore[attr-defined]
    condition: dict[str, Any] = {} if instead_of is None or not _conditional(fs) else _condition(place, instead_of)
    for attempt in range(_ATTEMPTS):
        with store_errors(place):
            try:
                answer = fs.pipe_file(place.path, content, **condition)  # type: ignore[attr-defined]
                return Seen(content, answer.get("ETag", "") if isinstance(answer, dict) else "")
            except FileNotFoundError as error:
                if "IfMatch" not in condition:
                    raise
                raise Overtaken(f"{place}: another process removed it meanwhile: try again") from error
            except OSError as error:
                if not condition or not re.search("pre-?condition|conditional|not hold", str(error), re.IGNORECASE):
                    raise
                now = seen(place)
                if now.content == content:  # an attempt whose answer was lost had put it
                    return now
                if instead_of is None or now.content != instead_of.content:
                    raise Overtaken(f"{place}: another process changed it meanwhile: try again") from error
                if attempt == _ATTEMPTS - 1:
                    raise InputError(
                        f"{place}: the object store does not answer as it should: it refuses to replace an unchanged file (are its ETags right?)"
                    ) from error
                condition = _condition(place, now)  # two requests collided, and neither was done
    raise AssertionError("unreachable")


def put_file(place: Path, file: Path) -> None:
    """Put the content of a local file as one object."""
    with store_errors(place):
        place.fs.put_file(str(file), place.path)  # type: ignore[attr-defined]


def seen(place: Path) -> Seen:
    """Return the content of a place with the store's mark of it, both of one moment."""
    fs: Any = place.fs  # type: ignore[attr-defined]
    with store_errors(place):
        try:
            if not _conditional(fs):
                return Seen(fs.cat_file(place.path))  # type: ignore[attr-defined]
            return _marked(fs, place.path)  # type: ignore[attr-defined]
        except FileNotFoundError:
            return Seen(None)


def listed(place: Path) -> dict[str, Held]:
    """Return the objects below a place, by names relative to it; {} if there are none."""
    base: str = place.path.rstrip("/") + "/"  # type: ignore[attr-defined]
    with store_errors(place):
        try:
            every = place.fs.find(base, detail=True)  # type: ignore[attr-defined]
        except FileNotFoundError:
            return {}
    return {path.removeprefix(base): Held(entry["size"], _written_s(entry)) for path, entry in sorted(every.items())}


def _written_s(entry: Mapping[str, Any]) -> float:
    """Return the Unix time at which a listed object was written; now if unknown."""
    written = next((entry[name] for name in ("LastModified", "mtime", "created") if name in entry), None)
    return time.time() if written is None else written if isinstance(written, float) else float(written.timestamp())


def now_s(place: Path) -> float:
    """Return the Unix time by the clock of :func:`modified_s`.

    It is the store's clock if the store reports it.
    """
    if not _conditional(place.fs):  # type: ignore[attr-defined]
        return time.time()
    fs: Any = place.fs  # type: ignore[attr-defined]
    with store_errors(place):
        answer = fs.call_s3("list_objects_v2", Bucket=fs.split_path(place.path)[0], MaxKeys=1)  # type: ignore[attr-defined]
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return parsedate_to_datetime(date).timestamp() if date else time.time()


def modified_s(place: Path) -> float:
    """Return the Unix time at which a place was written; now if the store has none."""
    with store_errors(place):
        return _written_s(place.fs.info(place.path))  # type: ignore[attr-defined]


def opened(place: Path) -> BinaryIO:
    """Return an object's bytes, read by one request; raise InputError if it cannot be read."""
    content = seen(place).content
    if content is None:
        raise InputError(f"{place}: no such object")
    return io.BytesIO(content)


class Ranges(io.RawIOBase):
    """An object opened for reading, each piece by one request.

    ``size`` is its size in bytes, if known.
    """

    def __init__(self, place: Path, size: int = 0) -> None:
        self._place, self._at = place, 0
        self._fs: Any = place.fs  # type: ignore[attr-defined]
        self._path: str = place.path  # type: ignore[attr-defined]
        with store_errors(place):
            self._size = size or int(self._fs.size(self._path))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        first, end = self._at, self._size if size < 0 else min(self._at + size, self._size)
        self._at = end
        if end <= first:
            return b""
        with store_errors(self._place):
            content: bytes = self._fs.cat_file(self._path, start=first, end=end)
        if len(content) != end - first:
            raise InputError(f"{self._place}: is damaged: it ends at byte {first + len(content):,}, before byte {end:,}")
        return content


def remove(place: Path) -> None:
    """Remove an object, if it is there."""
    fs: Any = place.fs  # type: ignore[attr-defined]
    with store_errors(place):
        try:
            fs.rm_file(place.path)  # type: ignore[attr-defined]
        except FileNotFoundError:
            return


def scratch() -> Path:
    """Return a local directory for files that are to be put into a store."""
    folder = Path(tempfile.gettempdir()) / f"queuecast-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise InputError(f"{folder}: belongs to another user: set TMPDIR to a directory of your own")
    return folder


def _marked(fs: Any, path: str) -> Seen:
    """Return an object of S3 and its mark, read by one request."""
    from fsspec.asyn import sync
    from s3fs.core import _error_wrapper

    bucket, key, _ = fs.split_path(path)

    async def asked() -> Seen:
        answer = await fs._call_s3("get_object", Bucket=bucket, Key=key)
        async with answer["Body"] as body:
            return Seen(await body.read(), answer.get("ETag", ""))

    async def tried() -> Seen:
        marked: Seen = await _error_wrapper(asked, retries=fs.retries)
        return marked

    marked: Seen = sync(fs.loop, tried)
    return marked


def _conditional(fs: Any) -> bool:
    return bool({fs.protocol} & {*CONDITIONAL} if isinstance(fs.protocol, str) else {*fs.protocol} & {*CONDITIONAL})


def _condition(place: Path, before: Seen) -> dict[str, Any]:
    """Return s3fs's options of a conditional put in one piece, whose answer has the mark.

    Raises InputError if the store gave no mark.
    """
    if before.content is not None and not before.mark:
        raise InputError(f"{place}: the object store does not answer as it should: it gave no ETag, by which a change is known")
    return {"chunksize": 1 << 31, **({"IfNoneMatch": "*"} if before.content is None else {"IfMatch": before.mark})}


def _options(protocol: str) -> dict[str, Any]:
    """Return options of a filesystem: no cached listings, retries only by :func:`_patient`."""
    if protocol not in CONDITIONAL:
        return {"use_listings_cache": False}
    retries = {"mode": "standard", "total_max_attempts": 1}
    return {
        "use_listings_cache": False,
        "config_kwargs": {"retries": retries, "connect_timeout": 5, "read_timeout": min(30.0, max(5.0, wait_s() / 6))},
    }


def _patient(fs: Any) -> None:
    """Let s3fs retry for :func:`wait_s` if the store is gone or has a server error."""
    if not _conditional(fs):
        return
    from aiohttp import ClientConnectionError
    from botocore.exceptions import ClientError
    from botocore.exceptions import ConnectionError as NoConnection
    from s3fs.core import set_custom_error_handler

    waits, attempts = 0.0, 1
    while waits < wait_s():
        waits += min(_FIRST_S * _FACTOR**attempts, _LONGEST_S)
        attempts += 1
    fs.retries = attempts

    def passes(error: Exception) -> bool:
        """Tell whether an error may be transient; s3fs decides itself on those that it knows."""
        if isinstance(error, ClientError):
            return error.response["ResponseMetadata"].get("HTTPStatusCode", 0) >= 500
        return isinstance(error, (NoConnection, ClientConnectionError, ConnectionError))

    set_custom_error_handler(passes)


def _one_line(error: BaseException) -> str:
    return " ".join(masked(str(error)).split())[:200] or type(error).__name__
