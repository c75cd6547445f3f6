"""Counters at rest: a Parquet data set a sampler, cut by UTC day, and its ledger.

``<lake>/counters/<system>/<sampler>/day=YYYY-MM-DD/part-*.parquet`` with the columns ``time_s``, ``node`` and one float64 column
a metric (counters above 2^53 lose units; at network speed that is below 1e-9 of the rate). ``ledger.json`` beside them lists the
valid parts and the files read: parts are written separately, moved to their place, and count from the moment the ledger that
names them replaces the old one. A reader holds a snapshot: its parts stay until the last reader has closed. Parts that no ledger
names, replaced or left by a killed process, are never read again, and the next change without readers removes them.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from features.errors import InputError
from features.names import check_name
from pipelines.storage.atomic import made_folder, seen, write
from pipelines.storage.counters_change import FORMAT, Change, Sampler
from pipelines.storage.counters_merge import Part, Wanted, merge, schema_of
from pipelines.storage.counters_places import place_at
from pipelines.storage.locks import Busy, held
from pipelines.storage.remote import Overtaken, Seen, is_remote, modified_s


class CountersStore:
    """The counters of one system under ``lake``. Times are Unix seconds, days UTC."""

    def __init__(self, lake: Path, system: str) -> None:
        self.system = system
        self.root = lake / "counters" / check_name(system, "counters")
        self.place = place_at(self.root)
        self._samplers: dict[str, Sampler] = {}
        self._files: dict[str, dict[str, Any]] = {}
        self._replaced: dict[str, float] = {}
        self._seen, self._loaded_s = Seen(None), 0.0
        self._load()

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.json"

    @property
    def samplers(self) -> tuple[str, ...]:
        return tuple(sorted(self._samplers))

    def metrics(self, sampler: str) -> tuple[str, ...]:
        """Return the metrics of all parts together, in order of first appearance."""
        return tuple(self._sampler(sampler).metrics)

    def days(self, sampler: str) -> tuple[str, ...]:
        return tuple(sorted({part.day for part in self._sampler(sampler).parts}))

    def parts(self, sampler: str, day: str | None = None) -> list[Part]:
        """Return parts by time; an empty list for an unknown sampler."""
        if sampler not in self._samplers:
            return []
        return sorted(
            (part for part in self._samplers[sampler].parts if day in (None, part.day)), key=lambda part: (part.first_us, part.file)
        )

    def path(self, part: Part) -> Path:
        return self.root / part.file

    def files(self) -> pd.DataFrame:
        """Return the files read: a row a file with checksum, counts, span and time of ingestion."""
        return pd.DataFrame(self.entries())

    def known(self, digest: str) -> dict[str, Any] | None:
        """Return the ledger's entry of a file by the SHA-256 of its text."""
        return self._files.get(digest)

    def entries(self) -> list[dict[str, Any]]:
        """Return the ledger's entries, in order of ingestion."""
        return list(self._files.values())

    def batches(
        self,
        sampler: str,
        start_s: float = -math.inf,
        end_s: float = math.inf,
        metrics: Sequence[str] | None = None,
        nodes: Collection[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows with start_s <= time_s < end_s by (time_s, node), as record batches.

        A batch has a few row groups at most; memory does not grow with the range. ``metrics`` are the columns wanted, ``nodes`` the
        nodes, by default all. Row groups without any of it, by their statistics, are not read. Concurrent ingestion and compaction
        do not change the rows read. Raises InputError for an unknown sampler or metric.
        """
        known = self.metrics(sampler)
        if unknown := [name for name in metrics or () if name not in known]:
            raise InputError(f"{self.root / sampler}: has no metric {unknown[0]}; known: {', '.join(known)}")
        schema = schema_of(known if metrics is None else metrics)
        wanted = Wanted(schema, start_s, end_s, None if nodes is None else frozenset(nodes))
        with self._reading():
            for table in merge(self.path, self.parts(sampler), wanted):
                yield from table.unify_dictionaries().combine_chunks().to_batches()

    def coverage(self, sampler: str, days: Sequence[str] | None = None) -> pd.DataFrame:
        """Return coverage by day of ``days`` (all if None).

        Rows, nodes, minutes in which any node was sampled, node-minutes sampled, metric values and nulls, first and last time.
        """
        with self._reading():
            return self._coverage(sampler, self.days(sampler) if days is None else days)

    def _coverage(self, sampler: str, days: Sequence[str]) -> pd.DataFrame:
        found = []
        for day in days:
            parts = self.parts(sampler, day)
            sampled: set[str] = set()
            minutes: set[int] = set()
            pairs: set[tuple[int, str]] = set()
            for table in merge(self.path, parts, Wanted(schema_of(()))):
                table = table.unify_dictionaries().combine_chunks()
                if not table.num_rows:
                    continue
                node = table.column("node").chunk(0)
                names = node.dictionary.to_pylist()
                minute = (table.column("time_s").to_numpy() // 60).astype(np.int64)
                codes = node.indices.to_numpy()
                distinct = np.unique(np.stack([minute, codes]), axis=1)
                pairs.update((int(when), names[code]) for when, code in distinct.T)
                minutes.update(distinct[0].tolist())
                sampled.update(names[code] for code in np.unique(codes))
            rows, values = sum(part.rows for part in parts), sum(part.values for part in parts)
            found.append(
                {
                    "day": day,
                    "rows": rows,
                    "nodes": len(sampled),
                    "minutes": len(minutes),
                    "node_minutes": len(pairs),
                    "values": values,
                    "nulls": rows * len(self.metrics(sampler)) - values,
                    "first_s": min(part.first_s for part in parts),
                    "last_s": max(part.last_s for part in parts),
                }
            )
        return pd.DataFrame(found)

    @contextmanager
    def changing(self) -> Iterator[Change]:
        """Change the store: one process at a time; remains of a dead one are removed first.

        Raises InputError while another process changes it.
        """
        with self._alone() as (still, now_s):
            staging = self.place.staging()
            try:
                self.place.sweep(self._named(), self._replaced, now_s)
                yield Change(self, staging, still)
            finally:
                if is_remote(self.root):
                    self._take(self._seen)  # drop uncommitted changes
                else:
                    self._load()
                shutil.rmtree(staging, ignore_errors=True)

    @contextmanager
    def _alone(self) -> Iterator[tuple[Callable[[], None], float]]:
        """Hold the lock of changes and load the ledger.

        Yields a function that raises InputError where the lock was lost, and when the ledger was not yet loaded.
        """
        made_folder(self.root)
        with ExitStack() as stack:
            try:
                still = stack.enter_context(held(self.root / ".lock", 0))
            except Busy:
                raise InputError(f"{self.root}: another process is changing these counters") from None
            now_s = self.place.now_s()
            self._load()
            yield still, now_s

    def collect(self, before_s: float = math.inf, dry: bool = False) -> list[Path]:
        """Remove what :meth:`remains` and was written before a Unix time; return it.

        With ``dry`` it is only returned. Raises InputError while another process changes the store.
        """
        if dry:
            return [path for path in self.remains() if modified_s(path) <= before_s]
        with self._alone() as (_, now_s):
            return self.place.sweep(self._named(), self._replaced, now_s, before_s)

    def replaced(self) -> set[str]:
        """Return parts that the ledger notes as replaced, for readers."""
        return {*self._replaced}

    def compact(self, sampler: str, day: str) -> bool:
        """Merge the parts of a day into few that do not overlap, if they are many or deep.

        Returns True if something was done.
        """
        with self.changing() as change:
            return change.compact(sampler, day)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Keep the parts of the loaded ledger in place while reading.

        Parts replaced since it was loaded may be gone: then the ledger is loaded again.
        """
        with self.place.reading(self._named(), time.monotonic() - self._loaded_s) as whole:
            if not whole:
                self._load()
            yield

    def _named(self) -> set[str]:
        return {part.file for sampler in self._samplers.values() for part in sampler.parts}

    def _sampler(self, name: str) -> Sampler:
        if name not in self._samplers:
            raise InputError(f"{self.root}: holds no counters of {name}, only of {', '.join(self.samplers) or 'no sampler'}")
        return self._samplers[name]

    def _load(self) -> None:
        self._loaded_s = time.monotonic()
        self._take(seen(self.ledger))

    def _take(self, found: Seen) -> None:
        """Hold what a ledger says."""
        self._seen = found
        if found.content is None:
            self._samplers, self._files, self._replaced = {}, {}, {}
            return
        try:
            stated = json.loads(found.content)
        except ValueError as error:
            raise self._damaged(error) from error
        try:
            if stated["format"] != FORMAT:
                raise InputError(f"{self.ledger}: is in format {stated['format']}, and this version reads format {FORMAT}")
            self._samplers = {
                name: Sampler(found["metrics"], [Part(*part) for part in found["parts"]])
                for name, found in stated["samplers"].items()
            }
            self._files = {entry["sha256"]: entry for entry in stated["files"]}
            self._replaced = dict(stated.get("replaced", {}))
        except (LookupError, TypeError, AttributeError) as error:
            raise self._damaged(f"it is no ledger ({error})") from error

    def _damaged(self, what: object) -> InputError:
        return InputError(f"{self.ledger}: is damaged: {what}; restore it from a backup, or remove {self.root} and ingest again")

    def _save(self, gone: Collection[str] = ()) -> None:
        """Replace the ledger; ``gone`` are parts that it ceases to name. Raises Overtaken at an object store."""
        self._replaced = self.place.noted(gone, self._replaced)
        stated = {
            "kind": "counters",
            "format": FORMAT,
            "system": self.system,
            "samplers": {
                name: {"metrics": found.metrics, "parts": [part.stated() for part in self.parts(name)]}
                for name, found in sorted(self._samplers.items())
            },
            "files": list(self._files.values()),
            **({"replaced": self._replaced} if self._replaced else {}),
        }
        try:
            self._seen = write(self.ledger, json.dumps(stated, separators=(",", ":")), self._seen)
        except Overtaken as error:
            raise Overtaken(f"{self.root}: another process changed these counters meanwhile; begin again") from error

    def remains(self) -> list[Path]:
        """Return what a killed change leaves: parts outside the ledger, unfinished files."""
        now_s = self.place.now_s()
        self._load()
        return self.place.remains(self._named(), self._replaced, now_s)
