"""Ingest LDMS CSV files into the counters store, rows once.

Memory does not grow with file sizes. A file whose text is known is not read again; one that continues a known text adds
only its new lines. A damaged line is left out and counted. A file with more than one in a hundred, or with an error
that leaves its rows unreadable, is quarantined, and the next file is read. Rows before its error may stay: a row that
is read again changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from features.errors import InputError
from pipelines.lake.counters import DAY_US, TIME_US, Change, CountersStore, day_of
from pipelines.readers.ldms.blocks import Block, LdmsReader
from pipelines.readers.ldms.files import Scanned, counter_files, header_beside, scan


class BrokenFileError(Exception):
    """Raised if the file is at fault, not the store."""


@dataclass
class SamplerTally:
    """Counts, nodes and days of one sampler's rows as read.

    Duplicates and contradictions are among the rows.
    """

    files: int = 0
    rows: int = 0
    values: int = 0
    nulls: int = 0
    duplicates: int = 0
    contradictions: int = 0
    nodes: set[str] = field(default_factory=set)
    days: set[str] = field(default_factory=set)


@dataclass
class IngestReport:
    """Rows by sampler, quarantined files, damaged lines, columns of text, and files by state.

    States: new, continued, unchanged, or with an unfinished last line. ``quarantined`` has an error with file and line
    for each broken file, ``text_columns`` the number of files with each.
    """

    samplers: dict[str, SamplerTally] = field(default_factory=dict)
    quarantined: list[str] = field(default_factory=list)
    ingested: int = 0
    continued: int = 0
    unchanged: int = 0
    unfinished: int = 0
    damaged: int = 0
    text_columns: Counter[str] = field(default_factory=Counter)


def ingest_counters(
    store: CountersStore,
    specs: Sequence[str | Path],
    *,
    sampler: str | None = None,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> IngestReport:
    """Read the files, directories and patterns in ``specs`` into ``store``.

    ``progress`` receives the file's name, bytes done and total bytes. ``sampler`` is that of metrics without
    ``::sampler``. Raises InputError if a spec matches no file or the store cannot be written. A broken file is in the
    report instead.
    """
    files = list(dict.fromkeys(path.absolute() for spec in specs for path in counter_files(spec)))
    sizes = [path.stat().st_size if path.exists() else 0 for path in files]  # a log may be rotated away at any moment
    with store.changing() as change:
        intake = Intake(store, change, sampler)
        for number, path in enumerate(files):
            progress(path.name, sum(sizes[:number]), sum(sizes))
            try:
                intake.take(path)
            except BrokenFileError as broken:
                intake.report.quarantined.append(str(broken))
        if intake.changed:
            change.commit()
        progress("", sum(sizes), sum(sizes))
    for (name, contradicts), count in change.left_out.items():
        tally = intake.report.samplers[name]
        tally.contradictions += count * contradicts
        tally.duplicates += count * (not contradicts)
    return intake.report


class Intake:
    """Files on their way into a store; ``changed`` tells whether any row or file is new."""

    def __init__(self, store: CountersStore, change: Change, sampler: str | None) -> None:
        self.store, self.change, self.sampler = store, change, sampler
        self.report = IngestReport()
        self.changed = False
        self._lengths: dict[str, dict[int, str]] = {}
        for entry in store.files.values():
            self._remember(entry)

    def take(self, path: Path) -> None:
        """Read what is new in a file; raise BrokenFileError for a broken one."""
        try:
            scanned = scan(path, self._lengths)
            beside = header_beside(path)
        except InputError as error:
            raise BrokenFileError(str(error)) from error
        self.report.unfinished += scanned.rest > 0
        if scanned.sha256 in self.store.files:
            self.report.unchanged += 1
            return
        continued = self._lengths[scanned.first][scanned.known_length] if scanned.known_length else ""
        base = self.store.files.get(continued, {})
        reader = LdmsReader(
            path,
            sampler=self.sampler,
            header=base.get("header") or beside,
            start=scanned.known_length,
            stop=scanned.length,
            line=base.get("lines", 0),
            text=set(base.get("text_columns", ())),
        )
        counts, samplers = self._read(reader)
        self.changed = True
        self.store.files.pop(continued, None)
        entry = self.store.files[scanned.sha256] = _entry(reader, scanned, base, counts, samplers)
        self._remember(entry)
        self.report.ingested += not base
        self.report.continued += bool(base)
        self.report.damaged += reader.damaged
        self.report.text_columns.update(reader.text)

    def _read(self, reader: LdmsReader) -> tuple[Counter[str], set[str]]:
        """Add a file's rows by sampler; return how many rows, values and nulls there are, and the samplers."""
        counts, samplers = Counter[str](), set[str]()
        for block in _blocks(reader):
            for sampler, places in block.header.samplers.items():
                tally = self.report.samplers.setdefault(sampler, SamplerTally())
                tally.files += sampler not in samplers
                samplers.add(sampler)
                rows = block.time_us.size
                if not rows:
                    continue
                table = _table(block, sampler)
                nulls = sum(table[name].null_count for name in places)
                for name, count in (("rows", rows), ("values", rows * len(places) - nulls), ("nulls", nulls)):
                    setattr(tally, name, getattr(tally, name) + count)
                    counts[name] += count
                tally.nodes.update(table["node"].chunk(0).dictionary.to_pylist())
                tally.days.update(day_of(int(day) * DAY_US) for day in np.unique(block.time_us // DAY_US))
                self.change.add(sampler, table)
                self.changed = True
        return counts, samplers

    def _remember(self, entry: Mapping[str, Any]) -> None:
        """Remember a file's text, which other files may continue."""
        if entry["header"] and entry["lines"] > 1:
            self._lengths.setdefault(entry["first"], {})[entry["bytes"]] = entry["sha256"]


def _blocks(reader: LdmsReader) -> Iterator[Block]:
    """Yield a file's blocks; only the reader's InputErrors become BrokenFileError."""
    try:
        yield from reader.blocks()
    except InputError as error:
        raise BrokenFileError(str(error)) from error


def _table(block: Block, sampler: str) -> pa.Table:
    """Return the rows of one sampler as :meth:`pipelines.lake.counters.Change.add` takes them."""
    values = [pa.array(column, from_pandas=True) for column in block.values[sampler]]
    return pa.table([pa.array(block.time_us), block.node, *values], names=[TIME_US, "node", *block.header.samplers[sampler]])


def _entry(
    reader: LdmsReader, scanned: Scanned, base: Mapping[str, Any], counts: Counter[str], samplers: set[str]
) -> dict[str, Any]:
    """Return the ledger's entry of a file, with what its beginning had before."""
    return {
        "file": str(reader.path),
        "sha256": scanned.sha256,
        "bytes": scanned.length,
        "first": scanned.first,
        "lines": reader.line,
        "header": reader.header,
        "text_columns": sorted(reader.text),
        "samplers": sorted({*base.get("samplers", []), *samplers}),
        **{name: base.get(name, 0) + counts[name] for name in ("rows", "values", "nulls")},
        "damaged": base.get("damaged", 0) + reader.damaged,
        "ingested_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
