"""Block reader of LDMS CSV: rows as ``pyarrow.csv`` reads them, in bounded memory.

A torn or damaged line is left out and counted. A header may be repeated anywhere (concatenated files) and may change.
Rows come in file order; time order, duplicates and the meaning of counters are left to the callers.
"""

from __future__ import annotations

import re
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
_NUMBER = rb"(?:[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?[nN][aA][nN])?"
_CELL = rb'(?>[ \t]*"[^"\r\n]*"[ \t]*|[^,"\r\n]*)'


@dataclass
class Block:
    """Rows under one header.

    ``time_us`` int64 [rows] Unix microseconds, ``node`` a dictionary of names; ``values`` by sampler float64 [metrics,
    rows], NaN for null.
    """

    header: Header
    time_us: np.ndarray
    node: pa.DictionaryArray
    values: Mapping[str, np.ndarray]


@dataclass
class LdmsReader:
    """Reader of one file from ``start`` to ``stop`` (bytes of its text).

    Both are ends of lines. ``header`` is the current header line; at ``start`` it is from a header file or an earlier
    reading. ``text`` names columns of text, which are not read. ``line``, ``rows`` and ``damaged`` count lines, rows,
    and lines that are no row and no header, while :meth:`blocks` is consumed.
    """

    path: Path
    sampler: str | None = None
    header: str | None = None
    start: int = 0
    stop: int = 0
    line: int = 0
    text: set[str] = field(default_factory=set)
    rows: int = 0
    damaged: int = 0
    _first_damage: str = ""

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in file order.

        Raises InputError with file, line and what is wrong, before the block in which damaged lines become more than
        :data:`DAMAGED` of those so far.
        """
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

                at, complete = 0, list[Block]()
                for first, behind in _header_lines(text):
                    if header is not None and at < first:
                        complete.append(self._block(header, text[at:first]))
                        header = complete[-1].header  # without columns of text
                    self.line += text.count(b"\n", at, first)
                    if header is None or text[first:behind].rstrip(b"\r\n") != header.line.encode():
                        self._refuse_without(header, text[at:first])
                        header = self._read_header(text[first:behind].decode("utf-8", "replace").strip())
                    self.line += 1
                    at = behind
                self._refuse_without(header, text[at:])
                if header is not None and at < len(text):
                    complete.append(self._block(header, text[at:]))
                    header = complete[-1].header
                self.line += text.count(b"\n", at)
                if self.damaged > DAMAGED * (self.rows + self.damaged):
                    raise InputError(f"{self._first_damage} (over {DAMAGED:.0%} of the lines are damaged)")
                yield from complete

    def _refuse_without(self, header: Header | None, text: bytes) -> None:
        """Raise InputError for rows that no header precedes."""
        if header is None and not text.isspace() and text:
            line = text.lstrip().partition(b"\n")[0].decode("utf-8", "replace").strip()
            what = f"no header line: {shown(line)} names no column Time, and there is no header file beside it"
            raise InputError(f"{self.path}:{self.line + 1}: {what}")

    def _read_header(self, line: str) -> Header:
        try:
            header = read_header(line, sampler=self.sampler, file_name=self.path.name)
            wordy = {place for place in header.metrics if header.columns[place] in self.text}
            header = header.without(wordy) if wordy else header
        except InputError as error:
            raise InputError(f"{self.path}:{self.line + 1}: {error}") from error
        self.header = line
        return header

    def _block(self, header: Header, text: bytes) -> Block:
        """Return the rows of lines under one header."""
        rows = _read(header, text)
        if rows is None and (wordy := _text_columns(header, text)):
            self.text |= {header.columns[place] for place in wordy}
            header = self._read_header(header.line)
            rows = _read(header, text)
        if rows is None:
            rows = self._undamaged(header, text)
        self.rows += rows.time_us.size
        values = {
            sampler: np.stack([rows.metrics[place] for place in places.values()]) for sampler, places in header.samplers.items()
        }
        return Block(header, rows.time_us, rows.node, values)

    def _undamaged(self, header: Header, text: bytes) -> _Rows:
        """Return the rows of a text of which some lines are damaged; count these."""
        lines, form = text.split(b"\n"), _form(header)
        numbers = [number for number, line in enumerate(lines) if line.strip() and form.fullmatch(line) and _is_text(line)]
        try:
            rows, good = _parsed(header, b"".join(lines[number] + b"\n" for number in numbers))
        except ValueError:  # such as a cell of blanks: Arrow does not say in which line
            numbers = [number for number in numbers if _is_row(header, lines[number])]
            rows, good = _parsed(header, b"".join(lines[number] + b"\n" for number in numbers))
        kept = set(np.array(numbers, np.int64)[good].tolist())
        damaged = [number for number, line in enumerate(lines) if line.strip() and number not in kept]
        self.damaged += len(damaged)
        if damaged and not self._first_damage:
            self._first_damage = f"{self.path}:{self.line + damaged[0] + 1}: {_complaint(header, lines[damaged[0]])}"
        return rows.where(good)


def _header_lines(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield where header lines begin and end; only a line with the word time can be one."""
    lower, at = text.lower(), 0
    while (word_at := lower.find(b"time", at)) >= 0:
        first, at = text.rfind(b"\n", 0, word_at) + 1, text.index(b"\n", word_at) + 1
        if is_header(text[first:at].decode("utf-8", "replace")):
            yield first, at


