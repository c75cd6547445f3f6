"""The versions of a subject: new files beside the old, one draft and one pointer.

* A table or page is written as a new file that is named by its content's hash,
  ``<lake>/<table>/<name>/<hash>.parquet``. The draft, ``<lake>/drafts/<subject>.json``, names the file made last of
  each table, and the files that it was made from.
* Blocking checks read the tables back through the draft. No reader sees it.
* Publishing replaces the pointer, ``<lake>/current/<subject>.json``: one atomic write, before which nothing has
  changed. It names what in the draft was made from each other (:func:`pipelines.lake.version.settled`), and the two
  versions before.
* Then pages are copied to ``reports/`` and registry aliases are set. If that fails, the version is published all the
  same; the next run, night or ``queuecast doctor --repair`` does it again, and readers of models ask the pointer.

The current tables are views in SQL, too, for DuckDB: ``<lake>/current/views.sql``. One view a table, over the current
files of all traces or systems, whose rows name theirs; for counters one a sampler. Each publication writes them anew.

Subjects that grow, such as counters, have no draft: :meth:`Versions.commit` publishes at once. A file that the draft or one of the
three versions names stays; another is removed once it is a day old. Subjects are named by
:func:`pipelines.lake.version.subject_of`; a model has its subject's name.
"""

import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from features.clock import DAY_S
from features.errors import InputError, check_name, first_line
from pipelines.lake.locks import held
from pipelines.lake.places import exists, inside, listed, made_folder, move, part_of, read, remove, write
from pipelines.lake.version import (
    COUNTERS,
    COUNTERS_PART,
    DATED,
    HISTORIES,
    MEND,
    MODELS,
    OF_BOTH,
    PAGES,
    SOURCES,
    Draft,
    Version,
    settled,
    subject_of,
)


def write_views(lake: Path) -> Path:
    """Write the views of a lake; return their file."""
    place = lake / "current" / "views.sql"
    with held(place.with_suffix(".lock")):
        write(place, views(lake))
    return place


def views(lake: Path) -> str:
    """Return one statement a view; raise InputError for a damaged pointer."""
    tables: dict[str, list[str]] = {}
    counters: dict[str, dict[str, list[str]]] = {}
    for place in inside(lake / "current"):
        if place.suffix != ".json":
            continue
        try:
            files = json.loads(read(place) or b"{}")["current"]["files"]
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"{place}: is damaged: {error}") from error
        system = place.stem.partition("-")[2]
        for table, file in sorted(files.items()):
            if COUNTERS_PART.fullmatch(table):
                sampler = table.partition("/")[0]
                counters.setdefault(sampler, {}).setdefault(system, []).append(_text(lake / file))
            elif not table.startswith(PAGES):
                tables.setdefault(table, []).append(_text(lake / file))
    statements = {table: _rows("*", files) for table, files in tables.items()}
    for sampler, systems in counters.items():
        parts = [_rows(f"{_text(system)} AS system, *", files) for system, files in systems.items()]
        statements[f"counters_{sampler}"] = "\nUNION ALL BY NAME ".join(parts)
    return "".join(f'CREATE OR REPLACE VIEW "{name}" AS {rows};\n' for name, rows in sorted(statements.items()))


def _rows(columns: str, files: list[str]) -> str:
    listed = ",\n  ".join(files)
    return f"SELECT {columns} FROM read_parquet([\n  {listed}],\n  union_by_name = true, hive_partitioning = false)"


def _text(value: object) -> str:
    """Return a text in SQL's quotes."""
    return "'" + str(value).replace("'", "''") + "'"


SetAliases = Callable[[Mapping[str, str]], None]
"""Function that sets the registry's aliases to versions, by alias; an empty version removes the alias."""
KEPT = 3
"""Versions that a pointer names: the current one and those before."""
_BY_CONTENT = re.compile(r"[0-9a-f]{16}\.(parquet|html)")
_FILE = re.compile(r"[0-9a-f]{16}\.(parquet|html)|part-.*\.parquet|.*\.(part|tmp)")


@dataclass(frozen=True)
class Published:
    """A published version, and what it leaves out of the draft.

    ``left_out`` has the reason by table or page. ``problem`` says why aliases or pages do not follow it yet, else it is
    empty.
    """

    version: Version
    left_out: Mapping[str, str]
    problem: str = ""


