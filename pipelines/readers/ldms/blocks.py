"""Block reader of LDMS CSV: rows as ``pyarrow.csv`` reads them, in bounded memory.

A torn or damaged line is left out and counted. A header may be repeated anywhere (concatenated files) and may change. Rows come
in file order; time order, duplicates and the meaning of counters are left to the callers.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from features.errors import InputError, shown
from pipelines.readers.ldms.files import Header, is_header, read_header
from pipelines.readers.text import BLOCK, text_of

_FIRST_S, _LATEST_S = 1e-6, 1 << 33
"""Valid times, Unix seconds: from one microsecond to before the year 2242. Times in milliseconds are far above."""
_NODE = re.compile(r"[!#-~]+")
_BLANK = " \t\r"
DAMAGED = 0.01
"""Max share of damaged lines of a file; a file with more is refused."""
_TRIED = 100
"""Max rows below a header that tell whether a column holds text."""
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
    ``text`` names columns of text, which are not read. ``line``, ``rows`` and ``damaged`` count lines, rows, and lines that are no
    row and no header, while :meth:`blocks` is consumed.
    """

    path: Path
    nodes: NodeTable
    sampler: str | None = None
    header: str | None = None
    start: int = 0
    stop: int = 0
    line: int = 0
    text: set[str] = field(default_factory=set)
    rows: int = 0
    damaged: int = 0
    _first_damage: str = ""
    _fewest_bytes: int = 1

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in file order.

        Raises InputError with file, line and what is wrong, as soon as more than :data:`DAMAGED` of the lines are certainly damaged.
        """
        header = None if self.header is None else self._read_header(self.header)
        tried = header is None or bool(self.line)
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
                        if not tried:
                            header, tried = self._without_text(header, text[at + 1 : behind + 1]), True
                        yield self._block(header, text[at : behind + 1])
                    self.line += text.count(b"\n", at, behind)
                    at = behind
                    if behind < len(text) - 1:
                        at = text.index(b"\n", behind + 1)
                        following = self._next_header(text[behind + 1 : at], header)
                        tried = tried and following is header
                        header = following
                        self.line += 1
        self._refuse_damaged(self.rows + self.damaged)

    def _read_header(self, line: str) -> Header:
        try:
            header = read_header(line, sampler=self.sampler, file_name=self.path.name)
            wordy = {place for place in header.metrics if header.columns[place] in self.text}
            header = header.without(wordy) if wordy else header
        except InputError as error:
            raise InputError(f"{self.path}:{self.line + 1}: {error}") from error
        self.header, self._fewest_bytes = line, len(header.columns) + 2
        return header

    def _next_header(self, content: bytes, header: Header | None) -> Header:
        """Read a line that is not a row as a header; if it is none, count it as damaged."""
        line = content.decode("utf-8", "replace").strip()
        if is_header(line):
            return self._read_header(line)
        if header is None:
            what = f"no header line: {shown(line)} names no column Time, and there is no header file beside it"
            raise InputError(f"{self.path}:{self.line + 1}: {what}")
        what = "begins with # but is not a header" if line.startswith("#") else "is neither a row nor a header"
        self._first_damage = self._first_damage or f"{self.path}:{self.line + 1}: {shown(line)} {what}"
        self._count_damaged(1)
        return header

    def _without_text(self, header: Header, text: bytes) -> Header:
        """Return the header without columns that hold only text in the first rows; name them."""
        columns = [str(place) for place in range(len(header.columns))]
        try:
            table = arrow_csv.read_csv(
                pa.py_buffer(b"\n".join(text.split(b"\n", _TRIED)[:_TRIED])),
                read_options=arrow_csv.ReadOptions(column_names=columns),
                parse_options=arrow_csv.ParseOptions(invalid_row_handler=lambda row: "skip"),
                convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string())),
            )
        except ValueError:  # so few rows can be read that all are damaged
            return header
        wordy = set()
        for place in header.metrics:
            named = header.columns[place]  # a repeated header is no row
            cells = [cell.strip() for cell in table[str(place)].to_pylist() if cell.strip() not in ("", named)]
            if len(cells) > 1 and all(_number(cell) is None for cell in cells):
                wordy.add(place)
        if not wordy:
            return header
        self.text |= {header.columns[place] for place in wordy}
        try:
            return header.without(wordy)
        except InputError as error:
            raise InputError(f"{self.path}:{self.line + 1}: {error}") from error

    def _block(self, header: Header, text: bytes) -> Block:
        text = text.replace(b"\n" + header.line.encode(), b"\n")[1:]  # a repeated header counts as an empty line
        pieces = list(self._readable(header, text))
        time_us = np.concatenate([piece.time_us for piece in pieces])
        node = np.concatenate([self.nodes.codes(piece.node) for piece in pieces])
        columns = {place: np.concatenate([piece.metrics[place] for piece in pieces]) for place in header.metrics}
        self.rows += time_us.size
        values = {sampler: np.stack([columns[place] for place in places.values()]) for sampler, places in header.samplers.items()}
        return Block(header, time_us, node, values)

    def _readable(self, header: Header, text: bytes) -> Iterator[_Rows]:
        """Yield the rows of a text in pieces, and count damaged lines.

        It is halved until a line that cannot be parsed is alone.
        """
        if text.isspace():
            yield _Rows.none(header)
            return
        try:
            rows = _read(header, text)
        except ValueError:
            rows = None
        if (rows is None or rows.damaged) and not self._first_damage:
            self._locate(header, text)
        if rows is not None:
            self._count_damaged(rows.damaged)
            yield rows
            return
        lines = re.findall(rb"[^\n]*\n", text)
        if len(lines) == 1:
            self._count_damaged(1)
            yield _Rows.none(header)
            return
        half = len(lines) // 2
        yield from self._readable(header, b"".join(lines[:half]))
        yield from self._readable(header, b"".join(lines[half:]))

    def _locate(self, header: Header, text: bytes) -> None:
        """Note the first damaged line of a text, and what is wrong with it."""
        lines = re.findall(rb"[^\n]*\n", text)
        place = bisect_left(range(len(lines)), True, key=lambda last: not _is_whole(header, b"".join(lines[: last + 1])))
        self._first_damage = f"{self.path}:{self.line + place + 1}: {_complaint(header, lines[place])}"

    def _count_damaged(self, lines: int) -> None:
        """Count damaged lines; stop if they are too many of the lines that the file can have."""
        self.damaged += lines
        if lines:
            self._refuse_damaged((self.stop - self.start) // self._fewest_bytes)

    def _refuse_damaged(self, lines: int) -> None:
        """Raise InputError if more than :data:`DAMAGED` of so many lines are damaged."""
        if self.damaged > DAMAGED * lines:
            raise InputError(f"{self._first_damage} (over {DAMAGED:.0%} of the lines are damaged)")


def _next_header_at(text: bytes, at: int, header: Header | None) -> int:
    """Return the position of the line end before the next new header, else the last one."""
    begins = _ANY if header is None else _HASH if header.node == 0 else _LETTER
    again = b"" if header is None else f"\n{header.line}\n".encode()
    while match := begins.search(text, at):
        if not again or not text.startswith(again, match.start()):
            return match.start()
        at = match.start() + len(again) - 1
    return len(text) - 1


@dataclass
class _Rows:
    """Rows of a text: times, int64 [rows] Unix microseconds, nodes, and metrics by place of the column, float64 [rows]."""

    time_us: np.ndarray
    node: pa.DictionaryArray
    metrics: Mapping[int, np.ndarray]
    damaged: int = 0

    @classmethod
    def none(cls, header: Header) -> _Rows:
        no_node = pa.array([], pa.dictionary(pa.int32(), pa.string()))
        return cls(np.zeros(0, np.int64), no_node, dict.fromkeys(header.metrics, np.zeros(0)))


def _read(header: Header, text: bytes) -> _Rows:
    """Parse lines under a header; leave out and count lines that are damaged.

    Raises ValueError if the text cannot be parsed because of one of its lines.
    """
    if (b'"' in text and b'"' in _QUOTED.sub(b"", text)) or text.count(b"\r") != text.count(b"\r\n"):
        raise ValueError("a quote or a carriage return where no field has one")  # Arrow would continue or end a line there
    damaged = 0

    def skip(row: arrow_csv.InvalidRow) -> str:
        nonlocal damaged
        damaged += 1
        return "skip"

    types: dict[str, pa.DataType] = dict.fromkeys(map(str, (header.time, *header.metrics)), pa.float64())
    if header.microseconds is not None:
        types[str(header.microseconds)] = pa.int64()
    types[str(header.node)] = pa.dictionary(pa.int32(), pa.string())
    table = arrow_csv.read_csv(
        pa.py_buffer(text),
        read_options=arrow_csv.ReadOptions(column_names=[str(place) for place in range(len(header.columns))]),
        parse_options=arrow_csv.ParseOptions(invalid_row_handler=skip),
        convert_options=arrow_csv.ConvertOptions(include_columns=list(types), column_types=types, null_values=[""]),
    )
    seconds = table[str(header.time)].to_numpy() / header.per_second
    good = (seconds >= _FIRST_S) & (seconds < _LATEST_S)
    more = np.zeros(len(good), np.int64)
    if header.microseconds is not None:
        more = table[str(header.microseconds)].fill_null(0).to_numpy()
        good &= (more >= 0) & (more < 1_000_000 // header.per_second)
    node = table[str(header.node)].unify_dictionaries().combine_chunks()
    named = np.array([_NODE.fullmatch(name.strip(_BLANK)) is not None for name in node.dictionary.to_pylist()], bool)
    good &= named[node.indices.to_numpy()]
    metrics = {place: table[str(place)].to_numpy() for place in header.metrics}
    for values in metrics.values():
        good &= ~np.isinf(values)
    if not good.all():
        damaged += int((~good).sum())
        seconds, more = seconds[good], more[good]
        node = node.filter(pa.array(good)).dictionary_decode().dictionary_encode()  # names of damaged lines are no nodes
        metrics = {place: values[good] for place, values in metrics.items()}
    time_us = np.rint(seconds * 1e6).astype(np.int64)
    whole = 1_000_000 // header.per_second
    time_us += np.where(time_us % whole == 0, more, 0)
    return _Rows(time_us, node, metrics, damaged)


def _is_whole(header: Header, text: bytes) -> bool:
    try:
        return _read(header, text).damaged == 0
    except ValueError:
        return False


def _complaint(header: Header, line: bytes) -> str:
    """Return what is wrong with a line that is not a row."""
    text = line.decode("utf-8", "replace").strip("\n")
    fields = text.count(",") + 1
    if '"' not in text and fields != len(header.columns):
        return f"{fields} fields, where the header has {len(header.columns)}"
    return f"{shown(text)} is no row of a time, a node and numbers"


def _number(text: str) -> float | None:
    """Return a number as Arrow reads it, None for any other text."""
    try:
        return pa.scalar(text).cast(pa.float64()).as_py()
    except pa.ArrowInvalid:
        return None
