"""Versions of a subject's tables: write, audit, publish; the only form of a transaction.

* **Write.** Every table is a new file that no reader knows yet, ``<lake>/<table>/<name>/<content's hash>.parquet``; a draft,
  ``<lake>/drafts/<subject>/<id>.json``, lists these files with the model versions that belong to them.
* **Audit.** The draft's own steps read the tables back through the draft and check them.
* **Publish.** One ``os.replace`` puts the pointer ``<lake>/current/<subject>.json``. Readers use only the pointer: a process
  killed before that has changed nothing.

Subjects without an audit are published at once (:meth:`Versions.commit`): counters, and each table that grows row by row.

Registry aliases and the pages under ``reports/`` follow the pointer (:meth:`Versions.follow`). A file ``<subject>.followed``, a
copy of the pointer, names the version that they follow. If a process died in between, it names another version, and the next run,
night or Queuecast command that opens the registry for that subject updates both. Once they follow, an alias moved by hand stays.
Subjects are named by :func:`pipelines.storage.version.subject_of`; a model has its subject's name. A version inherits each table
whose inputs have not changed (:data:`pipelines.storage.version.MADE_FROM`); its other tables are no longer read.

Kept are files of the current version, of the one before (not of counters), of those replaced in the last :func:`keep_s` seconds,
which readers may still hold, and of drafts. In an object store a file is one put, and a pointer or draft is put only if it has
not changed since it was read: the losing one of two writers gets Overtaken.
"""

import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from features.errors import InputError
from pipelines.storage.drafts import OVERTAKEN
from pipelines.storage.places import at, made_folder, seen, until_written, write
from pipelines.storage.remote import Overtaken, Seen
from pipelines.storage.subject_files import COUNTERS_PART, SubjectFiles, digest
from pipelines.storage.version import COUNTERS, DATED, PAGES, Draft, Version, carried

SetAliases = Callable[[Mapping[str, str]], None]
"""Function that sets the registry's aliases to versions, by alias; an empty version removes the alias."""
PUBLISHED = "it is published all the same; aliases and pages follow with the next command that asks for it"
"""Note on an error after which the version stays published."""


