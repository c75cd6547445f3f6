"""Contents of a lake, and removal of files that nothing lists any more.

The rule: a file is removed if it is at least :func:`pipelines.storage.version.keep_s` seconds old and no pointer, draft or
version replaced in that time lists it. Every publication applies it to its own subject; this module applies it to all of them.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from features.errors import InputError
from pipelines.storage.places import at, seen, write
from pipelines.storage.remote import Held
from pipelines.storage.subject_files import inside
from pipelines.storage.version import PAGES, Draft, Version, subject_of
from pipelines.storage.versions import Versions

_AT_ONCE = 8
"""Requests at a time."""
_VERSIONED = re.compile(r"(?P<table>[^/]+)/(?P<name>[^/]+)/.+\.(parquet|html)")


@dataclass(frozen=True)
class Subject:
    """The contents of the lake for one subject.

    ``version`` is the current one, ``made_by`` its run or night, ``bytes`` its size. ``held`` counts further versions that
    readers may hold; ``held_bytes`` is the size of files that only these or drafts list, ``loose_bytes`` that of unlisted files.
    """

    name: str
    version: str
    made_by: str
    bytes: int
    held: int
    held_bytes: int
    loose_bytes: int


def contents(home: Path) -> list[Subject]:
    """Return the contents of the lake of ``home``, by subject."""
    lake = home / "lake"
    there = at(lake).listed(lake)
    return [_of_versions(versions, there) for versions in _subjects(lake, there)]


def collected(home: Path, older_s: float = 0.0, dry: bool = False) -> Iterator[tuple[str, list[Held]]]:
    """Remove files that the rule allows and that are at least ``older_s`` seconds old.

    Yields them by subject. With ``dry`` nothing is removed.
    """
    lake = home / "lake"
    there = at(lake).listed(lake)
    before_s = at(lake).now_s(lake) - older_s
    for versions in _subjects(lake, there):
        gone = versions.collect(before_s, dry)
        yield versions.subject, [there[name] for path in gone if (name := path.relative_to(lake).as_posix()) in there]


def copy_pages(home: Path, folder: Path) -> int:
    """Copy the pages that ``home`` shows into a directory; return their number."""
    pages = home / PAGES.rstrip("/")
    names = [name for name in at(pages).listed(pages) if name and not name.endswith("/")]
    for name in names:
        if name.startswith("/") or {"..", "."} & {*name.split("/")}:
            raise InputError(f"{pages / name}: its name leads out of {folder}")

    def copy(name: str) -> None:
        content = seen(pages / name).content
        if content is not None and seen(folder / name).content != content:
            write(folder / name, content)

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(copy, names))
    return len(names)


def _subjects(lake: Path, there: dict[str, Held]) -> list[Versions]:
    """Return the versions of every subject that has a pointer, a draft, a table or a page."""
    named = {path.stem for path in inside(lake / "current") if path.suffix == ".json" and path.name[0] != "."}
    for file in there:
        if match := _VERSIONED.fullmatch(file):
            named.add(match["name"] if match["table"] == "pages" else subject_of(match["table"], match["name"]))
        elif re.fullmatch(r"drafts/[^/]+/.+", file):
            named.add(file.split("/")[1])
    return [Versions(lake, name) for name in sorted(named - {""})]


def _of_versions(versions: Versions, there: dict[str, Held]) -> Subject:
    current, before = versions.kept()
    held = [each for each in (before, *(version for _, version in versions.pointer.replaced())) if each.version]
    own, drafts = {*current.files.values()}, versions.drafts()
    every: list[Version | Draft] = [*held, *drafts]
    others = {file for each in every for file in each.files.values()} - own
    loose = {path.relative_to(versions.root).as_posix() for path in versions.loose()}
    return Subject(
        versions.subject,
        current.version or "none",
        current.made_by,
        _sum(own, there),
        len(held),
        _sum(others, there),
        _sum(loose, there),
    )


def _sum(files: set[str], there: dict[str, Held]) -> int:
    return sum(there[file].bytes for file in files if file in there)
