"""Contents of a lake: the published tables of every subject."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from pipelines.storage.parquet import told_of
from pipelines.storage.places import inside, opened
from pipelines.storage.version import COUNTERS_PART, PAGES
from pipelines.storage.versions import Versions


@dataclass(frozen=True)
class Stored:
    """A published table of a subject: its file, number of rows, and maker of the version."""

    subject: str
    table: str
    path: Path
    rows: int
    made_by: str


def contents(home: Path) -> Iterator[Stored]:
    """Yield the published tables of the lake of ``home``, by subject; parts of counters apart."""
    lake = home / "lake"
    for subject in subjects(lake):
        current = Versions(lake, subject).current()
        for table, file in sorted(current.files.items()):
            if not table.startswith(PAGES) and not COUNTERS_PART.fullmatch(table):
                path = lake / file
                yield Stored(subject, table, path, _rows(path), current.made_by)


def subjects(lake: Path) -> list[str]:
    """Return the subjects that have a pointer."""
    return sorted(path.stem for path in inside(lake / "current") if path.suffix == ".json" and path.name[0] != ".")


def _rows(path: Path) -> int:
    with told_of(path), opened(path) as file:
        return int(pq.read_metadata(file).num_rows)
