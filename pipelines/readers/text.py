"""Read the text of a file, plain or gzip, in blocks.

Nothing here holds a whole file, but settings in TOML, which are read and changed here. A device or a pipe is refused.
Counts and lists in the notes of readers are put into words here, too.
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
"""Bytes read at a time."""


@contextmanager
def text_of(path: str | Path) -> Iterator[BinaryIO]:
    """Yield the text of a file, plain or gzip by its first bytes.

    Raises InputError, also while it is read, for a file that cannot be read whole.
    """
    with opened(path) as file:
        packed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        try:
            if packed:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield unpacked  # type: ignore[bad-yield]
            else:
                yield file
        except EOFError as error:
            raise InputError(f"{path}: truncated: the gzip data end before their end mark") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{path}: damaged gzip data: {error}") from error
        except OSError as error:
            raise unreadable(path, error) from error


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
    except (ValueError, RecursionError) as error:
        match = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        at, message = (match[1], str(error)[: match.start()]) if match else (text.count("\n") + 1, str(error))
        raise InputError(f"{path}:{at}: is not TOML: {one_line(message[:1].lower() + message[1:], 120)}") from error


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

    Drops directories and .gz .swf .csv .txt .json .parquet. Raises InputError if no name is left
    (:mod:`features.errors`).
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
        content = file.read()
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
