"""Stored counters: one Parquet data set per sampler, split by UTC day, and its ledger.

``<lake>/counters/<system>/<sampler>/day=YYYY-MM-DD/part-*.parquet`` with the columns ``time_s``, ``node`` and one float64 column
per metric (counters above 2^53 lose units; at network speed that is below 1e-9 of the rate). A system's counters are a subject of
:mod:`pipelines.storage.versions`: a version lists the valid parts, the table ``counter_parts`` that describes each, and the table
``counter_files`` of the files read. A reader holds a snapshot: its parts stay until the last reader has closed.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from features.clock import DAY_S
from features.errors import InputError
from features.names import check_name
from pipelines.storage.counters_merge import Wanted, merge
from pipelines.storage.counters_parts import Ledger, Part, Sampler, schema_of
from pipelines.storage.lake import Lake
from pipelines.storage.locks import Busy, held
from pipelines.storage.places import exists, made_folder
from pipelines.storage.version import COUNTERS, FILES, PARTS, Version, subject_of


class CountersStore:
    """The counters of one system under ``lake``. Times are Unix seconds, days UTC."""

    def __init__(self, lake: Path, system: str) -> None:
        self.system, self.lake = system, Lake(lake)
        self.root = lake / COUNTERS / check_name(system, COUNTERS)
        if exists(ledger := self.root / "ledger.json"):
            raise InputError(f"{ledger}: an older Queuecast wrote these counters: ingest their files into a new lake")
        self.versions = self.lake.versions(subject_of(COUNTERS, system))
        self.ledger = self._committed = Ledger()
        self._loaded_s, self._version = 0.0, Version()
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
        every = self.ledger.samplers.get(sampler, Sampler()).parts
        return sorted((part for part in every if day in (None, part.day)), key=lambda part: (part.first_us, part.file))

    def path(self, part: Part) -> Path:
        return self.root / part.file

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
        self,
        sampler: str,
        start_s: float = -math.inf,
        end_s: float = math.inf,
        metrics: Sequence[str] | None = None,
        nodes: Collection[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows with start_s <= time_s < end_s by (time_s, node), as record batches.

        A batch has a few row groups at most; memory does not grow with the range. ``metrics`` and ``nodes`` select columns and
        nodes, by default all. Row groups that cannot match, by their statistics, are not read. Concurrent ingestion and
        compaction do not change the rows read. Raises InputError for an unknown sampler or metric.
        """
        every = self.metrics(sampler)
        if unknown := [name for name in metrics or () if name not in every]:
            raise InputError(f"{self.root / sampler}: has no metric {unknown[0]}; known: {', '.join(every)}")
        schema = schema_of(every if metrics is None else metrics)
        wanted = Wanted(schema, start_s, end_s, None if nodes is None else frozenset(nodes))
        with self.reading():
            for table in merge(self.path, self.parts(sampler), wanted):
                yield from table.unify_dictionaries().combine_chunks().to_batches()

    def coverage(self, sampler: str, days: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the coverage of each of ``days`` (all if None).

        Rows, nodes, minutes in which any node was sampled, node-minutes sampled, metric values and nulls, first and last time.
        """
        with self.reading():
            return self._coverage(sampler, self.days(sampler) if days is None else days)

    def _coverage(self, sampler: str, days: Sequence[str]) -> pd.DataFrame:
        rows_by_day = []
        for day in days:
            parts = self.parts(sampler, day)
            tables = (table.unify_dictionaries().to_pandas() for table in merge(self.path, parts, Wanted(schema_of(()))))
            pairs = pd.concat(
                table.assign(minute=table["time_s"] // 60)[["minute", "node"]].drop_duplicates() for table in tables
            ).drop_duplicates()
            rows, values = sum(part.rows for part in parts), sum(part.values for part in parts)
            rows_by_day.append(
                {
                    "day": day,
                    "rows": rows,
                    "nodes": pairs["node"].nunique(),
                    "minutes": pairs["minute"].nunique(),
                    "node_minutes": len(pairs),
                    "values": values,
                    "nulls": rows * len(self.metrics(sampler)) - values,
                    "first_s": min(part.first_s for part in parts),
                    "last_s": max(part.last_s for part in parts),
                }
            )
        return pd.DataFrame(rows_by_day)

    @contextmanager
    def locked(self) -> Iterator[Callable[[], None]]:
        """Lock the store, and yield a function that raises InputError if the lock was lost.

        What a dead process left is removed first; unpublished changes are dropped at the end. Raises InputError while another
        process changes the store.
        """
        made_folder(self.root)
        with ExitStack() as stack:
            try:
                still_locked = stack.enter_context(held(self.root / ".lock", 0))
            except Busy:
                raise InputError(f"{self.root}: another process is changing these counters") from None
            self.versions.sweep()
            self._load(self.versions.current())
            try:
                yield still_locked
            finally:
                self.ledger = self._committed.copy()
                self.versions.sweep_if_possible()

    def publish(self, parts: Mapping[str, Path], gone: Collection[str]) -> None:
        """Publish the ledger in its present state.

        ``parts`` are local files of new parts, ``gone`` names replaced ones. Raises Overtaken if another process published first.
        """
        named = [part for sampler in self.samplers for part in self.parts(sampler)]
        metrics = {name: each.metrics for name, each in self.ledger.samplers.items()}
        tables = {
            PARTS: self.lake.part(
                PARTS, self.system, pd.DataFrame([astuple(part) for part in named], columns=_COLUMNS), {"metrics": metrics}
            ),
            FILES: self.lake.part(FILES, self.system, self.files()),
        }
        version = self.versions.commit({**parts, **tables}, self._version, "variability ingest", gone)
        self._version, self._committed = version, self.ledger.copy()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Load the ledger again if it is so old that its parts may be gone."""
        if time.monotonic() - self._loaded_s >= DAY_S / 2:
            version = self.versions.current()
            if version.version != self._version.version:
                self._load(version)
        yield

    def _sampler(self, name: str) -> Sampler:
        if name not in self.ledger.samplers:
            raise InputError(f"{self.root}: holds no counters of {name}, only of {', '.join(self.samplers) or 'no sampler'}")
        return self.ledger.samplers[name]

    def _load(self, version: Version) -> None:
        """Load the ledger of a version."""
        self._loaded_s, self._version, self._committed = time.monotonic(), version, Ledger()
        if PARTS in version.files:
            lake = replace(self.lake, seen=(self.versions.subject, version))
            parts, metadata = lake.read(PARTS, self.system)
            samplers = {name: Sampler(metrics) for name, metrics in metadata["metrics"].items()}
            for row in parts.itertuples(index=False, name=None):
                part = Part(*row)
                samplers[part.sampler].parts.append(part)
            files = pa.Table.from_pandas(lake.read(FILES, self.system)[0], preserve_index=False).to_pylist()
            self._committed = Ledger(samplers, {entry["sha256"]: entry for entry in files})
        self.ledger = self._committed.copy()


_COLUMNS = [each.name for each in fields(Part)]
