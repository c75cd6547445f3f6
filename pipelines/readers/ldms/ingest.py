"""Ingest LDMS CSV files into the counters store: files atomically, rows once.

Memory does not grow with file sizes. A file whose text is known is not read again; one that continues a known text adds only its
new lines. A damaged line is left out and counted. A file with more than one in a hundred, or with an error that leaves its rows
unreadable, is quarantined: nothing of it is stored, and the next file is read.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from features.errors import InputError
from pipelines.lake.counters import CountersStore
from pipelines.lake.version import subject_of
from pipelines.lake.versions import until_written
from pipelines.readers.ldms.files import counter_files, scan, sha256_of
from pipelines.readers.ldms.intake import BrokenFileError, IntakeRun, SamplerTally

_WRITERS = 2
"""Parts written at once."""
QUARANTINE = "counters_quarantine"
_QUARANTINE_TYPES = {"file": "str", "sha256": "str", "line": "Int64", "reason": "str", "quarantined_at": "str"}


@dataclass
class IngestReport:
    """Rows by sampler, quarantined files, damaged lines, columns of text, and files by state.

    States: new, continued, unchanged, or with an unfinished last line. ``text_columns`` has the number of files with each.
    """

    samplers: dict[str, SamplerTally] = field(default_factory=dict)
    quarantined: list[dict[str, Any]] = field(default_factory=list)
    ingested: int = 0
    continued: int = 0
    unchanged: int = 0
    unfinished: int = 0
    damaged: int = 0
    text_columns: Counter[str] = field(default_factory=Counter)
    contradictions: list[str] = field(default_factory=list)


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
    taken: set[str] = set()
    with ThreadPoolExecutor(_WRITERS) as writers, store.changing(writers) as change:
        run = IntakeRun(store, change, sampler)
        for number, path in enumerate(files):
            progress(path.name, sum(sizes[:number]), sum(sizes))
            try:
                _ingest(run, path, report)
                taken.add(str(path))
            except BrokenFileError as broken:
                report.quarantined.append(_quarantined(path, str(broken)))
        run.commit()
        until_written(lambda: _keep_quarantine(store, report.quarantined, taken))
        progress("", sum(sizes), sum(sizes))
    for intake in run.intakes:
        report.damaged += intake.reader.damaged
        report.text_columns.update(intake.reader.text)
        report.contradictions.extend(intake.contradictions)
        for name, tally in intake.tallies.items():
            report.samplers.setdefault(name, SamplerTally()).add(tally)
    return report


def read_quarantine(store: CountersStore) -> pd.DataFrame:
    """Return the files that could not be read and have not been read since.

    Columns: file, sha256 (on disk), line, reason, quarantined_at.
    """
    if not store.lake.has(QUARANTINE, store.system):
        return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in _QUARANTINE_TYPES.items()})
    return store.lake.read(QUARANTINE, store.system)[0].astype(_QUARANTINE_TYPES)


def _ingest(run: IntakeRun, path: Path, report: IngestReport) -> None:
    try:
        scanned = scan(path, run.lengths)
    except InputError as error:
        raise BrokenFileError(str(error)) from error
    if run.store.entry_of(scanned.sha256) is not None:
        report.unchanged += 1
    else:
        base = run.store.entry_of(run.lengths[scanned.first][scanned.known_length]) if scanned.known_length else None
        run.read(path, scanned, base)
        report.ingested += base is None
        report.continued += base is not None
    report.unfinished += scanned.rest > 0


def _quarantined(path: Path, message: str) -> dict[str, Any]:
    match = re.match(re.escape(str(path)) + r"(?::(\d+))?: (.*)", message, re.DOTALL)
    line, reason = match.groups() if match else (None, message)
    return {
        "file": str(path),
        "sha256": sha256_of(path),
        "line": int(line) if line else None,
        "reason": reason,
        "quarantined_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _keep_quarantine(store: CountersStore, quarantined: list[dict[str, Any]], taken: set[str]) -> None:
    """Rewrite the quarantine table; files still broken in the same way keep their first time."""
    lake = store.lake.at_once(subject_of(QUARANTINE, store.system))
    old = read_quarantine(store).to_dict("records")
    same = {(row["file"], row["sha256"], row["reason"]): row for row in old}
    now = [same.get((row["file"], row["sha256"], row["reason"]), row) for row in quarantined]
    named = {row["file"] for row in now}
    rows = sorted([row for row in old if row["file"] not in taken | named] + now, key=lambda row: row["file"])
    if rows != old:
        frame = pd.DataFrame(rows, columns=list(_QUARANTINE_TYPES)).astype(_QUARANTINE_TYPES)
        lake.write(QUARANTINE, store.system, frame)
