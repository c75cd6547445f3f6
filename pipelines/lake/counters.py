"""Stored counters: Parquet files of a sampler and a UTC day, sorted by time and node.

No two overlap in time: ``<lake>/counters/<system>/<sampler>/day=YYYY-MM-DD/part-*.parquet`` with the columns ``time_s``, ``node`` and one float64 column
per metric (counters above 2^53 lose units; at network speed that is below 1e-9 of the rate). New rows are merged into the parts
whose time they fall in, and these are replaced; so a part is never changed, memory is bounded by a part and the new rows, and a
reader takes one part after the other. A system's counters are a subject of :mod:`pipelines.lake.versions`: a version lists the
valid parts, the table ``counter_parts`` that describes each, and the table ``counter_files`` of the files read.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from features.errors import InputError
from features.names import check_name
from pipelines.lake.locks import Busy, held
from pipelines.lake.parquet import told_of
from pipelines.lake.places import made_folder, opened, writing
from pipelines.lake.tables import Lake
from pipelines.lake.version import COUNTERS, FILES, PARTS, Version, subject_of

FORMAT = 1
PART_BYTES = 48 << 20
"""Max size of a part before compression, but for one time of very many nodes."""
GROUP_BYTES = 8 << 20
"""Approximate size of a row group, of which a reader holds one."""
DAY_US = 86_400_000_000
TIME_US, SOURCE = "time_us", "source"
"""Columns of new rows beside node and metrics: the time, and a number that tells where a row is from."""
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

    ``file`` is relative to the store's root, ``values`` counts those that are not null, ``first_us`` and ``last_us`` are its time
    span in Unix microseconds, ``bytes`` is its size.
    """

    file: str
    day: str
    rows: int
    values: int
    first_us: int
    last_us: int
    bytes: int

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


@dataclass
class SamplerLedger:
    """Samplers by name, and the entry of each file read, by the SHA-256 of its text."""

    samplers: dict[str, StoredSampler] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def copy(self) -> SamplerLedger:
        """Return a copy that can be changed."""
        samplers = {name: StoredSampler([*kept.metrics], [*kept.parts]) for name, kept in self.samplers.items()}
        return SamplerLedger(samplers, dict(self.files))


