"""Block reader of LDMS CSV: rows parsed by the compiled kernel in bounded memory.

A header may be repeated anywhere (concatenated files) and may change. Rows come in file order; time order, duplicates and the
meaning of counters are left to the callers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from features.errors import InputError, shown
from pipelines.ingest import ldms_kernel as kernel
from pipelines.ingest.ldms_header import Header, is_header, read_header
from pipelines.ingest.text import BLOCK, text_of

_HARD = 1 << 15


class NodeTable:
    """Names of nodes and their codes, from 0 in order of appearance; grows as needed."""

    def __init__(self, room: int = 1024) -> None:
        self._make(room)

    def _make(self, room: int) -> None:
        self.slots = np.full(4 * room, -1, np.int32)
        self.hashes = np.zeros(room, np.uint64)
        self.starts = np.zeros(room + 1, np.int64)
        self.pool = np.zeros(32 * room, np.uint8)
        self.counts = np.zeros(1, np.int64)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.slots, self.hashes, self.starts, self.pool, self.counts

    def __len__(self) -> int:
        return int(self.counts[0])

    @property
    def names(self) -> list[str]:
        text = self.pool.tobytes()
        return [text[self.starts[code] : self.starts[code + 1]].decode() for code in range(len(self))]

    def code(self, name: str) -> int:
        """Return the code of a name; a new name gets a new code."""
        data = np.frombuffer(name.encode() + b"\n", np.uint8)
        while (code := kernel.find_node(data, 0, data.size - 1, *self.arrays)) < 0:
            self.grow()
        return int(code)

    def grow(self) -> None:
        names = self.names
        self._make(max(2 * self.hashes.size, max(map(len, names), default=0)))
        for name in names:
            self.code(name)


@dataclass
class Block:
    """Rows under one header.

    ``time_us`` int64 [rows] Unix microseconds, ``node`` int64 [rows] codes, ``values`` float64 [metrics, rows], NaN for null.
    """

    header: Header
    time_us: np.ndarray
    node: np.ndarray
    values: np.ndarray


@dataclass
class LdmsReader:
    """Reader of one file from ``start`` to ``stop`` (bytes of its text).

    Counts are kept while the blocks are taken. ``header`` is the header line in force, at ``start`` from a header file or an
    earlier reading, and ``line`` the number of lines read.
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
        header = self._header(self.header) if self.header is not None else None
        with text_of(self.path) as file:
            file.seek(self.start)
            left = self.stop - self.start
            held = b""
            while left > 0:
                text = file.read(min(BLOCK, left))
                if not text:
                    raise InputError(f"{self.path}: has become shorter while it was read")
                left -= len(text)
                cut = text.rfind(b"\n") + 1
                lines, held = held + text[:cut], (held + text if not cut else text[cut:])
                if not cut:
                    continue
                for block in self._parse(np.frombuffer(lines, np.uint8), header):
                    header = block.header
                    if block.time_us.size:
                        yield block

    def _header(self, line: str) -> Header:
        try:
            header = read_header(line, sampler=self.sampler, file_name=self.path.name)
        except InputError as error:
            raise InputError(f"{self.path}:{self.line + 1}: {error}") from error
        self.header = line
        return header

    def _parse(self, data: np.ndarray, header: Header | None) -> Iterator[Block]:
        """Parse complete lines, under ``header`` or those within."""
        at, before = 0, self.line
        capacity = int(np.count_nonzero(data == 10))
        while at < data.size:
            if header is None:
                at, header = self._first_header(data, at)
                if header is None:
                    return
                capacity = int(np.count_nonzero(data[at:] == 10))
                yield Block(header, *(np.zeros(0, np.int64),) * 2, np.zeros((header.metrics, 0)))
                continue
            time_us, node = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
            values = np.empty((header.metrics, capacity))
            hard = np.empty((4, max(_HARD, header.metrics)), np.int64)
            row, code = 0, kernel.HARD_FULL
            while code in (kernel.HARD_FULL, kernel.NODES_FULL):
                if self._latest_us.size < self.nodes.hashes.size:
                    latest = np.zeros(self.nodes.hashes.size, np.int64)
                    latest[: self._latest_us.size] = self._latest_us
                    self._latest_us = latest
                tally = np.zeros(3, np.int64)
                row, at, lines, code, place, begin, end = kernel.parse(
                    data,
                    at,
                    header.roles,
                    header.text_first,
                    row,
                    time_us,
                    node,
                    values,
                    self._latest_us,
                    hard,
                    tally,
                    *self.nodes.arrays,
                )
                self.line += lines
                self.late += int(tally[1])
                for first, behind, metric, where in hard[:, : tally[2]].T:
                    value = float(data[first:behind].tobytes())
                    if not np.isfinite(value):
                        line = before + int(np.count_nonzero(data[:first] == 10)) + 1
                        place = int(np.argmax(header.roles == metric))
                        raise InputError(
                            f"{self.path}:{line}: {_complaint(kernel.NOT_FINITE, place, data[first:behind].tobytes(), header)}"
                        )
                    values[metric, where] = value
                if code == kernel.NODES_FULL:
                    self.nodes.grow()
            if code >= kernel.NOT_A_NUMBER:
                raise InputError(f"{self.path}:{self.line + 1}: {_complaint(code, place, data[begin:end].tobytes(), header)}")
            self.rows += row
            if 2 * row < capacity:  # cut short by a repeated header: copy, to free the unused room
                time_us, node, values = time_us[:row].copy(), node[:row].copy(), values[:, :row].copy()
            yield Block(header, time_us[:row], node[:row], values[:, :row])
            if code == kernel.HEADER:
                at, header = self._next_header(data, at, header)
                capacity -= row

    def _line_at(self, data: np.ndarray, at: int) -> tuple[int, str]:
        end = at + int(np.argmax(data[at:] == 10))
        return end + 1, data[at:end].tobytes().decode("utf-8", "replace").strip()

    def _first_header(self, data: np.ndarray, at: int) -> tuple[int, Header | None]:
        while at < data.size:
            behind, line = self._line_at(data, at)
            if line:
                if not is_header(line):
                    raise InputError(
                        f"{self.path}:{self.line + 1}: no header line: {shown(line)} names no column Time, and there is no header file beside it"
                    )
                header = self._header(line)
                self.line += 1
                return behind, header
            self.line += 1
            at = behind
        return at, None

    def _next_header(self, data: np.ndarray, at: int, header: Header) -> tuple[int, Header]:
        """Read the header line at ``at``; raise InputError if it is broken."""
        behind, line = self._line_at(data, at)
        if line != header.line.strip():
            if not is_header(line):
                what = "begins with # but is no header" if line.startswith("#") else "is neither a row nor a header"
                raise InputError(f"{self.path}:{self.line + 1}: {shown(line)} {what}")
            header = self._header(line)
        self.line += 1
        return behind, header


def _complaint(code: int, place: int, text: bytes, header: Header) -> str:
    if code == kernel.WRONG_FIELDS:
        return f"{place} fields, where the header has {len(header.columns)}"
    what = {
        kernel.NOT_A_NUMBER: "not a number",
        kernel.NOT_FINITE: "not a finite number",
        kernel.NO_NODE: "no name of a node",
        kernel.NO_TIME: "no time in Unix seconds",
    }[code]
    return f"{header.columns[place][:40]} is {shown(text.decode('utf-8', 'replace'))}, {what}"
