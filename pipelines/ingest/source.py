"""The bytes of a trace file, plain or gzip, with name and checksum; errors in one line."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from features.errors import InputError
from features.names import check_name, with_hyphens

GZIP = b"\x1f\x8b"
_SUFFIXES = {".gz", ".swf", ".csv", ".txt", ".parquet"}


@dataclass(frozen=True)
class Source:
    """A file in memory: its path, uncompressed ``content`` and the SHA-256 of the file itself."""

    path: str
    content: bytes
    sha256: str

    @property
    def name(self) -> str:
        return trace_name(self.path)

    @cached_property
    def sha256_content(self) -> str:
        """Return the SHA-256 of the uncompressed content, however the file was packed."""
        return hashlib.sha256(self.content).hexdigest()


def trace_name(path: str | Path) -> str:
    """Return the trace name of a file: lower case, other characters as hyphens.

    Without directories and .gz .swf .csv .txt .parquet. InputError where that leaves no name (:mod:`features.names`).
    """
    name = Path(path).name
    while Path(name).suffix.lower() in _SUFFIXES:
        name = Path(name).stem
    return check_name(with_hyphens(name), f"{path}: rename the file")


def load(path: str | Path) -> Source:
    """Read a plain or gzip file, told apart by the first bytes. Raises InputError."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    content = _gunzip(data, path) if data.startswith(GZIP) else data
    if not content:
        raise InputError(f"{path}: is empty")
    return Source(str(path), content, hashlib.sha256(data).hexdigest())


def unreadable(path: str | Path, error: OSError) -> InputError:
    """Return the error for a file that the operating system cannot read."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"{path}: no such file")
    if isinstance(error, IsADirectoryError):
        return InputError(f"{path}: is a directory, not a file")
    return InputError(f"{path}: cannot be read: {error.strerror or error}")


def _gunzip(data: bytes, path: str | Path) -> bytes:
    try:
        return gzip.decompress(data)
    except EOFError as error:
        raise InputError(f"{path}: truncated: the gzip data end before their end mark") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip data: {error}") from error