class CountersStore:
    """The counters of one system under ``lake``. Times are Unix seconds, days UTC."""

    def __init__(self, lake: Path, system: str) -> None:
        self.system, self.lake = system, Lake(lake)
        self.root = lake / COUNTERS / check_name(system, COUNTERS)
        self.versions = self.lake.versions(subject_of(COUNTERS, system))
        self.ledger = SamplerLedger()
        self._version = Version()
        self._load(self.versions.current())

    @property
    def samplers(self) -> tuple[str, ...]:
        return tuple(sorted(self.ledger.samplers))

    def metrics(self, sampler: str) -> tuple[str, ...]:
        """Return the metrics of all parts together, in order of first appearance."""
        return tuple(self._sampler(sampler).metrics)

    def days(self, sampler: str) -> tuple[str, ...]:
        return tuple(sorted({part.day for part in self._sampler(sampler).parts}))

    def parts(self, sampler: str, day: str | None = None) -> list[Part]:
        """Return parts by time; an empty list for an unknown sampler."""
        return [part for part in self.ledger.samplers.get(sampler, StoredSampler()).parts if day in (None, part.day)]

    def path(self, part: Part) -> Path:
        return self.root / part.file

    def is_whole(self, part: Part) -> bool:
        """Tell whether a part is there with all its rows, by its footer."""
        place = self.path(part)
        try:
            with told_of(place):
                return bool(pq.read_metadata(opened(place)).num_rows == part.rows)
        except InputError:
            return False

    def files(self) -> pd.DataFrame:
        """Return one row per file read: checksum, counts, time span and time of ingestion."""
        return pd.DataFrame(self.entries())

    def entry_of(self, digest: str) -> dict[str, Any] | None:
        """Return the ledger's entry of a file by the SHA-256 of its text."""
        return self.ledger.files.get(digest)

    def entries(self) -> list[dict[str, Any]]:
        """Return the ledger's entries, in order of ingestion."""
        return list(self.ledger.files.values())

    def batches(
        self, sampler: str, start_s: float = -math.inf, end_s: float = math.inf, metrics: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows with start_s <= time_s < end_s by (time_s, node), a row group at a time.

        ``metrics`` selects columns, by default all. Concurrent ingestion does not change the rows read. Raises InputError for an
        unknown sampler or metric, and for a missing or damaged part.
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
    def changing(self, writers: Executor) -> Iterator[Change]:
        """Lock the store and yield a change of it; what was not committed is dropped at the end.

        What a dead process left is removed first. Raises InputError while another process changes the store.
        """
        made_folder(self.root)
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self.root / ".lock", 0))
            except Busy:
                raise InputError(f"{self.root}: another process is changing these counters") from None
            self.versions.sweep()
            self._load(self.versions.current())
            change = Change(self, writers)
            try:
                yield change
            finally:
                change.end()
                self._load(self._version)
                self.versions.sweep()

    def publish(self, parts: dict[str, Path]) -> None:
        """Publish the ledger in its present state; ``parts`` are local files of new parts.

        Raises Overtaken if another process published first.
        """
        rows = [astuple(part) for sampler in self.samplers for part in self.parts(sampler)]
        metrics = {name: kept.metrics for name, kept in self.ledger.samplers.items()}
        tables = {
            PARTS: self.lake.part(PARTS, self.system, pd.DataFrame(rows, columns=_COLUMNS), {"metrics": metrics}),
            FILES: self.lake.part(FILES, self.system, self.files()),
        }
        named = {row[0] for row in rows}
        gone = [file for file in self._version.files if file not in (PARTS, FILES) and file not in named]
        self._version = self.versions.commit({**parts, **tables}, self._version, "variability ingest", gone)

    def _sampler(self, name: str) -> StoredSampler:
        if name not in self.ledger.samplers:
            raise InputError(f"{self.root}: holds no counters of {name}, only of {', '.join(self.samplers) or 'no sampler'}")
        return self.ledger.samplers[name]

    def _load(self, version: Version) -> None:
        """Load the ledger of a version."""
        self._version, self.ledger = version, SamplerLedger()
        if PARTS not in version.files:
            return
        lake = replace(self.lake, seen=(self.versions.subject, version))
        parts, metadata = lake.read(PARTS, self.system)
        samplers = {name: StoredSampler(metrics) for name, metrics in metadata["metrics"].items()}
        for row in parts.sort_values("first_us")[_COLUMNS].itertuples(index=False, name=None):
            part = Part(*row)
            samplers[part.sampler].parts.append(part)
        files = pa.Table.from_pandas(lake.read(FILES, self.system)[0], preserve_index=False).to_pylist()
        self.ledger = SamplerLedger(samplers, {entry["sha256"]: entry for entry in files})


_COLUMNS = [column.name for column in fields(Part)]


@dataclass(frozen=True)
class Repeated:
    """Rows left out because their time and node were there before, and the rows kept.

    They are the same number, in the same order.
    """

    left_out: pa.Table
    kept: pa.Table


