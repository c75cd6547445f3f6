"""Files of an LDMS store: their list, text (packed or not), checksum and header files.

With ``altheader`` LDMS writes ``sysclassib.HEADER`` beside ``sysclassib``, or ``sysclassib.HEADER.1507711419`` beside
``sysclassib.1507711419`` where it rotates.
"""

import glob
import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from features.errors import InputError
from pipelines.readers.ldms.header import is_header
from pipelines.readers.text import BLOCK, text_of

_HEADER_FILE = re.compile(r"\.(HEADER|KIND)(?=[.-]|$)")


@dataclass(frozen=True)
class Scanned:
    """A file read through once.

    ``length`` counts the bytes of its text up to the last line end, ``rest`` those after it. ``sha256`` is that of the complete
    lines, after the line of a header file. ``first`` identifies header and first row. ``known_length`` is the length of the
    longest known text with which the file begins, 0 if there is none.
    """

    path: Path
    header: str | None
    length: int
    rest: int
    sha256: str
    first: str
    known_length: int


def counter_files(spec: str | Path) -> list[Path]:
    """Return the files that a path, directory (searched recursively) or pattern names, sorted.

    Hidden files and header files are left out.
    """
    place = Path(spec)
    if place.is_dir():
        paths = [path for path in place.rglob("*") if not any(part.startswith(".") for part in path.relative_to(place).parts)]
    elif place.exists():
        return [place]
    else:
        paths = [Path(name) for name in glob.glob(str(spec), recursive=True)]
    files = sorted(path for path in paths if path.is_file() and not _HEADER_FILE.search(path.name))
    if not files:
        raise InputError(f"{spec}: no such file" if not place.is_dir() else f"{spec}: holds no file")
    return files


def scan(path: Path, lengths_of: dict[str, dict[int, str]]) -> Scanned:
    """Read a file through and compare its beginning with known texts.

    ``lengths_of`` maps ``first`` of known texts to their lengths, and these to SHA-256. Raises InputError for an empty file.
    """
    with text_of(path) as file:
        own, second = file.readline(), file.readline()
        if not own:
            raise InputError(f"{path}: is empty")
        header = None if is_header(own.decode("utf-8", "replace")) else _header_file(path)
        prefix = b"" if header is None else header.encode() + b"\n"
        first = hashlib.sha256(prefix + own + second.removesuffix(b"\n")).hexdigest()[:16]
        digest = hashlib.sha256(prefix)
        length = rest = known_length = 0
        file.seek(0)
        for stop in (*sorted(lengths_of.get(first, {})), sys.maxsize):
            while length < stop and not rest:
                block = file.read(min(BLOCK, stop - length))
                if not block.endswith(b"\n"):
                    block += file.readline()
                rest = len(block) - block.rfind(b"\n") - 1
                block = block[: len(block) - rest]
                if not block:
                    break
                digest.update(block)
                length += len(block)
            if length == stop and digest.hexdigest() == lengths_of[first][stop]:
                known_length = stop
    return Scanned(path, header, length, rest, digest.hexdigest(), first, known_length)


def _header_file(path: Path) -> str | None:
    """Return the last header line of the header file that belongs to a file.

    It is the header file of the same time, else the one without a time.
    """
    name = path.name.removesuffix(".gz")
    stem, _, stamp = name.rpartition(".")
    if not stamp.isdecimal():
        stem, stamp = name, ""
    candidates = [f"{stem}.HEADER.{stamp}"] if stamp else []
    beside = [path.with_name(candidate) for candidate in (*candidates, f"{stem}.HEADER")]
    return next((_last_header(file) for file in beside if file.is_file()), None)


def _last_header(file: Path) -> str:
    with text_of(file) as text:
        lines = text.read(BLOCK).decode("utf-8", "replace").splitlines()
    headers = [line for line in lines if is_header(line)]
    if not headers:
        raise InputError(f"{file}: is a header file without a header line")
    return headers[-1].strip()
