"""Counters at rest: a Parquet data set a sampler, cut by UTC day, and its ledger.

``<lake>/counters/<system>/<sampler>/day=YYYY-MM-DD/part-*.parquet`` with the columns ``time_s``, ``node`` and one float64 column
a metric (counters above 2^53 lose units; at network speed that is below 1e-9 of the rate). ``ledger.json`` beside them lists the
valid parts and the files read: parts are written separately, moved to their place, and count from the moment the ledger that
names them replaces the old one. A reader holds a snapshot: its parts stay until the last reader has closed. Parts that no ledger
names, replaced or left by a killed process, are never read again, and the next change without readers removes them.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from features.errors import InputError
from features.names import check_name
from models.registry.syncing import sync
from pipelines.storage.atomic import made_folder, write
from pipelines.storage.counters_merge import KEYS, Part, depth, merge, schema_of

FORMAT = 1
PART_BYTES = 48 << 20
"""Approximate size of a part before compression."""
GROUP_BYTES = 8 << 20
"""Approximate size of a row group, which a reader holds of each part that covers a time."""
_DEEP, _AT_ONCE = 8, 16  # max parts over one time that a reader merges; that compaction merges
_STAGING, _READERS = ".staging", ".readers"


@dataclass
class _Sampler:
    metrics: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)


class CountersStore:
    """The counters of one system under ``lake``. Times are Unix seconds, days UTC."""

    def __init__(self, lake: Path, system: str) -> None:
        self.system = system
        self.root = Path(lake) / "counters" / check_name(system, "counters")
        self._samplers: dict[str, _Sampler] = {}
        self._files: dict[str, dict[str, Any]] = {}
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
        self, sampler: str, start_s: float = -math.inf, end_s: float = math.inf, metrics: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows with start_s <= time_s < end_s by (time_s, node), as record batches.

        A batch has a few row groups at most; memory does not grow with the range. ``metrics`` are the columns wanted, by default
        all. Concurrent ingestion and compaction do not change the rows read. Raises InputError for an unknown sampler or metric.
        """
        known = self.metrics(sampler)
        if unknown := [name for name in metrics or () if name not in known]:
            raise InputError(f"{self.root / sampler}: has no metric {unknown[0]}; known: {', '.join(known)}")
        with self._reading():
            for table in merge(self.path, self.parts(sampler), schema_of(known if metrics is None else metrics), start_s, end_s):
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
            for table in merge(self.path, parts, schema_of(())):
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
        made_folder(self.root)
        lock = FileLock(self.root / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise InputError(f"{self.root}: another process is changing these counters") from None
        try:
            (self.root / _READERS).touch()
            self._load()
            self._sweep()
            yield Change(self)
        finally:
            self._load()  # drop uncommitted changes
            shutil.rmtree(self.root / _STAGING, ignore_errors=True)
            lock.release()

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
        with ExitStack() as held:
            with suppress(FileNotFoundError):  # it exists from the first change on, and only changes remove parts
                file = held.enter_context((self.root / _READERS).open("rb"))
                fcntl.flock(file, fcntl.LOCK_SH)
            if not all(self.path(part).exists() for sampler in self._samplers.values() for part in sampler.parts):
                self._load()
            yield

    def _remove(self, files: Iterable[str]) -> None:
        """Remove parts that no ledger names, unless there is a reader, which may still need them."""
        with (self.root / _READERS).open("ab") as file, suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name in files:
                (self.root / name).unlink(missing_ok=True)

    def _sampler(self, name: str) -> _Sampler:
        if name not in self._samplers:
            raise InputError(f"{self.root}: holds no counters of {name}, only of {', '.join(self.samplers) or 'no sampler'}")
        return self._samplers[name]

    def _load(self) -> None:
        try:
            stated = json.loads(self.ledger.read_bytes())
        except FileNotFoundError:
            self._samplers, self._files = {}, {}
            return
        except ValueError as error:
            raise self._damaged(error) from error
        try:
            if stated["format"] != FORMAT:
                raise InputError(f"{self.ledger}: is in format {stated['format']}, and this version reads format {FORMAT}")
            self._samplers = {
                name: _Sampler(found["metrics"], [Part(*part) for part in found["parts"]])
                for name, found in stated["samplers"].items()
            }
            self._files = {entry["sha256"]: entry for entry in stated["files"]}
        except (LookupError, TypeError, AttributeError) as error:
            raise self._damaged(f"it is no ledger ({error})") from error

    def _damaged(self, what: object) -> InputError:
        return InputError(f"{self.ledger}: is damaged: {what}; restore it from a backup, or remove {self.root} and ingest again")

    def _save(self) -> None:
        stated = {
            "kind": "counters",
            "format": FORMAT,
            "system": self.system,
            "samplers": {
                name: {"metrics": found.metrics, "parts": [list(astuple(part)) for part in self.parts(name)]}
                for name, found in sorted(self._samplers.items())
            },
            "files": list(self._files.values()),
        }
        write(self.ledger, json.dumps(stated, separators=(",", ":")))

    def remains(self) -> list[Path]:
        """Return what a killed change leaves: parts outside the ledger, unfinished files."""
        named = {part.file for sampler in self._samplers.values() for part in sampler.parts}
        parts = [path for path in self.root.glob("*/day=*/part-*.parquet") if str(path.relative_to(self.root)) not in named]
        return [*parts, *self.root.glob(_STAGING), *self.root.glob(".*.tmp")]

    def _sweep(self) -> None:
        shutil.rmtree(self.root / _STAGING, ignore_errors=True)
        remains = self.remains()
        self._remove(str(path.relative_to(self.root)) for path in remains if path.suffix == ".parquet")
        for path in remains:
            if path.suffix == ".tmp":
                path.unlink()


class Change:
    """Parts on their way in: staged, then adopted or discarded; committed at once."""

    def __init__(self, store: CountersStore) -> None:
        self.store = store
        self._added: dict[str, Part] = {}
        self._gone: list[Part] = []
        self._changed = False

    def stage(self, planned: Part, sampler: str, table: pa.Table) -> Part:
        """Write a sorted table of one day to the staging place; return the part with its values."""
        part = replace(planned, values=sum(column.length() - column.null_count for column in table.columns[len(KEYS) :]))
        self._added[part.file] = part
        path = self.path(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        stated = {"kind": "counters", "format": FORMAT, "metadata": {"system": self.store.system, "sampler": sampler}}
        table = table.replace_schema_metadata({b"queuecast": json.dumps(stated).encode()})
        try:
            with path.open("wb") as file:
                pq.write_table(
                    table,
                    file,
                    compression="zstd",
                    compression_level=1,
                    use_dictionary=["node"],
                    use_byte_stream_split=[name for name in table.column_names if name != "node"],
                    row_group_size=group_rows(table.num_columns),
                )
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
        return part

    def path(self, part: Part) -> Path:
        """Return where a part lies now."""
        return self.store.root / _STAGING / part.file if part.file in self._added else self.store.path(part)

    def discard(self, parts: Sequence[Part]) -> None:
        """Remove staged parts: their file is broken."""
        for part in parts:
            self.path(part).unlink(missing_ok=True)
            self._added.pop(part.file, None)

    def adopt(
        self, parts: dict[str, list[Part]], metrics: dict[str, list[str]], entry: dict[str, Any], replaces: str | None = None
    ) -> None:
        """Adopt staged parts by sampler, their metrics, and the ledger's entry of the file.

        ``replaces`` is the entry that this file continues.
        """
        for name, found in metrics.items():
            sampler = self.store._samplers.setdefault(name, _Sampler())
            sampler.metrics.extend(metric for metric in found if metric not in sampler.metrics)
            sampler.parts.extend(parts.get(name, []))
        if replaces is not None:
            self.store._files.pop(replaces, None)
        self.store._files[entry["sha256"]] = entry
        self._changed = True

    def commit(self) -> None:
        """Make everything adopted so far part of the store, atomically.

        Without a change nothing is written.
        """
        if not self._changed:
            return
        named = {part.file for sampler in self.store._samplers.values() for part in sampler.parts}
        folders: set[Path] = set()
        for name in [name for name in self._added if name in named]:
            place = self.store.root / name
            made_folder(place.parent)
            os.replace(self.store.root / _STAGING / name, place)
            del self._added[name]
            folders.add(place.parent)
        for folder in folders:
            sync(folder)
        self.store._save()
        self.store._remove(part.file for part in self._gone)
        self._gone, self._changed = [], False

    def compact(self, sampler: str, day: str) -> bool:
        """Compact as :meth:`CountersStore.compact`, after committing earlier adoptions."""
        self.commit()
        limit = part_rows(len(self.store.metrics(sampler)) + len(KEYS))
        before: tuple[int, int] | None = None
        while True:
            parts = self.store.parts(sampler, day)
            state = depth(parts), len(parts)
            many = len(parts) > 2 * math.ceil(sum(part.rows for part in parts) / limit) + _DEEP
            groups = _groups(parts, limit)
            if (state[0] <= _DEEP and not many) or not groups or state == before:
                return before is not None
            before = state
            for group in groups:
                self._merge(sampler, group)
            self._changed = True
            self.commit()

    def _merge(self, sampler: str, parts: list[Part]) -> None:
        """Replace ``parts`` by their merge."""
        schema = schema_of(self.store.metrics(sampler))
        label = sha256("\n".join(part.file for part in parts).encode()).hexdigest()[:16]
        limit = part_rows(len(schema))
        made: list[Part] = []
        held: list[pa.Table] = []

        def write(table: pa.Table) -> None:
            first_us, last_us = (round(table.column("time_s")[place].as_py() * 1e6) for place in (0, table.num_rows - 1))
            planned = Part.of(sampler, f"part-{label}-{len(made):05d}", table.num_rows, first_us, last_us)
            made.append(self.stage(planned, sampler, table))

        for table in merge(self.path, parts, schema):
            held.append(table)
            while sum(piece.num_rows for piece in held) >= limit:
                whole = pa.concat_tables(held)
                write(whole.slice(0, limit).unify_dictionaries())
                held = [whole.slice(limit)]
        if sum(piece.num_rows for piece in held):
            write(pa.concat_tables(held).unify_dictionaries())
        found = self.store._samplers[sampler]
        gone = {part.file for part in parts}
        found.parts = [part for part in found.parts if part.file not in gone] + made
        self._gone.extend(parts)


def _groups(parts: list[Part], limit: int) -> list[list[Part]]:
    """Group neighbours in time for merging, as many as one merge can take.

    Parts that are full already and overlap no other stay as they are.
    """
    groups: list[list[Part]] = [[]]
    covered_us = -1
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        apart = part.first_us > covered_us and (following is None or following.first_us > part.last_us)
        covered_us = max(covered_us, part.last_us)
        if apart and 2 * part.rows >= limit:
            groups.append([])
            continue
        if depth([*groups[-1], part]) > _AT_ONCE:
            groups.append([])
        groups[-1].append(part)
    return [group for group in groups if len(group) > 1]


def part_rows(columns: int) -> int:
    """Return the rows of a part with so many columns."""
    return max(PART_BYTES // (8 * columns), 1)


def group_rows(columns: int) -> int:
    """Return the rows of a row group with so many columns."""
    return max(GROUP_BYTES // (8 * columns), 1)
