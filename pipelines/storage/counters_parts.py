"""Parts of counters opened for reading: files whole, objects by ranges.

Of an object its footer is read first, once a process, and then the column chunks asked for: neighbours come in one request, and no
more than half of what is read lies between them.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from features.errors import InputError
from pipelines.storage.parquet import told_of
from pipelines.storage.remote import is_remote, told

if TYPE_CHECKING:
    from pipelines.storage.counters_merge import Part

_FOOTERS: OrderedDict[str, tuple[pq.FileMetaData, int]] = OrderedDict()
"""Footer and bytes of objects by their names, which are never given twice; those used last."""
_MOST_FOOTERS = 512
_END = 8
"""Bytes of the length of the footer and of the mark behind it."""


class PartFile:
    """A part opened for reading.

    InputError for one that is missing or damaged.
    """

    def __init__(self, place: Path, part: Part) -> None:
        self._place = place
        with told_of(place):
            if is_remote(place):
                footer, size = _footer(place, part)
                self._pieces = _Pieces(_Ranges(place), size)
                self._file = pq.ParquetFile(self._pieces, metadata=footer)
            else:
                self._file = pq.ParquetFile(place, memory_map=False)
        self.metadata: pq.FileMetaData = self._file.metadata
        self.names: list[str] = self._file.schema_arrow.names

    def spans(self, group: int, column: str) -> Any:
        """Return the statistics of a column in a row group, None without ``min`` and ``max``."""
        found = self.metadata.row_group(group).column(self.names.index(column)).statistics
        return found if found is not None and found.has_min_max else None

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of a row group."""
        with told_of(self._place):
            if is_remote(self._place):
                stated = self.metadata.row_group(group)
                self._pieces.hold([_chunk(stated.column(self.names.index(name))) for name in columns])
            return self._file.read_row_group(group, columns=list(columns), use_threads=False)

    def close(self) -> None:
        self._file.close()


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


class _Ranges:
    """Reader of ranges of one object."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._fs: Any = place.fs  # type: ignore[attr-defined]
        self._path: str = place.path  # type: ignore[attr-defined]

    def size(self) -> int:
        with told(self._place):
            return int(self._fs.size(self._path))

    def read(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of spans (first, behind), several at a time."""
        with told(self._place):
            first, behind = [span[0] for span in spans], [span[1] for span in spans]
            try:
                found: list[bytes] = self._fs.cat_ranges([self._path] * len(spans), first, behind, on_error="raise")
            except FileNotFoundError as error:
                raise InputError(f"{self._place}: is gone since the ledger was read: read it again, or restore it") from error
        for (start, end), content in zip(spans, found, strict=True):
            if len(content) != end - start:
                raise InputError(f"{self._place}: is damaged: it ends at byte {start + len(content):,}, before byte {end:,}")
        return found


class _Pieces(io.RawIOBase):
    """An object as a file, of which pieces are held; what lies elsewhere is read when it is asked for."""

    def __init__(self, ranges: _Ranges, size: int) -> None:
        self._ranges, self._size = ranges, size
        self._held: list[tuple[int, bytes]] = []
        self._at = 0

    def hold(self, chunks: Sequence[tuple[int, int]]) -> None:
        """Read chunks (first, behind) and hold them, instead of those before."""
        spans = _joined(chunks)
        self._held = [(first, content) for (first, _), content in zip(spans, self._ranges.read(spans), strict=True)]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        first, end = self._at, self._size if size < 0 else min(self._at + size, self._size)
        self._at = end
        for start, content in self._held:
            if start <= first and end <= start + len(content):
                return content[first - start : end - start]
        return self._ranges.read([(first, end)])[0] if end > first else b""


def _chunk(column: Any) -> tuple[int, int]:
    """Return the first byte of a column chunk and the one behind it."""
    first = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < first:
        first = column.dictionary_page_offset
    return first, first + column.total_compressed_size


def _joined(chunks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join neighbours, as long as what lies between them is at most half of what is wanted."""
    joined: list[tuple[int, int]] = []
    wanted = 0
    for first, behind in sorted(chunks):
        if joined and 2 * (behind - joined[-1][0] - wanted - (behind - first)) <= wanted + behind - first:
            joined[-1] = joined[-1][0], behind
            wanted += behind - first
        else:
            joined.append((first, behind))
            wanted = behind - first
    return joined


def _footer(place: Path, part: Part) -> tuple[pq.FileMetaData, int]:
    """Return an object's footer and bytes, by one request where the ledger says how long both are."""
    name = str(place)
    if name in _FOOTERS:
        _FOOTERS.move_to_end(name)
        return _FOOTERS[name]
    ranges = _Ranges(place)
    size, length = part.bytes, part.footer
    if not size:
        size = ranges.size()
        if size < _END:
            raise InputError(f"{place}: is damaged: it has {size:,} bytes")
        length = min(int.from_bytes(ranges.read([(size - _END, size)])[0][:4], "little") + _END, size)
    found = _FOOTERS[name] = pq.read_metadata(pa.BufferReader(ranges.read([(size - length, size)])[0])), size
    while len(_FOOTERS) > _MOST_FOOTERS:
        _FOOTERS.popitem(last=False)
    return found
