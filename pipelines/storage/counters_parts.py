"""Parts of counters opened for reading.

The footer of a part is read first, once a process, and then the column chunks asked for, neighbours at once.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from features.errors import InputError
from pipelines.storage.parquet import told_of
from pipelines.storage.places import at

if TYPE_CHECKING:
    from pipelines.storage.counters_merge import Part

_FOOTERS: OrderedDict[str, pq.FileMetaData] = OrderedDict()
"""Footers of parts by their places, whose names are never given twice; those used last."""
_MOST_FOOTERS = 512
_END = 8
"""Bytes of the length of the footer and of the mark behind it."""


class PartFile:
    """A part opened for reading.

    InputError for one that is missing or damaged.
    """

    def __init__(self, place: Path, part: Part) -> None:
        self._place = place
        with _told(place):
            self._source = at(place).opened(place, part.bytes)
            self.metadata = _footer(place, self._source, part)
            self._file = pq.ParquetFile(self._source, metadata=self.metadata, pre_buffer=True)
        self.names: list[str] = self._file.schema_arrow.names

    def spans(self, group: int, column: str) -> Any:
        """Return the statistics of a column in a row group, None without ``min`` and ``max``."""
        statistics = self.metadata.row_group(group).column(self.names.index(column)).statistics
        return statistics if statistics is not None and statistics.has_min_max else None

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of a row group."""
        with _told(self._place):
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
    """Return the rows of a part by its footer, which is read anew."""
    _FOOTERS.pop(str(place), None)
    file = PartFile(place, part)
    file.close()
    return int(file.metadata.num_rows)


def sizes_of(file: Path) -> tuple[int, int]:
    """Return the bytes of a Parquet file and of its footer."""
    with file.open("rb") as content:
        size = content.seek(-_END, io.SEEK_END) + _END
        return size, int.from_bytes(content.read(4), "little") + _END


def _footer(place: Path, source: Any, part: Part) -> pq.FileMetaData:
    """Return a part's footer, by one request where the ledger says how long it is."""
    name = str(place)
    if name not in _FOOTERS:
        if part.footer:
            source.seek(part.bytes - part.footer)
            _FOOTERS[name] = pq.read_metadata(pa.BufferReader(source.read(part.footer)))
        else:
            _FOOTERS[name] = pq.read_metadata(source)
        while len(_FOOTERS) > _MOST_FOOTERS:
            _FOOTERS.popitem(last=False)
    _FOOTERS.move_to_end(name)
    return _FOOTERS[name]


@contextmanager
def _told(place: Path) -> Iterator[None]:
    with told_of(place):
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(f"{place}: is gone since the ledger was read: read it again, or restore it") from error
