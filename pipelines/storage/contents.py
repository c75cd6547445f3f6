"""Contents of a lake: the published tables of every subject, and its pages."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from features.errors import InputError
from pipelines.storage.parquet import told_of
from pipelines.storage.places import inside, listed, opened, read, write
from pipelines.storage.version import COUNTERS_PART, PAGES
from pipelines.storage.versions import Versions

_AT_ONCE = 8
"""Requests at a time."""


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


def copy_pages(home: Path, folder: Path) -> int:
    """Copy the pages that ``home`` shows into a directory; return their number."""
    pages = home / PAGES.rstrip("/")
    names = [name for name in listed(pages) if name and not name.endswith("/")]
    for name in names:
        if name.startswith("/") or {"..", "."} & {*name.split("/")}:
            raise InputError(f"{pages / name}: its name leads out of {folder}")

    def copy(name: str) -> None:
        content = read(pages / name)
        if content is not None and read(folder / name) != content:
            write(folder / name, content)

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(copy, names))
    return len(names)


def _rows(path: Path) -> int:
    with told_of(path), opened(path) as file:
        return int(pq.read_metadata(file).num_rows)
