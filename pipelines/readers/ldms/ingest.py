"""Ingest LDMS CSV files into the counters store: files atomically, rows once.

Memory does not grow with file sizes. A file whose text is known is not read again; one that continues a known text adds only its
new lines. A damaged line is left out and counted. A file with more than one in a hundred, or with an error that leaves its rows
unreadable, is quarantined: nothing of it is stored, and the next file is read.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from features.errors import InputError
from pipelines.lake.counters import CountersStore
from pipelines.readers.ldms.files import counter_files, scan
from pipelines.readers.ldms.intake import BrokenFileError, IntakeRun, SamplerTally


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
