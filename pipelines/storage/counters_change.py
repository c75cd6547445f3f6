"""Changes of the counters: parts staged on this machine, adopted, and committed at once."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage.counters_merge import Wanted, depth, merge
from pipelines.storage.counters_parts import KEYS, Part, Sampler, schema_of, sizes_of
from pipelines.storage.counters_store import CountersStore
from pipelines.storage.places import writing
from pipelines.storage.version import COUNTERS

FORMAT = 1
PART_BYTES = 48 << 20
"""Approximate size of a part before compression."""
GROUP_BYTES = 8 << 20
"""Approximate size of a row group; a reader holds one of each part that covers a time."""
_DEEP, _AT_ONCE = 8, 16  # max parts over one time that a reader merges; that compaction merges


@contextmanager
def changing(store: CountersStore) -> Iterator[Change]:
    """Yield a change of a store, after removing what a dead process left.

    Raises InputError while another process changes the store.
    """
    with store.locked() as still_locked:
        change = Change(store, still_locked)
        try:
            yield change
        finally:
            change.end()


class Change:
    """New parts of a store: staged, then adopted or discarded, and committed together."""

    def __init__(self, store: CountersStore, still_locked: Callable[[], None]) -> None:
        self.store, self._still_locked = store, still_locked
        self._staged: dict[str, Path] = {}
        self._gone: list[str] = []
        self._changed = False

    def stage(self, planned: Part, sampler: str, table: pa.Table) -> Part:
        """Write a sorted table of one day to a staged file; return the part, counted and sized."""
        path = self._staged[planned.file] = self.store.versions.part(planned.file)
        description = {"kind": COUNTERS, "format": FORMAT, "metadata": {"system": self.store.system, "sampler": sampler}}
        table = table.replace_schema_metadata({b"queuecast": json.dumps(description).encode()})
        with writing(path), path.open("wb") as file:
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
        size, footer = sizes_of(path)
        values = sum(column.length() - column.null_count for column in table.columns[len(KEYS) :])
        return replace(planned, values=values, bytes=size, footer=footer)

    def path(self, part: Part) -> Path:
        """Return the present path of a part, staged or committed."""
        return self._staged.get(part.file) or self.store.path(part)

    def discard(self, parts: Sequence[Part]) -> None:
        """Remove staged parts of a broken file."""
        for part in parts:
            self._staged.pop(part.file).unlink(missing_ok=True)

    def end(self) -> None:
        """Remove staged parts that were not committed."""
        for path in self._staged.values():
            path.unlink(missing_ok=True)

    def adopt(
        self, parts: dict[str, list[Part]], metrics: dict[str, list[str]], entry: dict[str, Any], replaces: str | None = None
    ) -> None:
        """Adopt staged parts by sampler, their metrics, and the ledger's entry of the file.

        ``replaces`` is the key, a SHA-256, of the entry that this file continues.
        """
        ledger = self.store.ledger
        for name, own in metrics.items():
            sampler = ledger.samplers.setdefault(name, Sampler())
            sampler.metrics.extend(metric for metric in own if metric not in sampler.metrics)
            sampler.parts.extend(parts.get(name, []))
        if replaces is not None:
            ledger.files.pop(replaces, None)
        ledger.files[entry["sha256"]] = entry
        self._changed = True

    def commit(self) -> None:
        """Make everything adopted so far part of the store, atomically.

        Without a change nothing is written.
        """
        if not self._changed:
            return
        named = {part.file for sampler in self.store.ledger.samplers.values() for part in sampler.parts}
        self._still_locked()
        self.store.publish({name: path for name, path in self._staged.items() if name in named}, self._gone)
        self._staged = {name: path for name, path in self._staged.items() if name not in named}
        self._gone, self._changed = [], False

    def compact(self, sampler: str, day: str) -> bool:
        """Merge the parts of a day into few that do not overlap, if they are many or deep.

        Earlier adoptions are committed first. Returns True if something was done.
        """
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
        merged: list[Part] = []
        held: list[pa.Table] = []

        def write(table: pa.Table) -> None:
            first_us, last_us = (round(table.column("time_s")[place].as_py() * 1e6) for place in (0, table.num_rows - 1))
            planned = Part.of(sampler, f"part-{label}-{len(merged):05d}", table.num_rows, first_us, last_us)
            merged.append(self.stage(planned, sampler, table))

        for table in merge(self.path, parts, Wanted(schema)):
            held.append(table)
            while sum(piece.num_rows for piece in held) >= limit:
                whole = pa.concat_tables(held)
                write(whole.slice(0, limit).unify_dictionaries())
                held = [whole.slice(limit)]
        if sum(piece.num_rows for piece in held):
            write(pa.concat_tables(held).unify_dictionaries())
        gone = {part.file for part in parts}
        of = self.store.ledger.samplers[sampler]
        of.parts = [part for part in of.parts if part.file not in gone] + merged
        self._gone.extend(gone)


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
    """Return the max rows of a part with ``columns`` columns."""
    return max(PART_BYTES // (8 * columns), 1)


def group_rows(columns: int) -> int:
    """Return the max rows of a row group with ``columns`` columns."""
    return max(GROUP_BYTES // (8 * columns), 1)
