"""Block reader of LDMS CSV: rows as ``pyarrow.csv`` reads them, in bounded memory.

A header may be repeated anywhere (concatenated files) and may change. Rows come in file order; time order, duplicates and the
meaning of counters are left to the callers.
"""

import csv
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv

from features import limits
from features.errors import InputError, shown
from pipelines.ingest.ldms_header import Header, is_header, read_header
from pipelines.ingest.text import BLOCK, text_of

_FIRST_S, _LATEST_S = 1e-6, 1 << 33
"""Valid times, Unix seconds: from one microsecond to before the year 2242. Times in milliseconds are far above."""
_NODE = re.compile(r"[!#-~]+")
_BLANK = " \t\r"
_QUOTED = re.compile(rb'(?<![^\n,])"[^"\n\r]*"(?=[ \t\r]*[,\n])')
_ANY, _HASH, _LETTER = re.compile(rb"\n(?=[^\n]*[^\s])"), re.compile(rb"\n#"), re.compile(rb"\n[#A-Za-z\x80-\xff]")
"""Start of the next header: the first is any line; later ones begin with # or, if rows begin with a number, with a letter."""


class NodeTable:
    """Names of nodes and their codes, from 0 in order of appearance."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        return list(self._codes)

    def codes(self, column: pa.DictionaryArray) -> np.ndarray:
        """Return the codes of a column of names, int64 [rows]; a new name gets a new code."""
        codes = [self._codes.setdefault(name.strip(_BLANK), len(self._codes)) for name in column.dictionary.to_pylist()]
        return np.array(codes, np.int64)[column.indices.to_numpy()]


@dataclass
class Block:
    """Rows under one header.

    ``time_us`` int64 [rows] Unix microseconds, ``node`` int64 [rows] codes; ``values`` by sampler float64 [metrics, rows], NaN for
    null.
    """

    header: Header
    time_us: np.ndarray
    node: np.ndarray
    values: Mapping[str, np.ndarray]


@dataclass
class LdmsReader:
    """Reader of one file from ``start`` to ``stop`` (bytes of its text).

    Both are ends of lines. ``header`` is the current header line; at ``start`` it is from a header file or an earlier reading.
    ``line``, ``rows`` and ``late`` count lines, rows and late rows while :meth:`blocks` is consumed.
    """

    path: Path
    nodes: NodeTable
    sampler: str | None = None
    header: str | None = None
    start: int = 0
    stop: int = 0
    line: int = 0
    rows: int = 0
    late: int = 0
    _latest_us: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in file order. Raises InputError with file, line and what is wrong."""
        header = None if self.header is None else self._read_header(self.header)
        with text_of(self.path) as file:
            file.seek(self.start)
            left = self.stop - self.start
            while left > 0:
                text = file.read(min(BLOCK, left))
                if not text.endswith(b"\n"):
                    text += file.readline()
                if not text.endswith(b"\n"):
                    raise InputError(f"{self.path}: has become shorter while it was read")
                left -= len(text)
                text = b"\n" + text
                at = 0  # the line end before the rows to come
                while at < len(text) - 1:
                    behind = _next_header_at(text, at, header)
                    if header is not None and not text[at : behind + 1].isspace():
                        yield self._block(header, text[at : behind + 1])
                    self.line += text.count(b"\n", at, behind)
                    at = behind
                    if behind < len(text) - 1:
                        at = text.index(b"\n", behind + 1)
                        header = self._next_header(text[behind + 1 : at], header)
                        self.line += 1

    def _read_header(self, line: str) -> Header:
        try:
            header = read_header(line, sampler=self.sampler, file_name=self.path.name)
        except InputError as error:
            raise InputError(f"{self.path}:{self.line + 1}: {error}") from error
        self.header = line
        return header

    def _next_header(self, content: bytes, header: Header | None) -> Header:
        """Read a line that is not a row as a header; raise InputError if it is not one either."""
        line = content.decode("utf-8", "replace").strip()
        if not is_header(line):
            what = f"{shown(line)} {'begins with # but is no header' if line.startswith('#') else 'is neither a row nor a header'}"
            if header is None:
                what = f"no header line: {shown(line)} names no column Time, and there is no header file beside it"
            raise InputError(f"{self.path}:{self.line + 1}: {what}")
        return self._read_header(line)

    def _block(self, header: Header, text: bytes) -> Block:
        text = text.replace(b"\n" + header.line.encode(), b"\n")[1:]  # a repeated header counts as an empty line
        try:
            time_us, names, columns = _read(header, text)
        except ValueError as error:
            lines = re.findall(rb"[^\n]*\n", text)
            wrong = bisect_left(range(len(lines)), True, key=lambda place: not _is_read(header, b"".join(lines[: place + 1])))
            raise InputError(f"{self.path}:{self.line + wrong + 1}: {_complaint(header, lines[wrong])}") from error
        node = self.nodes.codes(names)
        self.rows += time_us.size
        self.late += self._count_late(time_us, node)
        values = {sampler: np.stack([columns[place] for place in places.values()]) for sampler, places in header.samplers.items()}
        return Block(header, time_us, node, values)

    def _count_late(self, time_us: np.ndarray, node: np.ndarray) -> int:
        """Count the rows whose time is before that of an earlier row of the same node."""
        self._latest_us = np.pad(self._latest_us, (0, len(self.nodes.names) - self._latest_us.size))
        latest_us = np.maximum(pd.Series(time_us).groupby(node).cummax().to_numpy(), self._latest_us[node])
        np.maximum.at(self._latest_us, node, time_us)
        return int((time_us < latest_us).sum())


