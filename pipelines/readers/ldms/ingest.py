"""Ingest LDMS CSV files into the counters store: files atomically, rows once.

Memory does not grow with file sizes. A file whose text is known is not read again; one that continues a known text adds only its
new lines. A damaged line is left out and counted. A file with more than one in a hundred, or with an error that leaves its rows
unreadable, is quarantined: nothing of it is stored, and the next file is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from features.errors import InputError
from pipelines.lake.counters import DAY_US, SOURCE, TIME_US, Change, CountersStore, day_of
from pipelines.readers.ldms.blocks import Block, LdmsReader, NodeTable
from pipelines.readers.ldms.files import Scanned, counter_files, scan

_COUNTS = ("rows", "values", "nulls", "duplicates", "contradictions")


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

    def add(self, other: SamplerTally) -> None:
        for name in ("files", *_COUNTS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.nodes |= other.nodes
        self.days |= other.days


class Intake:
    """One file being read: its reader, and tallies by sampler.

    ``base`` is the entry of the known text that the file continues, if it does.
    """

    def __init__(self, path: Path, scanned: Scanned, base: dict[str, Any] | None, nodes: NodeTable, sampler: str | None) -> None:
        self.path, self.scanned, self.base = path, scanned, base or {}
        self.tallies: dict[str, SamplerTally] = {}
        self._span_us: tuple[int, int] | None = None
        self.reader = LdmsReader(
            path,
            nodes,
            sampler=sampler,
            header=self.base.get("header") or scanned.header,
            start=scanned.known_length,
            stop=scanned.length,
            line=self.base.get("lines", 0),
            text=set(self.base.get("text_columns", ())),
        )

    def tables(self, source: int) -> Iterator[tuple[str, pa.Table]]:
        """Yield new rows by sampler, marked as from ``source``, and count them.

        Only the reader's InputErrors become BrokenFileError.
        """
        blocks = self.reader.blocks()
        while True:
            try:
                block = next(blocks, None)
            except InputError as error:
                raise BrokenFileError(str(error)) from error
            if block is None:
                break
            for sampler, places in block.header.samplers.items():
                tally = self.tallies.setdefault(sampler, SamplerTally(files=1))
                if block.time_us.size:
                    yield sampler, self._table(block, sampler, tuple(places), tally, source)

    def _table(self, block: Block, sampler: str, names: tuple[str, ...], tally: SamplerTally, source: int) -> pa.Table:
        codes, node = np.unique(block.node, return_inverse=True)
        all_names = self.reader.nodes.names
        present = [all_names[code] for code in codes]
        metrics = [pa.array(values, from_pandas=True) for values in block.values[sampler]]
        nulls = sum(metric.null_count for metric in metrics)
        tally.rows += block.time_us.size
        tally.values += block.time_us.size * len(names) - nulls
        tally.nulls += nulls
        tally.nodes.update(present)
        tally.days.update(day_of(int(day) * DAY_US) for day in np.unique(block.time_us // DAY_US))
        first_us, last_us = self._span_us or (1 << 62, 0)
        self._span_us = min(first_us, int(block.time_us.min())), max(last_us, int(block.time_us.max()))
        keys = {
            TIME_US: pa.array(block.time_us),
            SOURCE: pa.array(np.full(block.time_us.size, source)),
            "node": pa.DictionaryArray.from_arrays(node.astype(np.int32), pa.array(present, pa.string())),
        }
        return pa.table([*keys.values(), *metrics], names=[*keys, *names])

    def entry(self) -> dict[str, Any]:
        """Return the ledger's entry of the file, with what its beginning had before."""
        base, reader, scanned = self.base, self.reader, self.scanned
        span_s = [second / 1e6 for second in self._span_us or ()]
        span_s += [base[name] for name in ("first_s", "last_s") if base.get(name) is not None]
        counts = {name: sum(getattr(tally, name) for tally in self.tallies.values()) for name in _COUNTS}
        counts |= {"damaged": reader.damaged}
        return {
            "file": str(self.path),
            "sha256": scanned.sha256,
            "bytes": scanned.length,
            "first": scanned.first,
            "lines": reader.line,
            "header": reader.header,
            "text_columns": sorted(reader.text),
            "samplers": sorted({*base.get("samplers", []), *self.tallies}),
            **{name: base.get(name, 0) + count for name, count in counts.items()},
            "first_s": min(span_s, default=None),
            "last_s": max(span_s, default=None),
            "ingested_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }


class IntakeRun:
    """Many files on their way into a store; ``intakes`` are those read, by number."""

    def __init__(self, store: CountersStore, change: Change, sampler: str | None) -> None:
        self.store, self.change, self.sampler = store, change, sampler
        self.nodes = NodeTable()
        self.intakes: dict[int, Intake] = {}
        self.lengths: dict[str, dict[int, str]] = {}
        self._begun = 0
        for entry in store.files.values():
            self._remember(entry)

    def read(self, path: Path, scanned: Scanned, base: dict[str, Any] | None) -> None:
        """Read a file; of one that raises BrokenFileError no row is stored."""
        number, self._begun = self._begun, self._begun + 1
        intake = Intake(path, scanned, base, self.nodes, self.sampler)
        try:
            for sampler, rows in intake.tables(number):
                self.change.add(sampler, rows)
        except BrokenFileError:
            if intake.reader.rows:
                self.change.drop(number)
            raise
        self.intakes[number] = intake
        self._keep(intake)
        self._remember(intake.entry())

    def commit(self) -> None:
        """Make the files read part of the store; without any, nothing is written."""
        if not self.intakes:
            return
        self.change.merge()
        for (sampler, number, contradicts), count in self.change.left_out.items():
            tally = self.intakes[number].tallies[sampler]
            tally.contradictions += count * contradicts
            tally.duplicates += count * (not contradicts)
        settled = {}
        for intake in self.intakes.values():
            # a file that continues one of this run has that one's counts, which are known now
            intake.base = settled.get(intake.base.get("sha256"), intake.base)
            settled[intake.scanned.sha256] = self._keep(intake)
        self.change.commit()

    def _keep(self, intake: Intake) -> dict[str, Any]:
        """Put a file's entry into the ledger, in place of that of the text it continues; return it."""
        self.store.files.pop(intake.base.get("sha256", ""), None)
        entry = self.store.files[intake.scanned.sha256] = intake.entry()
        return entry

    def _remember(self, entry: dict[str, Any]) -> None:
        """Remember a file's text, which other files may continue."""
        if entry["header"] and entry["lines"] > 1:
            self.lengths.setdefault(entry["first"], {})[entry["bytes"]] = entry["sha256"]


@dataclass
class IngestReport:
    """Rows by sampler, quarantined files, damaged lines, columns of text, and files by state.

    States: new, continued, unchanged, or with an unfinished last line. ``quarantined`` has an error with file and line for each
    broken file, ``text_columns`` the number of files with each.
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

    ``progress`` receives the file's name, bytes done and total bytes. ``sampler`` is that of metrics without ``::sampler``.
    Raises InputError if a spec matches no file or the store cannot be written. A broken file is in the report instead.
    """
    files = list(dict.fromkeys(path.absolute() for spec in specs for path in counter_files(spec)))
    sizes = [path.stat().st_size if path.exists() else 0 for path in files]  # a log may be rotated away at any moment
    report = IngestReport()
    with store.changing() as change:
        run = IntakeRun(store, change, sampler)
        for number, path in enumerate(files):
            progress(path.name, sum(sizes[:number]), sum(sizes))
            try:
                _ingest(run, path, report)
            except BrokenFileError as broken:
                report.quarantined.append(str(broken))
        run.commit()
        progress("", sum(sizes), sum(sizes))
    for intake in run.intakes.values():
        report.damaged += intake.reader.damaged
        report.text_columns.update(intake.reader.text)
        for name, tally in intake.tallies.items():
            report.samplers.setdefault(name, SamplerTally()).add(tally)
    return report


def _ingest(run: IntakeRun, path: Path, report: IngestReport) -> None:
    try:
        scanned = scan(path, run.lengths)
    except InputError as error:
        raise BrokenFileError(str(error)) from error
    if scanned.sha256 in run.store.files:
        report.unchanged += 1
    else:
        base = run.store.files.get(run.lengths[scanned.first][scanned.known_length]) if scanned.known_length else None
        run.read(path, scanned, base)
        report.ingested += base is None
        report.continued += base is not None
    report.unfinished += scanned.rest > 0
