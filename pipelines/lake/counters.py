"""Stored counters: Parquet files of a sampler and a UTC day, sorted by time and node.

No two overlap in time: ``<lake>/counters/<system>/<sampler>/day=YYYY-MM-DD/part-*.parquet`` with the columns
``time_s``, ``node`` and one float64 column per metric (counters above 2^53 lose units; at network speed that is below
1e-9 of the rate). New rows are merged with the parts of their day in whose time they fall, and those are written anew:
memory is bounded by a part, and a reader takes one part after the other. A system's counters are a subject of
:mod:`pipelines.lake.versions`: a version lists the valid parts, the table ``counter_parts`` that describes each, and
the table ``counter_files`` of the files read.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from features.errors import InputError, check_name
from pipelines.lake.files import told_of
from pipelines.lake.locks import held
from pipelines.lake.places import made_folder, opened, writing
from pipelines.lake.tables import Lake
from pipelines.lake.version import COUNTERS, FILES, PARTS, Version, subject_of

FORMAT = 1
PART_BYTES = 48 << 20
"""Approximate size of a part before compression."""
HELD_BYTES = 96 << 20
"""Size of the new rows that are held in memory before they are merged with those of their days."""
GROUP_BYTES = 8 << 20
"""Approximate size of a row group, of which a reader holds one."""
DAY_US = 86_400_000_000
TIME_US = "time_us"
"""Column of new rows, beside node and metrics: the time."""
_NODE = pa.field("node", pa.dictionary(pa.int32(), pa.string()))
KEYS = (pa.field("time_s", pa.float64()), _NODE)


def schema_of(metrics: Iterable[str]) -> pa.Schema:
    """Return the schema of a counter table: time_s, node and the metrics."""
    return pa.schema([*KEYS, *(pa.field(name, pa.float64()) for name in metrics)])


def day_of(time_us: int) -> str:
    """Return the UTC day of a time (Unix microseconds) as YYYY-MM-DD."""
    return str(np.datetime64(time_us // DAY_US, "D"))


def part_rows(columns: int) -> int:
    """Return the max rows of a part with ``columns`` columns."""
    return max(PART_BYTES // (8 * columns), 1)


@dataclass(frozen=True)
class Part:
    """One file of a sampler and day.

    ``file`` is relative to the store's root, ``values`` counts those that are not null, ``first_us`` and ``last_us``
    are its time span in Unix microseconds.
    """

    file: str
    day: str
    rows: int
    values: int
    first_us: int
    last_us: int

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
class StoredSampler:
    """Metrics of a sampler, in order of first appearance, and its parts in order of time."""

    metrics: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)


class CountersStore:
    """The counters of one system under ``lake``. Times are Unix seconds, days UTC.

    ``stored`` has the samplers by name; ``files`` the entry of each file read, by the SHA-256 of its text, in order of
    ingestion.
    """

    def __init__(self, lake: Path, system: str) -> None:
        self.system, self.lake = system, Lake(lake)
        self.root = lake / COUNTERS / check_name(system, COUNTERS)
        self.versions = self.lake.versions(subject_of(COUNTERS, system))
        self._load(self.versions.current())

    @property
    def samplers(self) -> tuple[str, ...]:
        return tuple(sorted(self.stored))

    def metrics(self, sampler: str) -> tuple[str, ...]:
        """Return the metrics of all parts together, in order of first appearance."""
        return tuple(self._sampler(sampler).metrics)

    def days(self, sampler: str) -> tuple[str, ...]:
        return tuple(sorted({part.day for part in self._sampler(sampler).parts}))

    def parts(self, sampler: str, day: str | None = None) -> list[Part]:
        """Return parts by time; an empty list for an unknown sampler."""
        return [part for part in self.stored.get(sampler, StoredSampler()).parts if day in (None, part.day)]

    def path(self, part: Part) -> Path:
        return self.root / part.file

    def batches(
        self, sampler: str, start_s: float = -math.inf, end_s: float = math.inf, metrics: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows with start_s <= time_s < end_s by (time_s, node), a row group at a time.

        ``metrics`` selects columns, by default all. Concurrent ingestion does not change the rows read. Raises
        InputError for an unknown sampler or metric, and for a missing or damaged part.
        """
        every = self.metrics(sampler)
        if unknown := [name for name in metrics or () if name not in every]:
            raise InputError(f"{self.root / sampler}: has no metric {unknown[0]}; known: {', '.join(every)}")
        schema = schema_of(every if metrics is None else metrics)
        for part in self.parts(sampler):
            if part.last_s >= start_s and part.first_s < end_s:
                for table in read_part(self.path(part), part, schema, start_s, end_s):
                    yield from table.combine_chunks().to_batches()

    @contextmanager
    def changing(self) -> Iterator[Change]:
        """Lock the store and yield a change of it; what was not committed is dropped at the end.

        What a dead process left is removed first. Raises InputError while another process changes the store.
        """
        made_folder(self.root)
        with held(self.root / ".lock", 0):
            self.versions.sweep()
            self._load(self.versions.current())
            change = Change(self)
            try:
                yield change
            finally:
                change.end()
                self._load(self._version)
                self.versions.sweep()

    def publish(self, parts: dict[str, Path]) -> None:
        """Publish the store in its present state; ``parts`` are local files of new parts."""
        rows = [astuple(part) for sampler in self.samplers for part in self.parts(sampler)]
        metrics = {name: kept.metrics for name, kept in self.stored.items()}
        tables = {
            PARTS: self.lake.part(PARTS, self.system, pd.DataFrame(rows, columns=_COLUMNS), {"metrics": metrics}),
            FILES: self.lake.part(FILES, self.system, pd.DataFrame(self.files.values())),
        }
        named = {row[0] for row in rows}
        gone = [file for file in self._version.files if file not in (PARTS, FILES) and file not in named]
        self._version = self.versions.commit({**parts, **tables}, "variability ingest", gone)

    def _sampler(self, name: str) -> StoredSampler:
        if name not in self.stored:
            raise InputError(f"{self.root}: holds no counters of {name}, only of {', '.join(self.samplers) or 'no sampler'}")
        return self.stored[name]

    def _load(self, version: Version) -> None:
        """Load what a version holds."""
        self._version = version
        self.stored: dict[str, StoredSampler] = {}
        self.files: dict[str, dict[str, Any]] = {}
        if PARTS not in version.files:
            return
        lake = replace(self.lake, seen=(self.versions.subject, version))
        parts, metadata = lake.read(PARTS, self.system)
        self.stored = {name: StoredSampler(metrics) for name, metrics in metadata["metrics"].items()}
        for row in parts.sort_values("first_us")[_COLUMNS].itertuples(index=False, name=None):
            part = Part(*row)
            self.stored[part.sampler].parts.append(part)
        files = pa.Table.from_pandas(lake.read(FILES, self.system)[0], preserve_index=False).to_pylist()
        self.files = {entry["sha256"]: entry for entry in files}


