"""Read the text of a file, plain or gzip, in blocks and within the limits.

Nothing here holds a whole file, but settings in TOML, which are read and changed here. A file that unpacks to far more than its
size, an endless line, a device or a pipe is refused. Counts and lists in the notes of readers are put into words here, too.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import tomllib
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from features import limits
from features.errors import InputError, check_name, one_line, with_hyphens
from pipelines.lake.places import read, write

if TYPE_CHECKING:
    import numpy as np
    from tomlkit import TOMLDocument

GZIP = b"\x1f\x8b"
BLOCK = limits.LINE_BYTES
"""Bytes read at a time, and so the longest line."""
_BUFFER = 1 << 16


@contextmanager
def text_of(path: str | Path) -> Iterator[BinaryIO]:
    """Yield the text of a file, plain or gzip by its first bytes.

    Raises InputError, also while it is read, for a file that cannot be read whole or is beyond the limits.
    """
    with opened(path) as file:
        packed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        if packed:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield io.BufferedReader(_Text(path, unpacked, os.fstat(file.fileno()).st_size), _BUFFER)
        else:
            yield io.BufferedReader(_Text(path, file, None), _BUFFER)


@contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a regular file, or an object of a remote store, opened for reading.

    Raises InputError for what cannot be read, and for devices and pipes, which may never end.
    """
    if not isinstance(path, (str, Path)):
        content = read(path)
        if content is None:
            raise InputError(f"{path}: no such file")
        yield io.BytesIO(content)
        return
    try:
        if not stat.S_ISREG(mode := os.stat(path).st_mode) and not stat.S_ISDIR(mode):
            raise InputError(f"{path}: is a device or a pipe, not a file: write it to a file first")
        file = open(path, "rb")  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    with file:
        yield file


def unreadable(path: str | Path, error: OSError | ValueError) -> InputError:
    """Return the error for a file that the operating system cannot read."""
    if isinstance(error, InputError):
        return error
    if isinstance(error, FileNotFoundError):
        return InputError(f"{path}: no such file")
    if isinstance(error, IsADirectoryError):
        return InputError(f"{path}: is a directory, not a file")
    return InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def toml_tables(path: str | Path, text: str) -> dict[str, Any]:
    """Return the tables of a TOML text; raise InputError with file, line and what is wrong."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise InputError(f"{path}: lists or tables are nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, and numbers of thousands of digits
        match = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        if match is None and (digits := re.search(r"\d{4301}", text)):
            line = text.count("\n", 0, digits.start()) + 1
            raise InputError(f"{path}:{line}: is not TOML: a number has over 4,300 digits") from error
        at, message = (match[1], str(error)[: match.start()]) if match else (text.count("\n") + 1, str(error))
        raise InputError(f"{path}:{at}: is not TOML: {one_line(message[:1].lower() + message[1:], 120)}") from error


def check_unpacked(path: str | Path, unpacked: int, packed: int) -> None:
    """Raise InputError if a file of ``packed`` bytes may not unpack to ``unpacked`` bytes."""
    most = max(limits.EXPANSION_FREE_BYTES, packed * limits.EXPANSION)
    if unpacked > most:
        raise InputError(f"{path}: its {packed:,} bytes unpack to more than {most:,}: if that is right, unpack it first")


def whole_lines(text: BinaryIO) -> Iterator[bytes]:
    """Yield text in blocks that end with \\n or \\r; the last one may end without."""
    held = b""
    while block := text.read(BLOCK):
        block = held + block if held else block
        cut = 1 + max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1))  # a \n may follow a \r at the end
        if cut:
            yield block[:cut]
        held = block[cut:]
    if held:
        yield held


class _Text(io.RawIOBase):
    """A file that is checked while it is read; ``packed`` is a gzip file's size on disk."""

    def __init__(self, path: str | Path, file: BinaryIO | gzip.GzipFile, packed: int | None) -> None:
        self._path, self._file, self._packed = path, file, packed
        self._line = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._line = 0
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer) -> int:
        try:
            size = self._file.readinto(buffer)  # type: ignore[union-attr]
        except EOFError as error:
            raise InputError(f"{self._path}: truncated: the gzip data end before their end mark") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{self._path}: damaged gzip data: {error}") from error
        except OSError as error:
            raise unreadable(self._path, error) from error
        if self._packed is not None:
            check_unpacked(self._path, self._file.tell(), self._packed)
        read = bytes(buffer[:size])
        end = max(read.rfind(b"\n"), read.rfind(b"\r"))
        self._line = self._line + size if end < 0 else size - end - 1
        if self._line > limits.LINE_BYTES:
            raise InputError(f"{self._path}: has a line of more than {limits.LINE_BYTES >> 20} MiB")
        return size