class Versions(SubjectFiles):
    """The versions of one subject in the lake at ``root``."""

    def draft(self, id: str) -> Draft | None:
        """Return the draft called ``id``, or None if nothing was written in it.

        Raises Overtaken if the draft was given up, as for another version, and InputError if it is damaged.
        """
        draft = self._drafts.read(id)[0]
        if draft is not None and draft.stage == OVERTAKEN:
            raise self._overtaken(draft)
        return draft

    def note(self, id: str, **facts: str | Mapping[str, str]) -> None:
        """Begin the draft ``id`` if needed, and add ``facts``: ``made_by stage models``.

        Raises InputError if another version was published since.
        """
        with self._locked():
            self._note(id, {}, facts)

    def add(self, id: str, entry: str, part: Path) -> Path:
        """Add the finished file ``part`` to the draft ``id`` as ``entry``; return its place.

        ``entry`` is a table or a page.
        """
        path = self._place(entry, part)
        with self._locked():
            self._begin(id)  # raises before a file is moved
            at(path).moved(part, path)
            self._note(id, {entry: path.relative_to(self.root).as_posix()}, {})
        return path

    def part(self, entry: str) -> Path:
        """Return a new local path to write ``entry`` to, for :meth:`add` and :meth:`commit`."""
        folder = made_folder(self._folder(entry))
        return at(folder).being_made(folder / "part")

    def _folder(self, entry: str) -> Path:
        if COUNTERS_PART.fullmatch(entry):
            return self.root / COUNTERS / self.name
        return self.root / "pages" / self.subject if entry.startswith(PAGES) else self.root / entry / self.name

    def _place(self, entry: str, part: Path) -> Path:
        """Return the final path of ``part``: by its content's hash, or by name for counters."""
        if COUNTERS_PART.fullmatch(entry):
            return self._folder(entry) / entry
        return self._folder(entry) / f"{digest(part.read_bytes())}{'.html' if entry.startswith(PAGES) else '.parquet'}"

    def commit(
        self, entries: Mapping[str, Path], base: Version | None = None, made_by: str = "", gone: Collection[str] = ()
    ) -> Version:
        """Publish finished local files at once, with the current ones; return the version.

        ``entries`` are those files by table, or by part of counters. Entries that are ``gone`` are left out. Raises Overtaken,
        without a change, if another version than ``base`` is current.
        """
        try:
            with self._locked() as check:
                there = seen(self.pointer.place)
                current = self.pointer.kept(there)[0]
                if base is not None and base.version != current.version:
                    raise self._overtaken(Draft("", base, made_by))
                places = {entry: self._place(entry, part) for entry, part in entries.items()}
                at(self.root).moved_all({entries[entry]: place for entry, place in places.items()})
                files = {entry: path.relative_to(self.root).as_posix() for entry, path in places.items()}
                kept = {entry: file for entry, file in carried(current.files, files).items() if entry not in gone}
                version = Version(_id(), made_by, {**kept, **files}, current.models)
                check()
                # counters have many parts, which other programs read as a data set: none of the version before stay
                self.pointer.put_once(version, Version() if self.of_counters else current, there)
        finally:
            for part in entries.values():
                part.unlink(missing_ok=True)
        self.follow(None)
        return version

    def publish(self, id: str, set_aliases: SetAliases | None = None) -> Version:
        """Make the draft ``id`` the current version; update aliases and pages.

        Raises InputError if another version was published since the draft began. If the registry or the disk raises, the version
        before is current again. If it cannot be put back, or aliases had moved, the new one stays; the next reader finishes it.
        """
        moved, version, put = [], Version(), False

        def move(models: Mapping[str, str]) -> None:
            if set_aliases is not None:
                set_aliases(models)
                moved.append(models)

        try:
            with self._locked() as check:
                there = seen(self.pointer.place)
                if self._drafts.read(id)[0] is None:
                    raise InputError(f"{self.subject}: there is no draft {id} to publish: it was published or given up")
                draft, before = self._begin(id)[0], self.pointer.kept(there)[0]
                version = Version(
                    _id(),
                    draft.made_by,
                    carried(before.files, draft.files) | dict(draft.files),
                    dict(draft.models) or dict(before.models),
                )
                for file in draft.files.values():
                    if not self.has_whole(file):
                        raise InputError(f"{self.root / file}: is missing or damaged, and would be published: begin again")
                check()
                self.pointer.put_once(version, before, there)
                put = True
            self.follow(None if set_aliases is None else move)
        except BaseException as error:
            from models.registry.versions import keep_made

            if version.version and self._stands(version, put) and not (put and not moved and self._taken_back(version)):
                keep_made()
                error.add_note(PUBLISHED)
            raise
        with suppress(OSError, InputError):  # the next sweep removes it
            self._drafts.remove(id)
        self.sweep_if_possible()
        return version

    def _stands(self, version: Version, put: bool) -> bool:
        """Tell whether a version is current; if the store does not answer, whether it was put."""
        try:
            return self.current().version == version.version
        except (OSError, InputError):
            return put

    def _taken_back(self, version: Version) -> bool:
        try:
            self.take_back(version)
        except (OSError, InputError):
            return not self._stands(version, True)
        return True

    def take_back(self, version: Version | None = None) -> None:
        """Make the version before current again, if the current one cannot be followed.

        Its draft is kept. With ``version``, nothing is done if another version is current.
        """
        with self._locked():
            there = seen(self.pointer.place)
            current, before = self.pointer.kept(there)
            if version is not None and current.version != version.version:
                return
            self.pointer.put(before, Version(), there)

    @property
    def under_way(self) -> bool:
        """Tell whether aliases and pages do not yet follow the published version."""
        return self.current().version not in ("", self.pointer.follows())

    def follow(self, set_aliases: SetAliases | None) -> bool:
        """Update aliases and pages to the current version; return whether anything was left to do.

        It then checks again: another version may have been published and followed meanwhile.
        """
        followed = False
        while self._follow(set_aliases):
            followed = True
        return followed

    def _follow(self, set_aliases: SetAliases | None) -> bool:
        """Update aliases and pages once; return whether anything was to do."""
        version, before = self.kept()
        if version.version in ("", self.pointer.follows()):
            return False
        # if aliases followed the version before and its models are the same, aliases moved by hand stay
        if version.models and not (version.models == before.models and self.pointer.follows() == before.version != ""):
            if set_aliases is None:
                return False
            set_aliases(version.models)
        for entry in {*version.files, *before.files}:
            if entry.startswith(PAGES):
                self._show(entry, version.files.get(entry))
        self.pointer.copy(version, before)
        return True

    def discard(self, id: str) -> None:
        """Give up the draft ``id``, and remove the files that nothing else lists.

        In an object store its process may run on another machine: the draft stays, without files, and that gets Overtaken.
        """
        if at(self.root).shared:
            self._drafts.end(id)
        else:
            self._drafts.remove(id)
        self.sweep()

    def put(self, version: Version, before: Version) -> None:
        """Replace the pointer, whatever it holds."""
        with self._locked():
            self.pointer.put(version, before, seen(self.pointer.place))

    def _begin(self, id: str) -> tuple[Draft, Seen]:
        """Return the draft ``id`` and its file's content, new if missing; or raise Overtaken."""
        draft, there = self._drafts.read(id)
        current = self.current()
        if draft is None:
            return Draft(id, current), there
        if draft.stage == OVERTAKEN or draft.base.version != current.version:
            raise self._overtaken(draft)
        return draft, there

    def _overtaken(self, draft: Draft) -> Overtaken:
        current, what = self.current(), draft.made_by or "this"
        if draft.base.version == current.version:
            return Overtaken(f"{self.subject}: {what} was given up by another process, or after a week: begin again")
        return Overtaken(f"{self.subject}: {current.made_by} was published after {what} had begun: begin again")

    def _note(self, id: str, files: Mapping[str, str], facts: Mapping[str, str | Mapping[str, str]]) -> None:
        def added() -> None:
            begun, there = self._begin(id)
            changed = replace(begun, files={**begun.files, **files}, **facts)  # type: ignore[arg-type]
            self._drafts.put(changed, there)

        until_written(added)  # another step of the same run, on another machine, may add as well

    def _show(self, entry: str, file: str | None) -> None:
        page = self.root.parent / entry
        if file is not None:
            write(page, (self.root / file).read_bytes())
        elif not entry.startswith(DATED):
            page.unlink(missing_ok=True)


def _id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
