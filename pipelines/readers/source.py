"""A trace file with its name and checksums, which can be read several times."""

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from features.errors import InputError
from features.names import check_name, with_hyphens
from pipelines.readers.text import BLOCK, opened, text_of

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

    Drops directories and .gz .swf .csv .txt .json .parquet. Raises InputError if no name is left (:mod:`features.names`).
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
