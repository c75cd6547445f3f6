"""One LDMS file on its way into the store: rows sorted, cut by day, and deduplicated.

Of several rows of one node at one time, the first is kept. A further one, from any file, is a duplicate if it is equal, else a
contradiction. A row is late if an earlier line of the file has a later time for the same node; it is still stored in its place.
Duplicates, contradictions and late rows are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from features.errors import InputError
from pipelines.ingest.ldms import Block, LdmsReader, NodeTable
from pipelines.ingest.ldms_files import Scanned
from pipelines.storage.counters_change import Change, part_rows
from pipelines.storage.counters_merge import Wanted, merge
from pipelines.storage.counters_parts import DAY_US, KEYS, Part, day_of, read_part, schema_of
from pipelines.storage.counters_store import CountersStore

_NAMED = 5
"""Max contradictions named in the ledger, for each file."""
_CACHED = 16
"""Max parts whose keys are kept in memory, since later parts may repeat them."""
_COUNTS = ("rows", "values", "nulls", "duplicates", "contradictions", "late")


class BrokenFileError(Exception):
    """Raised if the file is at fault, not the store."""


@dataclass
class SamplerTally:
    """Counts, nodes and days of one sampler's rows."""

    files: int = 0
    rows: int = 0
    values: int = 0
    nulls: int = 0
    duplicates: int = 0
    contradictions: int = 0
    late: int = 0
    nodes: set[str] = field(default_factory=set)
    days: set[str] = field(default_factory=set)

    def add(self, other: SamplerTally) -> None:
        for name in ("files", *_COUNTS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.nodes |= other.nodes
        self.days |= other.days


@dataclass
class _Rows:
    """Rows of one sampler as read.

    ``pieces`` are float64 [metrics, rows of a block]. ``rank`` maps a node's code to its place in ``text``, the sorted names.
    """

    sampler: str
    names: tuple[str, ...]
    time_us: np.ndarray
    node: np.ndarray
    pieces: list[np.ndarray]
    rank: np.ndarray
    text: list[str]

    def column(self, metric: int, rows: np.ndarray) -> np.ndarray:
        whole = self.pieces[0][metric] if len(self.pieces) == 1 else np.concatenate([piece[metric] for piece in self.pieces])
        return whole[rows]

    def values(self, rows: np.ndarray) -> np.ndarray:
        """Return the values of ``rows``, float64 [metrics, rows]."""
        return np.stack([self.column(metric, rows) for metric in range(len(self.names))])


class Run:
    """State of one ingestion of many files: node codes, known texts and known keys."""

    def __init__(self, store: CountersStore, change: Change, writer: ThreadPoolExecutor, sampler: str | None) -> None:
        self.store, self.change, self.writer, self.sampler = store, change, writer, sampler
        self.nodes = NodeTable()
        self.keys: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.lengths: dict[str, dict[int, str]] = {}
        for entry in store.entries():
            self.remember(entry)

    def remember(self, entry: dict[str, Any]) -> None:
        """Remember a file's text, which other files may continue."""
        if entry["header"] and entry["lines"] > 1:
            self.lengths.setdefault(entry["first"], {})[entry["bytes"]] = entry["sha256"]

    def keep_keys(self, part: Part, time_us: np.ndarray, node: np.ndarray) -> None:
        self.keys[part.file] = time_us, node
        while len(self.keys) > _CACHED:
            del self.keys[next(iter(self.keys))]


class Intake:
    """Reader of one file; afterwards ``tallies`` by sampler and ``contradictions`` are filled."""

    def __init__(self, run: Run, path: Path, scanned: Scanned, base: dict[str, Any] | None) -> None:
        self.run, self.path, self.scanned, self.base = run, path, scanned, base or {}
        self.tallies: dict[str, SamplerTally] = {}
        self.contradictions: list[str] = []
        self._reader = LdmsReader(
            path,
            run.nodes,
            sampler=run.sampler,
            header=self.base.get("header") or scanned.header,
            start=scanned.known_length,
            stop=scanned.length,
            line=self.base.get("lines", 0),
        )
        self._held: dict[str, list[tuple[tuple[str, ...], Block, np.ndarray]]] = {}
        self._metrics: dict[str, list[str]] = {}
        self._planned: dict[str, list[Part]] = {}
        self._staged: dict[str, list[Part]] = {}
        self._jobs: list[Future[None]] = []

    def read(self) -> None:
        """Stage the file in the change. After any error, such as BrokenFileError, nothing stays."""
        try:
            for block in self._blocks():
                self._take(block)
            self._flush_all()
            self._wait()
        except BaseException:
            for job in self._jobs:
                job.exception()
            self.run.change.discard([part for parts in self._staged.values() for part in parts])
            for parts in self._planned.values():
                for part in parts:
                    self.run.keys.pop(part.file, None)
            raise
        for tally in self.tallies.values():
            tally.late = self._reader.late
        entry = self._entry()
        self.run.change.adopt(self._staged, self._metrics, entry, self.base.get("sha256"))
        self.run.remember(entry)

    def _entry(self) -> dict[str, Any]:
        base, reader, scanned = self.base, self._reader, self.scanned
        parts = [part for parts in self._staged.values() for part in parts]
        firsts = [part.first_s for part in parts] + [base[name] for name in ("first_s",) if base.get(name) is not None]
        lasts = [part.last_s for part in parts] + [base[name] for name in ("last_s",) if base.get(name) is not None]
        return {
            "file": str(self.path),
            "sha256": scanned.sha256,
            "bytes": scanned.length,
            "first": scanned.first,
            "lines": reader.line,
            "header": reader.header,
            "samplers": sorted({*base.get("samplers", []), *self._metrics}),
            **{
                name: base.get(name, 0) + sum(getattr(tally, name) for tally in self.tallies.values())
                for name in ("rows", "values", "nulls", "duplicates", "contradictions")
            },
            "late": base.get("late", 0) + reader.late,
            "contradicting": (base.get("contradicting", []) + self.contradictions)[:_NAMED],
            "first_s": min(firsts, default=None),
            "last_s": max(lasts, default=None),
            "ingested_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def _blocks(self) -> Iterator[Block]:
        """Yield the reader's blocks; only the reader's InputErrors become BrokenFileError."""
        blocks = self._reader.blocks()
        while True:
            try:
                block = next(blocks, None)
            except InputError as error:
                raise BrokenFileError(str(error)) from error
            if block is None:
                return
            yield block

    def _take(self, block: Block) -> None:
        for sampler, places in block.header.samplers.items():
            names = tuple(places)
            metrics = self._metrics.setdefault(sampler, [])
            metrics.extend(name for name in names if name not in metrics)
            self.tallies.setdefault(sampler, SamplerTally(files=1))
            if sampler in self._held and self._held[sampler][-1][0] != names:  # a part has one set of columns
                self._flush(sampler)
            self._held.setdefault(sampler, []).append((names, block, block.values[sampler]))
        most = max(sum(block.time_us.size for _, block, _ in held) for held in self._held.values())
        if most >= part_rows(len(block.header.metrics) + len(KEYS)):
            self._flush_all()

    def _flush_all(self) -> None:
        for sampler in list(self._held):
            self._flush(sampler)

    def _flush(self, sampler: str) -> None:
        """Sort a sampler's held rows, drop known ones, and hand the rest to the writer by day."""
        held = self._held.pop(sampler)
        names = held[0][0]
        time_us = np.concatenate([block.time_us for _, block, _ in held])
        node = np.concatenate([block.node for _, block, _ in held])
        rank, text = _ranks(node, self.run.nodes)
        rows = _Rows(sampler, names, time_us, node, [values for _, _, values in held], rank, text)
        order = np.lexsort((rank[node], time_us))
        day = time_us[order] // DAY_US
        cuts = [0, *(np.flatnonzero(np.diff(day)) + 1).tolist(), order.size]
        for first, behind in pairwise(cuts):
            chosen = self._without_copies(rows, self._without_known(rows, order[first:behind]))
            if chosen.size:
                self._hand_over(rows, chosen)

    def _hand_over(self, rows: _Rows, chosen: np.ndarray) -> None:
        """Hand rows of one day to the writer's thread, which may be two parts behind."""
        when = rows.time_us[chosen]
        name = f"part-{self.scanned.sha256[:16]}-{sum(map(len, self._planned.values())):05d}"
        part = Part.of(rows.sampler, name, chosen.size, int(when[0]), int(when[-1]))
        self._planned.setdefault(rows.sampler, []).append(part)
        self.run.keep_keys(part, when, rows.node[chosen])
        tally = self.tallies[rows.sampler]
        tally.rows += chosen.size
        tally.days.add(part.day)
        present = np.unique(rows.rank[rows.node[chosen]])
        tally.nodes.update(rows.text[place] for place in present)
        if len(self._jobs) > 1:
            self._jobs[-2].result()
        self._jobs.append(self.run.writer.submit(self._write, rows, chosen, part))

    def _write(self, rows: _Rows, chosen: np.ndarray, planned: Part) -> None:
        codes = pa.array(rows.rank[rows.node[chosen]].astype(np.int32))
        arrays = [pa.array(rows.time_us[chosen] / 1e6), pa.DictionaryArray.from_arrays(codes, pa.array(rows.text, pa.string()))]
        arrays.extend(pa.array(rows.column(metric, chosen), from_pandas=True) for metric in range(len(rows.names)))
        part = self.run.change.stage(planned, rows.sampler, pa.Table.from_arrays(arrays, schema=schema_of(rows.names)))
        self._staged.setdefault(rows.sampler, []).append(part)
        tally = self.tallies[rows.sampler]
        tally.values += part.values
        tally.nulls += part.rows * len(rows.names) - part.values

    def _wait(self) -> None:
        for job in self._jobs:
            job.result()

    def _without_copies(self, rows: _Rows, order: np.ndarray) -> np.ndarray:
        """Return ``order`` without rows that repeat the node and time of a row before them."""
        when, node = rows.time_us[order], rows.node[order]
        same = np.flatnonzero((when[1:] == when[:-1]) & (node[1:] == node[:-1])) + 1
        if not same.size:
            return order
        leads = np.ones(order.size, bool)
        leads[same] = False
        lead = np.maximum.accumulate(np.where(leads, np.arange(order.size), 0))
        self._judge(rows, order[same], rows.values(order[lead[same]]))
        return order[leads]

    def _without_known(self, rows: _Rows, order: np.ndarray) -> np.ndarray:
        """Return ``order``, rows of one day, without those in the store or in earlier parts."""
        first_us, last_us = int(rows.time_us[order[0]]), int(rows.time_us[order[-1]])
        day = day_of(first_us)
        near = [
            part
            for part in (*self.run.store.parts(rows.sampler, day), *self._planned.get(rows.sampler, ()))
            if part.day == day and part.first_us <= last_us and part.last_us >= first_us
        ]
        keys = _keys(rows.time_us[order], rows.node[order])
        fresh = np.ones(order.size, bool)
        repeated = []
        for part in near:
            when, node = self._keys_of(part)
            inside = slice(np.searchsorted(when, first_us), np.searchsorted(when, last_us, side="right"))
            in_part = np.isin(keys, _keys(when[inside], node[inside]))
            if in_part.any():
                fresh &= ~in_part
                repeated.append(part)
        if repeated:
            again = order[~fresh]
            self._judge(rows, again, self._stored(rows, repeated, again))
        return order[fresh]

    def _keys_of(self, part: Part) -> tuple[np.ndarray, np.ndarray]:
        """Return the times of a part, sorted, and the node codes of its rows."""
        if part.file not in self.run.keys:
            self._wait()
            table = read_part(self.run.change.path(part), part, ["time_s", "node"]).unify_dictionaries().combine_chunks()
            self.run.keep_keys(part, _micro(table), self.run.nodes.codes(table.column("node").chunk(0)))
        return self.run.keys[part.file]

    def _stored(self, rows: _Rows, parts: Sequence[Part], again: np.ndarray) -> np.ndarray:
        """Return the values that ``parts`` have for the rows ``again``, float64 [metrics, rows].

        Rows are matched by node and time.
        """
        self._wait()
        keys, which = np.unique(_keys(rows.time_us[again], rows.node[again]), return_inverse=True)
        values = np.full((len(rows.names), keys.size), np.nan)
        span = rows.time_us[again[0]] / 1e6, np.nextafter(rows.time_us[again[-1]] / 1e6, np.inf)
        for table in merge(self.run.change.path, parts, Wanted(schema_of(rows.names), *span)):
            table = table.unify_dictionaries().combine_chunks()
            if not table.num_rows:
                continue
            there = _keys(_micro(table), self.run.nodes.codes(table.column("node").chunk(0)))
            place = np.minimum(np.searchsorted(keys, there), keys.size - 1)
            hit = keys[place] == there
            for metric, name in enumerate(rows.names):
                values[metric, place[hit]] = table.column(name).to_numpy()[hit]
        return values[:, which]

    def _judge(self, rows: _Rows, left_out: np.ndarray, kept: np.ndarray) -> None:
        """Count left-out rows as duplicates or contradictions of the kept values.

        Messages of the first contradictions are added to ``contradictions``.
        """
        left = rows.values(left_out)
        other = ~((kept == left) | (np.isnan(kept) & np.isnan(left)))
        contradicts = other.any(axis=0)
        tally = self.tallies[rows.sampler]
        tally.contradictions += int(contradicts.sum())
        tally.duplicates += int((~contradicts).sum())
        for place in np.flatnonzero(contradicts)[: max(_NAMED - len(self.contradictions), 0)]:
            row, metric = left_out[place], int(np.argmax(other[:, place]))
            self.contradictions.append(
                f"{self.path}: {rows.sampler} of {rows.text[rows.rank[rows.node[row]]]} at {rows.time_us[row] / 1e6:.6f}: "
                f"{rows.names[metric]} is {left[metric, place]:.17g}, but {kept[metric, place]:.17g} was there first"
            )


def _ranks(node: np.ndarray, nodes: NodeTable) -> tuple[np.ndarray, list[str]]:
    """Return each present node's place by name, int64 [all nodes], and the sorted names."""
    names = nodes.names
    present = sorted(np.unique(node).tolist(), key=lambda code: names[code])
    rank = np.full(len(names), -1, np.int64)
    rank[present] = np.arange(len(present))
    return rank, [names[code] for code in present]


def _keys(time_us: np.ndarray, node: np.ndarray) -> np.ndarray:
    """Return an integer key of time and node for each row of one day.

    37 bits hold the microseconds of the day, 26 the node.
    """
    return (time_us % DAY_US << 26) + node


def _micro(table: pa.Table) -> np.ndarray:
    return np.rint(table.column("time_s").to_numpy() * 1e6).astype(np.int64)
