"""Parts of counters: their descriptions, and how they are read.

The footer of a part is read first, once per process, then the requested column chunks, adjacent ones together.
"""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from features.errors import InputError
from pipelines.storage.parquet import told_of
from pipelines.storage.places import opened

_END = 8
"""Bytes that hold the length of the footer and the mark after it."""


DAY_US = 86_400_000_000
KEYS = (pa.field("time_s", pa.float64()), pa.field("node", pa.dictionary(pa.int32(), pa.string())))


def schema_of(metrics: Iterable[str]) -> pa.Schema:
    """Return the schema of a counter table: time_s, node and the metrics."""
    return pa.schema([*KEYS, *(pa.field(name, pa.float64()) for name in metrics)])


def day_of(time_us: int) -> str:
    """Return the UTC day of a time (Unix microseconds) as YYYY-MM-DD."""
    return str(np.datetime64(time_us // DAY_US, "D"))


@dataclass(frozen=True)
class Part:
    """One file of a sampler and day.

    ``file`` is relative to the store's root, ``values`` counts those that are not null, ``first_us`` and ``last_us`` are its time
    span in Unix microseconds. ``bytes`` and ``footer`` are the sizes of the file and of its footer, 0 if unknown.
    """

    file: str
    day: str
    rows: int
    values: int
    first_us: int
    last_us: int
    bytes: int = 0
    footer: int = 0

    @classmethod
    def of(cls, sampler: str, name: str, rows: int, first_us: int, last_us: int) -> Part:
        """Return a part not yet written; its number of values is unknown.

        Every part gets a name of its own, so that two writers at once cannot change each other's.
        """
        day = day_of(first_us)
        return cls(f"{sampler}/day={day}/{name}-{secrets.token_hex(4)}.parquet", day, rows, 0, first_us, last_us)

    @property
    def sampler(self) -> str:
        return self.file.partition("/")[0]

    @property
    def first_s(self) -> float:
        return self.first_us / 1e6

    @property
    def last_s(self) -> float:
        return self.last_us / 1e6


@dataclass
class Sampler:
    """Metrics of a sampler, in order of first appearance, and its parts."""

    metrics: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)


@dataclass
class Ledger:
    """Samplers by name, and the entry of each file read, by the SHA-256 of its text."""

    samplers: dict[str, Sampler] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def copy(self) -> Ledger:
        """Return a copy that can be changed."""
        return Ledger({name: Sampler([*each.metrics], [*each.parts]) for name, each in self.samplers.items()}, dict(self.files))


class PartFile:
    """A part opened for reading.

    Raises InputError if it is missing or damaged.
    """

    def __init__(self, place: Path, part: Part) -> None:
        self._place = place
        with _part_errors(place):
            self._source = opened(place)
            self.metadata = footer(place, part)
            self._file = pq.ParquetFile(self._source, metadata=self.metadata, pre_buffer=True)
        self.names: list[str] = self._file.schema_arrow.names

    def spans(self, group: int, column: str) -> Any:
        """Return the statistics of a column in a row group, or None without min and max."""
        statistics = self.metadata.row_group(group).column(self.names.index(column)).statistics
        return statistics if statistics is not None and statistics.has_min_max else None

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of a row group."""
        with _part_errors(self._place):
            return self._file.read_row_group(group, columns=list(columns), use_threads=False)

    def close(self) -> None:
        self._file.close(force=True)


def read_part(place: Path, part: Part, columns: Sequence[str]) -> pa.Table:
    """Return columns of a whole part."""
    file = PartFile(place, part)
    try:
        return pa.concat_tables([file.read(group, columns) for group in range(file.metadata.num_row_groups)])
    finally:
        file.close()


def rows_in(place: Path, part: Part) -> int:
    """Return the number of rows of a part by its footer, which is read again."""
    with _part_errors(place):
        return int(footer.__wrapped__(place, part).num_rows)


def sizes_of(file: Path) -> tuple[int, int]:
    """Return the bytes of a Parquet file and of its footer."""
    with file.open("rb") as content:
        size = content.seek(-_END, io.SEEK_END) + _END
        return size, int.from_bytes(content.read(4), "little") + _END


@lru_cache(512)  # names of parts are never reused
def footer(place: Path, part: Part) -> pq.FileMetaData:
    """Return a part's footer, by one request if the ledger has its length."""
    with opened(place) as source:
        if not part.footer:
            return pq.read_metadata(source)
        source.seek(part.bytes - part.footer)
        return pq.read_metadata(pa.BufferReader(source.read(part.footer)))


@contextmanager
def _part_errors(place: Path) -> Iterator[None]:
    with told_of(place):
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(f"{place}: is gone since the ledger was read: read it again, or restore it") from error