class Change:
    """A change of a store: rows are merged into new parts, which are committed together."""

    def __init__(self, store: CountersStore, writers: Executor) -> None:
        self.store, self._writers = store, writers
        self._staged: dict[str, Path] = {}

    def merge(self, sampler: str, rows: pa.Table) -> list[Repeated]:
        """Merge new rows (``time_us source node`` and metrics) into the parts of their times.

        Of several rows of one time and node the first stays, that of the store before those of ``rows``; the others are returned.
        """
        kept = self.store.ledger.samplers.setdefault(sampler, StoredSampler())
        kept.metrics.extend(name for name in rows.column_names if name not in (*_OF_ROWS, *kept.metrics))
        limit = part_rows(len(kept.metrics) + len(KEYS))
        rows = rows.unify_dictionaries().combine_chunks()
        time_us, rank = rows[TIME_US].to_numpy(), _ranks(rows)
        order = np.lexsort((rank, time_us))
        repeated, written = [], []
        for part, first, behind in _targets(kept.parts, time_us[order], limit):
            table, when, which, chosen = rows, time_us, rank, order[first:behind]
            if part is not None:
                kept.parts.remove(part)
                table = pa.concat_tables([self._rows_of(part), rows.take(pa.array(chosen))], promote_options="default")
                table = table.unify_dictionaries().combine_chunks()
                when, which = table[TIME_US].to_numpy(), _ranks(table)
                chosen = np.lexsort((which, when))  # stable: the rows of the store stay first
            leads = np.ones(len(chosen), bool)
            leads[1:] = (np.diff(when[chosen]) != 0) | (np.diff(which[chosen]) != 0)
            if not leads.all():
                lead = np.maximum.accumulate(np.where(leads, np.arange(len(chosen)), 0))
                left_out, instead = chosen[~leads], chosen[lead[~leads]]
                repeated.append(Repeated(table.take(pa.array(left_out)), table.take(pa.array(instead))))
                chosen = chosen[leads]
            for low, high in _cuts(when[chosen], limit):
                written.append(self._writers.submit(self._write, sampler, table, chosen[low:high]))
        wait(written)
        kept.parts = sorted([*kept.parts, *(future.result() for future in written)], key=lambda part: part.first_us)
        return repeated

    def _rows_of(self, part: Part) -> pa.Table:
        """Return the rows of a part as new rows are, of no source."""
        path = self._staged.get(part.file) or self.store.path(part)
        table = pa.concat_tables(read_part(path, part, schema_of(self.store.metrics(part.sampler))))
        micro = np.rint(table["time_s"].to_numpy() * 1e6).astype(np.int64)
        table = table.set_column(0, TIME_US, pa.array(micro))
        return table.append_column(SOURCE, pa.array(np.full(table.num_rows, -1)))

    def _write(self, sampler: str, rows: pa.Table, chosen: np.ndarray) -> Part:
        """Write chosen rows of one day, in order of time and node, to a staged file; return the part."""
        rows = rows.take(pa.array(chosen))
        time_us = rows[TIME_US].to_numpy()
        day = day_of(int(time_us[0]))
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
        return Part(file, day, rows.num_rows, values, int(time_us[0]), int(time_us[-1]), path.stat().st_size)

    def commit(self) -> None:
        """Make everything merged so far part of the store, atomically."""
        named = {part.file for sampler in self.store.ledger.samplers.values() for part in sampler.parts}
        self.store.publish({file: path for file, path in self._staged.items() if file in named})
        self._staged = {file: path for file, path in self._staged.items() if file not in named}

    def end(self) -> None:
        """Remove staged parts that were not committed."""
        for path in self._staged.values():
            path.unlink(missing_ok=True)


_OF_ROWS = (TIME_US, SOURCE, _NODE.name)


def _ranks(rows: pa.Table) -> np.ndarray:
    """Return each row's place of its node among the names in order, int64 [rows]."""
    node = rows["node"].chunk(0)
    names = np.array(node.dictionary.to_pylist(), dtype=object)
    rank = np.empty(len(names), np.int64)
    rank[np.argsort(names, kind="stable")] = np.arange(len(names))
    return rank[node.indices.to_numpy()]


def _targets(parts: list[Part], time_us: np.ndarray, limit: int) -> Iterator[tuple[Part | None, int, int]]:
    """Yield slices of sorted times, and the part that each is merged with, None for a new one.

    Rows before the end of a part go to it, so parts stay apart. Rows after the last part of their day go to that if it is small.
    """
    cuts = [0, *(np.flatnonzero(np.diff(time_us // DAY_US)) + 1).tolist(), len(time_us)]
    for first, behind in pairwise(cuts):
        day = day_of(int(time_us[first]))
        own = [part for part in parts if part.day == day]
        open_at_end = bool(own) and 2 * own[-1].rows < limit
        edges = [part.last_us for part in own[: -1 if open_at_end else None]]
        place = np.searchsorted(np.array(edges, np.int64), time_us[first:behind])
        steps = [0, *(np.flatnonzero(np.diff(place)) + 1).tolist(), behind - first]
        for low, high in pairwise(steps):
            target = int(place[low])
            yield own[target] if target < len(own) else None, first + low, first + high


def _cuts(time_us: np.ndarray, limit: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of equal pieces of at most about ``limit`` rows, cut where the time changes."""
    pieces = math.ceil(len(time_us) / limit)
    wanted = [len(time_us) * piece // pieces for piece in range(pieces)]
    cuts = sorted({int(np.searchsorted(time_us, time_us[cut])) for cut in wanted})
    yield from zip(cuts, [*cuts[1:], len(time_us)], strict=True)


def read_part(
    place: Path, part: Part, schema: pa.Schema, start_s: float = -math.inf, end_s: float = math.inf
) -> Iterator[pa.Table]:
    """Yield the rows of a part with start_s <= time_s < end_s, by row group.

    A column that it lacks is null. Raises InputError if it is missing or damaged.
    """
    with told_of(place), _missing(place), pq.ParquetFile(opened(place), pre_buffer=True) as file:
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


@contextmanager
def _missing(place: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{place}: disappeared after the ledger was read: run the command again, or restore the file") from error