def _next_header_at(text: bytes, at: int, header: Header | None) -> int:
    """Return the position of the line end before the next new header, else the last one."""
    begins = _ANY if header is None else _HASH if header.node == 0 else _LETTER
    again = b"" if header is None else f"\n{header.line}\n".encode()
    while match := begins.search(text, at):
        if not again or not text.startswith(again, match.start()):
            return match.start()
        at = match.start() + len(again) - 1
    return len(text) - 1


def _read(header: Header, text: bytes) -> tuple[np.ndarray, pa.DictionaryArray, dict[int, np.ndarray]]:
    """Parse lines under a header into times, nodes and metrics by place of the column.

    Times are int64 [rows] Unix microseconds, metrics float64 [rows]. Raises ValueError if any line is not a row.
    """
    if (b'"' in text and b'"' in _QUOTED.sub(b"", text)) or text.count(b"\r") != text.count(b"\r\n"):
        raise ValueError("a quote or a carriage return where no field has one")  # Arrow would continue or end a line there
    types: dict[str, pa.DataType] = dict.fromkeys(map(str, (header.time, *header.metrics)), pa.float64())
    if header.microseconds is not None:
        types[str(header.microseconds)] = pa.int64()
    types[str(header.node)] = pa.dictionary(pa.int32(), pa.string())
    table = arrow_csv.read_csv(
        pa.py_buffer(text),
        read_options=arrow_csv.ReadOptions(column_names=[str(place) for place in range(len(header.columns))]),
        convert_options=arrow_csv.ConvertOptions(include_columns=list(types), column_types=types, null_values=[""]),
    )
    seconds = table[str(header.time)].to_numpy()
    if not ((seconds >= _FIRST_S) & (seconds < _LATEST_S)).all():
        raise ValueError("a time that is none")
    time_us = np.rint(seconds * 1e6).astype(np.int64)
    if header.microseconds is not None:
        more = table[str(header.microseconds)].fill_null(0).to_numpy()
        if not ((more >= 0) & (more < 1_000_000)).all():
            raise ValueError("microseconds of more than a second")
        time_us += np.where(time_us % 1_000_000 == 0, more, 0)
    node = table[str(header.node)].unify_dictionaries().combine_chunks()
    if not all(_NODE.fullmatch(name.strip(_BLANK)) for name in node.dictionary.to_pylist()):
        raise ValueError("a node without a name")
    metrics = {place: table[str(place)].to_numpy() for place in header.metrics}
    if any(np.isinf(values).any() for values in metrics.values()):
        raise ValueError("an infinite number")
    return time_us, node, metrics


def _is_read(header: Header, text: bytes) -> bool:
    try:
        _read(header, text)
    except ValueError:
        return False
    return True


def _complaint(header: Header, line: bytes) -> str:
    """Return a description of what is wrong with a line that is not a row."""
    csv.field_size_limit(limits.LINE_BYTES)
    text = line.decode("utf-8", "replace")
    fields = [cell.strip() for cell in next(csv.reader([text.replace("\r", " ")]))]
    if len(fields) != len(header.columns):
        return f"{len(fields)} fields, where the header has {len(header.columns)}"
    metrics = set(header.metrics)
    for place, (column, cell) in enumerate(zip(header.columns, fields, strict=True)):
        number = _number(cell)
        what = ""
        if place == header.time and not (number is not None and _FIRST_S <= number < _LATEST_S):
            what = "no time in Unix seconds"
        elif place == header.node and not _NODE.fullmatch(cell):
            what = "no name of a node"
        elif cell and place == header.microseconds and not (cell.isdecimal() and float(cell) < 1_000_000):
            what = "not a number"
        elif cell and place in metrics and (number is None or np.isinf(number)):
            what = "not a number" if number is None else "not a finite number"
        if what:
            return f"{column[:40]} is {shown(cell)}, {what}"
    return f"{shown(text)} has a quote or a carriage return where no field has one"


def _number(text: str) -> float | None:
    """Return a number as Arrow reads it, None for any other text."""
    try:
        return pa.scalar(text).cast(pa.float64()).as_py()
    except pa.ArrowInvalid:
        return None