_SUFFIXES = {".gz", ".swf", ".csv", ".txt", ".json", ".parquet"}


@dataclass(frozen=True)
class Source:
    """A text file, plain or gzip: its path and the SHA-256 of the file itself.

    ``content`` is its text, if that is short or in memory already. Otherwise every use reads the file again, in blocks.
    """

    path: str
    content: bytes | None = None
    sha256: str = ""

    @property
    def name(self) -> str:
        return trace_name(self.path)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Yield the text from its beginning.

        Raises InputError as :func:`pipelines.readers.text.text_of` does.
        """
        if self.content is not None:
            yield io.BytesIO(self.content)
        else:
            with text_of(self.path) as text:
                yield text

    def head(self, size: int = 100_000) -> bytes:
        """Return the first bytes of the text."""
        with self.open() as text:
            return text.read(size)

    @cached_property
    def sha256_content(self) -> str:
        """Return the SHA-256 of the uncompressed content, however the file was packed."""
        digest = hashlib.sha256()
        with self.open() as text:
            while block := text.read(BLOCK):
                digest.update(block)
        return digest.hexdigest()


def trace_name(path: str | Path) -> str:
    """Return the trace name of a file: lower case, other characters as hyphens.

    Drops directories and .gz .swf .csv .txt .json .parquet. Raises InputError if no name is left (:mod:`features.errors`).
    """
    name = Path(path).name
    while Path(name).suffix.lower() in _SUFFIXES:
        name = Path(name).stem
    return check_name(with_hyphens(name), f"{path}: rename the file")


def load(path: str | Path) -> Source:
    """Return a plain or gzip file, by its first bytes; InputError if empty or unreadable."""
    with opened(path) as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    with text_of(path) as text:
        begin = text.read(BLOCK)
    if not begin:
        raise InputError(f"{path}: is empty")
    return Source(str(path), begin if len(begin) < BLOCK else None, sha256)


def read_settings(path: Path, what: str = "settings") -> dict[str, Any]:
    """Return the tables of a TOML file; raise InputError with file, line and what is wrong."""
    with opened(path) as file:
        content = file.read(limits.LINE_BYTES + 1)
    if len(content) > limits.LINE_BYTES:
        raise InputError(f"{path}: has more than {limits.LINE_BYTES >> 20} MiB: it holds no {what}")
    try:
        text = content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: the {what} is not UTF-8 text") from error
    return toml_tables(path, text)


@contextmanager
def changing(path: Path) -> Iterator[TOMLDocument]:
    """Yield a settings file with its comments, then write it; one process at a time."""
    import tomlkit

    from pipelines.lake.locks import held

    with held(path.with_suffix(".lock")):
        before = read(path)
        if before is not None:
            read_settings(path)
        document = tomlkit.document() if before is None else tomlkit.parse(before.decode())
        yield document
        if (text := tomlkit.dumps(document).encode()) != before:
            write(path, text)


def counted(notes: list[str], sentence: str, matches: int | np.ndarray) -> None:
    """Add ``sentence`` with the count of its ``matches``, a number or bool array, if not 0."""
    import numpy as np  # settings are read without it

    if count := int(np.sum(matches)):
        notes.append(f"{sentence}: {count:,}.")


def some(things: Sequence[object]) -> str:
    """Return the first five of ``things`` as text, and ... for the rest."""
    return ", ".join(map(str, things[:5])) + (", ..." if len(things) > 5 else "")