_COLUMNS = [column.name for column in fields(Part)]


class Change:
    """A change of a store: new rows are held, and merged with the parts of their days.

    ``left_out`` counts rows of a time and node that was there before: by sampler, and whether they contradict the row
    that stays.
    """

    def __init__(self, store: CountersStore) -> None:
        self.store = store
        self.left_out: Counter[tuple[str, bool]] = Counter()
        self._staged: dict[str, Path] = {}
        self._held: dict[tuple[str, int], list[pa.Table]] = {}
        self._held_bytes = 0

    def add(self, sampler: str, rows: pa.Table) -> None:
        """Take new rows of a sampler: ``time_us node`` and its metrics."""
        day = rows[TIME_US].to_numpy() // DAY_US
        for number in np.unique(day).tolist():
            own = rows.filter(pa.array(day == number))
            self._held.setdefault((sampler, number), []).append(own)
            self._held_bytes += own.nbytes
        if self._held_bytes > HELD_BYTES:
            self.merge()

    def merge(self) -> None:
        """Merge the rows that are held with the parts of their days."""
        for (sampler, day), tables in sorted(self._held.items(), key=lambda item: item[0]):
            self._merge(sampler, day_of(day * DAY_US), pa.concat_tables(tables, promote_options="default"))
        self._held, self._held_bytes = {}, 0

    def commit(self) -> None:
        """Publish all new parts at once."""
        self.merge()
        self.store.publish(self._staged)
        self._staged = {}

    def end(self) -> None:
        """Remove staged parts that were not committed."""
        for path in self._staged.values():
            path.unlink(missing_ok=True)

    def _merge(self, sampler: str, day: str, new: pa.Table) -> None:
        """Write the parts of a day anew that new rows fall into; rows behind the last part are added to it."""
        kept = self.store.stored.setdefault(sampler, StoredSampler())
        kept.metrics.extend(name for name in new.column_names if name not in (*_OF_ROWS, *kept.metrics))
        parts = self.store.parts(sampler, day)
        most = part_rows(len(kept.metrics) + len(KEYS))
        # rows behind a full part are a part of their own
        behind = [parts[-1].last_us + 1] if parts and parts[-1].rows >= most else []
        edges = [0, *(part.first_us for part in parts[1:]), *behind, _NEVER_US]
        for low_us, high_us, part in zip(edges, edges[1:], [*parts, None], strict=False):
            own = _between(new, low_us, high_us)
            if not own.num_rows:
                continue
            merged = self._merged(sampler, own if part is None else self._with(part, own))
            if part is not None:
                if merged.num_rows == part.rows:
                    continue  # all rows were there before
                kept.parts.remove(part)
                if staged := self._staged.pop(part.file, None):
                    staged.unlink()
            for first, last in _pieces(merged[TIME_US].to_numpy(), most):
                kept.parts.append(self._write(sampler, day, merged.slice(first, last - first)))
        kept.parts.sort(key=lambda part: part.first_us)

    def _with(self, part: Part, new: pa.Table) -> pa.Table:
        """Return the rows of a part, and new rows behind them."""
        schema = schema_of(self.store.metrics(part.sampler))
        old = pa.concat_tables(read_part(self._staged.get(part.file, self.store.path(part)), part, schema))
        time_us = np.rint(old["time_s"].to_numpy() * 1e6).astype(np.int64)
        return pa.concat_tables([old.set_column(0, TIME_US, pa.array(time_us)), new], promote_options="default")

    def _merged(self, sampler: str, rows: pa.Table) -> pa.Table:
        """Return rows by time and node, of several of one time and node the first; count the others."""
        rows = rows.unify_dictionaries().combine_chunks()
        if not rows.num_rows:
            return rows
        time_us, rank = rows[TIME_US].to_numpy(), _ranks(rows)
        order = np.lexsort((rank, time_us))  # stable: the rows of the store stay first
        leads = np.ones(len(order), bool)
        leads[1:] = (np.diff(time_us[order]) != 0) | (np.diff(rank[order]) != 0)
        if not leads.all():
            lead = np.maximum.accumulate(np.where(leads, np.arange(len(order)), 0))
            left_out, stay = rows.take(pa.array(order[~leads])), rows.take(pa.array(order[lead[~leads]]))
            contradicts = np.zeros(left_out.num_rows, bool)
            for name in rows.column_names:
                if name not in _OF_ROWS:
                    value = left_out[name].to_numpy()
                    contradicts |= ~((stay[name].to_numpy() == value) | np.isnan(value))
            self.left_out.update((sampler, kind) for kind in contradicts.tolist())
        return rows.take(pa.array(order[leads]))

    def _write(self, sampler: str, day: str, rows: pa.Table) -> Part:
        """Write sorted rows of one day to a staged file; return the part."""
        time_us = rows[TIME_US].to_numpy()
        file = f"{sampler}/day={day}/part-{secrets.token_hex(12)}.parquet"
        path = self._staged[file] = self.store.versions.part(file)
        metrics = [name for name in rows.column_names if name not in _OF_ROWS]
        description = {"kind": COUNTERS, "format": FORMAT, "metadata": {"system": self.store.system, "sampler": sampler}}
        columns = [pa.array(time_us / 1e6), rows["node"].unify_dictionaries(), *(rows[name] for name in metrics)]
        table = pa.table(columns, schema=schema_of(metrics).with_metadata({"queuecast": json.dumps(description)}))
        with writing(path), path.open("wb") as content:
            pq.write_table(
                table,
                content,
                compression="zstd",
                compression_level=1,
                use_dictionary=["node"],
                use_byte_stream_split=["time_s", *metrics],
                row_group_size=max(GROUP_BYTES // (8 * table.num_columns), 1),
            )
            content.flush()
            os.fsync(content.fileno())
        values = sum(rows.num_rows - rows[name].null_count for name in metrics)
        return Part(file, day, rows.num_rows, values, int(time_us[0]), int(time_us[-1]))


_OF_ROWS = (TIME_US, _NODE.name)
_NEVER_US = 1 << 62


def _ranks(rows: pa.Table) -> np.ndarray:
    """Return each row's place of its node among the names in order, int64 [rows]."""
    node = rows["node"].chunk(0)
    names = np.array(node.dictionary.to_pylist(), dtype=object)
    rank = np.empty(len(names), np.int64)
    rank[np.argsort(names, kind="stable")] = np.arange(len(names))
    return rank[node.indices.to_numpy()]


def _pieces(time_us: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yield first and last place of pieces of sorted rows, of at most so many; rows of one time stay together."""
    first = 0
    while first < len(time_us):
        last = min(first + most, len(time_us))
        if last < len(time_us):
            last = int(np.searchsorted(time_us, time_us[last]))
        if last <= first:
            last = int(np.searchsorted(time_us, time_us[first], "right"))
        yield first, last
        first = last


def _between(rows: pa.Table, low_us: int, high_us: int) -> pa.Table:
    """Return the rows from ``low_us`` to before ``high_us``."""
    time_us = rows[TIME_US].to_numpy()
    return rows.filter(pa.array((time_us >= low_us) & (time_us < high_us)))


def read_part(
    place: Path, part: Part, schema: pa.Schema, start_s: float = -math.inf, end_s: float = math.inf
) -> Iterator[pa.Table]:
    """Yield the rows of a part with start_s <= time_s < end_s, by row group.

    A column that it lacks is null. Raises InputError if it is missing or damaged.
    """
    with told_of(place), pq.ParquetFile(opened(place), pre_buffer=True) as file:
        names = [name for name in schema.names if name in file.schema_arrow.names]
        for group in range(file.metadata.num_row_groups):
            times = file.metadata.row_group(group).column(0).statistics
            if times is not None and times.has_min_max and not (times.max >= start_s and times.min < end_s):
                continue
            table = file.read_row_group(group, columns=names, use_threads=False)
            first, behind = np.searchsorted(table["time_s"].to_numpy(), [start_s, end_s])
            table = table.slice(first, behind - first)
            missing = {name: pa.nulls(table.num_rows, schema.field(name).type) for name in schema.names if name not in names}
            yield pa.table([missing[name] if name in missing else table[name] for name in schema.names], schema=schema)