@dataclass
class _Rows:
    """Rows of a text: times, int64 [rows] Unix microseconds, nodes, and metrics by place of the column, float64
    [rows]."""

    time_us: np.ndarray
    node: pa.DictionaryArray
    metrics: Mapping[int, np.ndarray]

    def where(self, good: np.ndarray) -> _Rows:
        """Return the rows that a mask chooses; names of nodes in others are no nodes."""
        node = self.node.filter(pa.array(good)).dictionary_decode().dictionary_encode()
        return _Rows(self.time_us[good], node, {place: values[good] for place, values in self.metrics.items()})


def _read(header: Header, text: bytes) -> _Rows | None:
    """Return the rows of a text, None if one of its lines is damaged."""
    if (b'"' in text and b'"' in _QUOTED.sub(b"", text)) or text.count(b"\r") != text.count(b"\r\n"):
        return None  # a quote or a carriage return where no field has one: Arrow would continue or end a line there
    try:
        rows, good = _parsed(header, text)
    except ValueError:
        return None
    return rows if good.all() else None


def _parsed(header: Header, text: bytes) -> tuple[_Rows, np.ndarray]:
    """Return the rows of a text, and which of them hold a valid time, node and numbers, bool [rows].

    Raises ValueError for a line of another width, or a cell that is no number.
    """
    types: dict[str, pa.DataType] = dict.fromkeys(map(str, (header.time, *header.metrics)), pa.float64())
    if header.microseconds is not None:
        types[str(header.microseconds)] = pa.int64()
    types[str(header.node)] = pa.dictionary(pa.int32(), pa.string())
    if not text.strip():
        no_node = pa.array([], pa.dictionary(pa.int32(), pa.string()))
        return _Rows(np.zeros(0, np.int64), no_node, dict.fromkeys(header.metrics, np.zeros(0))), np.zeros(0, bool)
    table = arrow_csv.read_csv(
        pa.py_buffer(text),
        read_options=arrow_csv.ReadOptions(column_names=[str(place) for place in range(len(header.columns))]),
        convert_options=arrow_csv.ConvertOptions(include_columns=list(types), column_types=types, null_values=[""]),
    )
    seconds = table[str(header.time)].to_numpy() / header.per_second
    good = (seconds >= _FIRST_S) & (seconds < _LATEST_S)
    more = np.zeros(len(good), np.int64)
    if header.microseconds is not None:
        more = table[str(header.microseconds)].fill_null(0).to_numpy()
        good &= (more >= 0) & (more < 1_000_000 // header.per_second)
    node = table[str(header.node)].unify_dictionaries().combine_chunks()
    names = [name.strip(_BLANK) for name in node.dictionary.to_pylist()]
    if names != node.dictionary.to_pylist():
        node = pa.array(names, pa.string()).take(node.indices).dictionary_encode()
        names = node.dictionary.to_pylist()
    named = np.array([_NODE.fullmatch(name) is not None for name in names], bool)
    good &= named[node.indices.to_numpy()]
    metrics = {place: table[str(place)].to_numpy() for place in header.metrics}
    for values in metrics.values():
        good &= ~np.isinf(values)
    time_us = np.rint(np.where(good, seconds, 1.0) * 1e6).astype(np.int64)
    whole = 1_000_000 // header.per_second
    time_us += np.where(time_us % whole == 0, more, 0)
    return _Rows(time_us, node, metrics), good


def _form(header: Header) -> re.Pattern[bytes]:
    """Return the form of a row: numbers where they are read, anything in other columns."""
    # atomic groups: a damaged line is told after one look
    number = rb'(?>[ \t]*"[ \t]*%b[ \t]*"[ \t]*|[ \t]*%b[ \t]*)' % (_NUMBER, _NUMBER)
    cells = [_CELL] * len(header.columns)
    for place in (header.time, *header.metrics):
        cells[place] = number
    if header.microseconds is not None:
        cells[header.microseconds] = rb"[ \t]*-?\d{0,18}[ \t]*"
    return re.compile(b",".join(cells) + b"\r?")


def _is_text(line: bytes) -> bool:
    """Tell whether a line is UTF-8, which Arrow reads alone."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_row(header: Header, line: bytes) -> bool:
    """Tell whether Arrow reads a line alone."""
    try:
        _parsed(header, line + b"\n")
    except ValueError:
        return False
    return True


def _complaint(header: Header, line: bytes) -> str:
    """Return what is wrong with a line that is not a row."""
    text = line.decode("utf-8", "replace").strip("\n")
    fields = text.count(",") + 1
    if '"' not in text and fields != len(header.columns):
        return f"{fields} fields, where the header has {len(header.columns)}"
    return f"{shown(text)} is no row of a time, a node and numbers"


def _text_columns(header: Header, text: bytes) -> set[int]:
    """Return the metrics whose column holds only text in the first rows."""
    number = re.compile(_NUMBER.decode())
    lines = text.split(b"\n", _TRIED)[:_TRIED]
    cell_of_row = re.compile(rb"(?:^|(?<=,))" + _CELL + rb"(?=,|$)")
    rows = [cell_of_row.findall(line.rstrip(b"\r")) for line in lines]
    wordy = set()
    for place in header.metrics:
        cells = [row[place].decode("utf-8", "replace").strip(' \t"') for row in rows if len(row) == len(header.columns)]
        filled = [cell for cell in cells if cell]
        if len(filled) > 1 and not any(number.fullmatch(cell) for cell in filled):
            wordy.add(place)
    return wordy
