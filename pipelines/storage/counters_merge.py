"""Merge of overlapping Parquet parts of one sampler by time and node, in bounded memory.

Each part is sorted, so this is a merge. One row group is held of each part that covers the current time, and rows are yielded as
soon as no part can have an earlier one.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.storage.counters_parts import Part, PartFile


@dataclass(frozen=True)
class Wanted:
    """Rows wanted: columns, times start_s <= time_s < end_s, and nodes, None for all."""

    schema: pa.Schema
    start_s: float = -math.inf
    end_s: float = math.inf
    nodes: frozenset[str] | None = None

    def may_be_in(self, file: PartFile, group: int) -> bool:
        """Tell whether a row group may have such rows, by its statistics."""
        time, node = file.spans(group, "time_s"), file.spans(group, "node")
        if time is not None and not (time.max >= self.start_s and time.min < self.end_s):
            return False
        return self.nodes is None or node is None or any(node.min <= name <= node.max for name in self.nodes)

    def of(self, table: pa.Table) -> pa.Table:
        """Return the wanted rows of a table sorted by time."""
        first, behind = np.searchsorted(table.column("time_s").to_numpy(), [self.start_s, self.end_s])
        table = table.slice(first, behind - first)
        if self.nodes is None:
            return table
        return table.filter(pc.is_in(table.column("node").cast(pa.string()), pa.array(sorted(self.nodes), pa.string())))


class _Cursor:
    """The unread rest of one part: loaded rows and further row groups."""

    def __init__(self, file: PartFile, wanted: Wanted) -> None:
        self._file, self._wanted = file, wanted
        self._columns = [name for name in wanted.schema.names if name in file.names]
        self._groups = [group for group in range(file.metadata.num_row_groups) if wanted.may_be_in(file, group)]
        self.time = np.zeros(0)
        self.table = wanted.schema.empty_table()
        self.load()

    @property
    def more(self) -> bool:
        return bool(self._groups)

    def load(self) -> None:
        """Load the next row group, if there is one."""
        if not self._groups:
            return
        table = self._wanted.of(self._file.read(self._groups.pop(0), self._columns))
        schema = self._wanted.schema
        arrays = [
            table.column(field.name).cast(field.type) if field.name in self._columns else pa.nulls(table.num_rows, field.type)
            for field in schema
        ]
        table, time = pa.Table.from_arrays(arrays, schema=schema), table.column("time_s").to_numpy()
        self.table = pa.concat_tables([self.table, table]) if self.time.size else table
        self.time = np.concatenate([self.time, time]) if self.time.size else time

    def take(self, before_s: float) -> pa.Table:
        """Remove and return the loaded rows of earlier times."""
        count = int(np.searchsorted(self.time, before_s))
        taken = self.table.slice(0, count)
        self.table, self.time = self.table.slice(count), self.time[count:]
        return taken

    def close(self) -> None:
        self._file.close()


def merge(path_of: Callable[[Part], Path], parts: Iterable[Part], wanted: Wanted) -> Iterator[pa.Table]:
    """Yield wanted rows of ``parts`` by (time_s, node).

    ``path_of`` gives the parts' paths. A column that a part lacks is null. Raises InputError for a missing or damaged part.
    """
    near = (part for part in parts if part.last_s >= wanted.start_s and part.first_s < wanted.end_s)
    waiting = sorted(near, key=lambda part: part.first_us)
    waiting.reverse()
    open_: list[_Cursor] = []
    try:
        while waiting or open_:
            bound_s = min(
                [cursor.time[-1] if cursor.time.size else -math.inf for cursor in open_ if cursor.more]
                + ([waiting[-1].first_s] if waiting else []),
                default=math.inf,
            )
            taken = [table for table in (cursor.take(bound_s) for cursor in open_) if table.num_rows]
            if taken:
                yield taken[0] if len(taken) == 1 else in_order(pa.concat_tables(taken))
            for cursor in open_:
                if cursor.more and (not cursor.time.size or cursor.time[-1] <= bound_s):
                    cursor.load()
            if waiting and waiting[-1].first_s <= bound_s:
                part = waiting.pop()
                open_.append(_Cursor(PartFile(path_of(part), part), wanted))
            for cursor in [cursor for cursor in open_ if not cursor.more and not cursor.time.size]:
                cursor.close()
                open_.remove(cursor)
    finally:
        for cursor in open_:
            cursor.close()


def in_order(table: pa.Table) -> pa.Table:
    """Sort by time and the name of the node; rows of the same time and node keep their order."""
    table = table.unify_dictionaries().combine_chunks()
    node = table.column("node").chunk(0)
    names = np.array(node.dictionary.to_pylist(), dtype=object)
    rank = np.empty(len(names), np.int64)
    rank[np.argsort(names, kind="stable")] = np.arange(len(names))
    return table.take(np.lexsort((rank[node.indices.to_numpy()], table.column("time_s").to_numpy())))


def depth(parts: Iterable[Part]) -> int:
    """Return the max number of parts that cover one time."""
    ends = sorted([(part.first_us, 1) for part in parts] + [(part.last_us, 2) for part in parts])
    covering = most = 0
    for _, kind in ends:
        covering += 1 if kind == 1 else -1
        most = max(most, covering)
    return most