class Versions:
    """The versions of one subject in the lake at ``root``."""

    def __init__(self, root: Path, subject: str) -> None:
        self.root, self.subject = root, subject
        self.kind, _, self.name = subject.partition("-")
        check_name(self.name, "lake")
        self.place = root / "current" / f"{subject}.json"
        self._draft = root / "drafts" / f"{subject}.json"

    def current(self) -> Version:
        """Return the version that readers see."""
        return self.kept()[0]

    def kept(self) -> list[Version]:
        """Return the current version, empty if there is none, and those before; at most three."""
        return self._pointer()[0]

    @property
    def follows(self) -> bool:
        """Tell whether pages and aliases were brought up to the current version.

        If so, an alias that differs was moved by hand.
        """
        return self._pointer()[1]

    def draft(self) -> Draft:
        """Return the draft; without one, what is published."""
        if (content := read(self._draft)) is None:
            current = self.current()
            files = {entry: file for entry, file in current.files.items() if not entry.startswith(DATED)}
            return Draft(files, current.models, current.made_from)
        return Draft(**_parsed(content, self._draft))

    def add(self, entry: str, part: Path, made_by: str, made_from: Mapping[str, str]) -> Path:
        """Move a finished local file to its place, and name it in the draft as ``entry``.

        ``entry`` is a table or a page. Returns the place.
        """
        path = self._place(entry, part)
        with self._locked():
            move(part, path)
            draft = self.draft()
            files = {**draft.files, entry: self._relative(path)}
            self._put_draft(_noted(replace(draft, files=files), entry, made_by, made_from))
        return path

    def name_models(self, models: Mapping[str, str], made_by: str, made_from: Mapping[str, str]) -> None:
        """Name the registered versions of the draft, by alias."""
        with self._locked():
            self._put_draft(_noted(replace(self.draft(), models=models), MODELS, made_by, made_from))

    def part(self, entry: str) -> Path:
        """Return a new local path to write ``entry`` to, for :meth:`add` and :meth:`commit`."""
        return part_of(made_folder(self._folder(entry)) / "part")

    def commit(
        self,
        entries: Mapping[str, Path],
        made_by: str = "",
        gone: Collection[str] = (),
    ) -> Version:
        """Publish finished local files at once, with the current ones; return the version.

        ``entries`` are those files by table, or by part of counters. Entries that are ``gone`` are left out. A caller
        that reads a table and writes it anew holds a lock over both.
        """
        try:
            with self._locked():
                kept, follows = self._pointer()
                places = {entry: self._place(entry, part) for entry, part in entries.items()}
                for entry, place in places.items():
                    made_folder(place.parent)
                    move(entries[entry], place)
                files = {entry: file for entry, file in kept[0].files.items() if entry not in gone}
                files |= {entry: self._relative(place) for entry, place in places.items()}
                lineage = {entry: tables for entry, tables in kept[0].made_from.items() if entry not in entries}
                version = replace(kept[0], version=_id(), made_by=made_by, files=files, made_from=lineage)
                self._put([version, *kept], follows)
        finally:
            for part in entries.values():
                part.unlink(missing_ok=True)
        self._show(version, kept[0])
        self._write_views()
        return version

    def publish(
        self, made_by: str, set_aliases: SetAliases | None = None, accepted: Callable[[str], bool] | None = None
    ) -> Published:
        """Make the current version from the draft; bring aliases and pages up to it.

        Published is what ``accepted`` makers, by default ``made_by`` alone, have made.
        """
        with self._locked():
            (current, *before), follows = self._pointer()
            draft = self.draft()
            version, left_out = settled(draft, current, accepted or (lambda maker: maker == made_by))
            version = replace(version, version=_id(), made_by=made_by)
            # with the same models, aliases that a person moved stay
            aliases_stay = follows and version.models == current.models
            self._put([version, current, *before], False)
            files = {entry: file for entry, file in draft.files.items() if not entry.startswith(DATED)}
            self._put_draft(replace(draft, files=files))
        problem = self.follow(None if aliases_stay else set_aliases)
        self._write_views()
        self.sweep()
        return Published(version, {entry: why for entry, why in left_out.items() if not entry.startswith(DATED)}, problem)

    def follow(self, set_aliases: SetAliases | None) -> str:
        """Bring pages, and with ``set_aliases`` the registry's aliases, up to the current version.

        Returns why it failed, or "": what is published is published, whatever registry or disk raise then.
        """
        try:
            current, *before = self.kept()
            self._show(current, before[0] if before else Version())
            if set_aliases is not None:
                set_aliases(current.models)
            with self._locked():
                if self.current().version == current.version:
                    self._put(self.kept(), True)
        except Exception as error:
            return first_line(error)
        return ""

    def put(self, kept: list[Version]) -> None:
        """Replace the pointer, whatever it holds, and forget what was not published."""
        with self._locked():
            self._put(kept, False)
            remove(self._draft)

    def _write_views(self) -> None:
        with suppress(OSError, InputError):  # the next publication writes them, and so does queuecast lake
            write_views(self.root)

    def sweep(self) -> None:
        """Remove files older than a day that neither the pointer nor the draft names.

        If the disk or the store fails, the next call does it.
        """
        with suppress(OSError, InputError), self._locked():
            named: list[Version | Draft] = [self.draft(), *self.kept()]
            files = {self.root / file for version in named for file in version.files.values()}
            before_s = time.time() - DAY_S
            for path in [path for path, written_s in self._files() if path not in files and written_s < before_s]:
                remove(path)

    def has_whole(self, file: str) -> bool:
        """Tell whether a listed file is there, with the content that its name states."""
        path = self.root / file
        return exists(path) if COUNTERS_PART.search(file) else is_whole(path, read(path))

    def _pointer(self) -> tuple[list[Version], bool]:
        """Return :meth:`kept` and :attr:`follows`; raise InputError if the pointer is damaged."""
        if (content := read(self.place)) is None:
            return [Version()], True
        pointer = _parsed(content, self.place)
        try:
            return [Version(**fields) for fields in (pointer["current"], *pointer["before"])], pointer["follows"]
        except (KeyError, TypeError) as error:
            raise InputError(f"{self.place}: is damaged: {error}; {MEND}") from error

    def _put(self, kept: list[Version], follows: bool) -> None:
        current, *before = kept[:KEPT]
        older = [asdict(version) for version in before if version.version]
        write(self.place, json.dumps({"current": asdict(current), "before": older, "follows": follows}, indent=1))

    def _put_draft(self, draft: Draft) -> None:
        write(self._draft, json.dumps(asdict(draft), indent=1))

    def _show(self, version: Version, before: Version) -> None:
        """Copy the pages of a version to where they are shown; remove those that it lacks."""
        for entry in sorted({*version.files, *before.files}):
            page = self.root.parent / entry
            if entry.startswith(PAGES) and entry in version.files:
                write(page, (self.root / version.files[entry]).read_bytes())
            elif entry.startswith(PAGES) and not entry.startswith(DATED):
                page.unlink(missing_ok=True)

    def _folder(self, entry: str) -> Path:
        if COUNTERS_PART.fullmatch(entry):
            return self.root / COUNTERS / self.name
        if entry.startswith(PAGES):
            return self.root / "pages" / self.subject
        return self.root / entry / (self.subject if entry in OF_BOTH and self._of_system else self.name)

    @property
    def _of_system(self) -> bool:
        return self.kind == "variability"

    def _place(self, entry: str, part: Path) -> Path:
        """Return the final path of ``part``: by its content's hash, or by name for counters."""
        if COUNTERS_PART.fullmatch(entry):
            return self._folder(entry) / entry
        return self._folder(entry) / f"{digest(part.read_bytes())}{'.html' if entry.startswith(PAGES) else '.parquet'}"

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _files(self) -> Iterator[tuple[Path, float]]:
        """Yield the files of the subject's tables and pages, with Unix times of writing."""
        kinds = [path.name for path in inside(self.root)]
        tables = [self._folder(table) for table in kinds if subject_of(table, self.name, self._of_system) == self.subject]
        for folder in [*tables, self.root / "pages" / self.subject]:
            for name, written_s in listed(folder).items():
                if _FILE.fullmatch(name.rpartition("/")[2]):
                    yield folder / name, written_s

    def _locked(self) -> AbstractContextManager[None]:
        return held(self.place.with_suffix(".lock"))


def is_whole(path: Path, content: bytes | None) -> bool:
    """Tell whether a file is there and, if its name is a hash, has that content."""
    return content is not None and (not _BY_CONTENT.fullmatch(path.name) or digest(content) == path.stem)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _noted(draft: Draft, entry: str, made_by: str, made_from: Mapping[str, str]) -> Draft:
    """Note in a draft the maker of an entry, and the files that it was made from."""
    inputs = {} if entry in SOURCES | HISTORIES else {table: file for table, file in made_from.items() if table != entry}
    lineage = {**draft.made_from, entry: inputs}
    return replace(draft, made_from=lineage, made_by={**draft.made_by, entry: made_by})


def _parsed(content: bytes, place: Path) -> dict[str, Any]:
    """Return a JSON object; raise InputError if it is damaged."""
    try:
        fields = json.loads(content)
        if not isinstance(fields, dict):
            raise ValueError("is no object")
        return fields
    except ValueError as error:
        raise InputError(f"{place}: is damaged: {error}; {MEND}") from error


def _id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
