"""Versions of what is made of a trace or a monitored system, and of its counters: write, audit, publish. The one form of a transaction.

* **Write.** Every table is a new file that no reader knows yet, ``<lake>/<table>/<name>/<content's hash>.parquet``; a draft,
  ``<lake>/drafts/<subject>/<id>.json``, lists them with the model versions that belong to them.
* **Audit.** The draft's own steps read them back through the draft and check them.
* **Publish.** One ``os.replace`` puts the pointer ``<lake>/current/<subject>.json``. Readers go by it alone: a process killed before
  that has changed nothing.

What needs no audit is published at once (:meth:`Versions.commit`): counters, and tables that grow row by row, each of which is a subject.

Registry aliases and the pages under ``reports/`` follow the pointer (:meth:`Versions.follow`). A file ``<subject>.followed``, a
copy of the pointer, names the version that they follow. Where a process died in between it names another, and the next run, night or
Queuecast command that opens the registry for that subject sets them again; once they follow, an alias moved by hand stays. Subjects
are named by :func:`pipelines.storage.version.subject_of`; those of models as they are registered. A version keeps a table of the one
before if nothing that it was made from has changed (:data:`MADE_FROM`); other tables of before are no longer read.

Kept are files of the current version, of the one before (not of counters), of those replaced in the last :func:`keep_s` seconds, which
readers may still hold, and those that drafts list. At an object store a file is one put, and pointers and drafts are put on condition
that they are still what was read: the losing one of two writers gets Overtaken.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from features.errors import InputError
from features.names import check_name
from pipelines.storage.atomic import being_made, being_written, made_folder, moved, removed, seen, unfinished, write
from pipelines.storage.drafts import OVERTAKEN, Drafts
from pipelines.storage.locks import held, shared, unshared
from pipelines.storage.remote import Overtaken, Seen, is_remote, listed, modified_s, now_s
from pipelines.storage.remote import there as is_there
from pipelines.storage.site import wait_s
from pipelines.storage.version import (
    COUNTERS,
    DATED,
    MEND,
    PAGES,
    Draft,
    Version,
    carried,
    keep_s,
    older,
    parsed,
    stated,
    subject_of,
)

SetAliases = Callable[[Mapping[str, str]], None]
"""Points the registry's aliases at versions, by alias; an empty version takes the alias away."""
PUBLISHED = "it is published all the same; aliases and pages follow with the next command that asks for it"
"""Note on an error after which the version stays."""
_ATTEMPTS = 10
"""Max attempts to add to a draft to which steps on other machines add as well."""
UNNAMED_S = 3600.0
"""Min seconds for which a file at an object store stays that was put and not yet listed."""
_QUIET_S, _AGAIN_S = 5.0, 0.5
"""Seconds of waiting for a pointer before a line says so, and between looks at it."""
_OVERTAKEN_DAYS = 7.0
"""Days after which nothing works on such a draft."""
_BY_CONTENT = re.compile(r"[0-9a-f]{16}\.(parquet|html)")
_FILE = re.compile(r"[0-9a-f]{16}\.(parquet|html)|part-.*\.parquet|.*\.(part|tmp)")
_COUNTERS_PART = re.compile(r"[^/]+/day=[^/]+/part-[^/]+\.parquet")
_PUTS = 4
"""Files put at a time."""


class Unseen(InputError):
    """A pointer that a store took, and does not show: it may be there or not."""


class Versions:
    """The versions of one subject in the lake at ``root``."""

    def __init__(self, root: Path, subject: str) -> None:
        self.root, self.subject = root, subject
        self.name = check_name(subject.partition("-")[2], "lake")
        self._pointer = root / "current" / f"{subject}.json"
        self._followed = root / "current" / f"{subject}.followed"
        self._readers = root / "current" / f"{subject}.readers"
        self._drafts = Drafts(root / "drafts" / subject)

    def current(self) -> Version:
        """Return the version that readers see."""
        return self.kept()[0]

    def draft(self, id: str) -> Draft | None:
        """Return the draft called ``id``, None where nothing was written in it.

        InputError if another version was published since it began, or if it is damaged.
        """
        found = self._drafts.read(id)[0]
        if found is not None and found.stage == OVERTAKEN:
            raise self._overtaken(found)
        return found

    def drafts(self) -> list[Draft]:
        """Return the drafts that can still be published, the last written one at the end."""
        return [found for _, found in self._drafts.every() if found is not None and found.stage != OVERTAKEN]

    def damaged_drafts(self) -> list[Path]:
        """Return the files of drafts that cannot be read."""
        return [path for path, found in self._drafts.every() if found is None]

    def note(self, id: str, **facts: str | Mapping[str, str]) -> None:
        """Begin the draft ``id`` if needed, and add ``facts``: ``made_by stage models``.

        InputError if another version was published since.
        """
        with self._locked():
            self._note(id, {}, facts)

    def add(self, id: str, entry: str, part: Path) -> Path:
        """Add the finished file ``part`` to the draft ``id`` as ``entry``; return its place.

        ``entry`` is a table or a page.
        """
        path = self._place(entry, part)
        with self._locked():
            self._begin(id)  # before anything takes its place
            moved(part, path)
            self._note(id, {entry: path.relative_to(self.root).as_posix()}, {})
        return path

    def part(self, entry: str) -> Path:
        """Return a new local path to write ``entry`` to, for :meth:`add` and :meth:`commit`."""
        folder = self._folder(entry)
        return being_made(folder / "part") if is_remote(folder) else made_folder(folder) / unfinished("part")

    def _folder(self, entry: str) -> Path:
        if _COUNTERS_PART.fullmatch(entry):
            return self.root / COUNTERS / self.name
        return self.root / "pages" / self.subject if entry.startswith(PAGES) else self.root / entry / self.name

    def _place(self, entry: str, part: Path) -> Path:
        """Return where the finished file ``part`` is to lie: by its content, or a part of counters by its name."""
        if _COUNTERS_PART.fullmatch(entry):
            return self._folder(entry) / entry
        return self._folder(entry) / f"{_digest(part.read_bytes())}{'.html' if entry.startswith(PAGES) else '.parquet'}"

    def commit(
        self, entries: Mapping[str, Path], base: Version | None = None, made_by: str = "", gone: Collection[str] = ()
    ) -> Version:
        """Publish the finished local files of ``entries`` at once, beside what is current; return the version.

        Entries that are ``gone`` are left out. Overtaken, and nothing is changed, where another version than ``base`` is current.
        """
        try:
            with self._locked() as check:
                there = seen(self._pointer)
                current = base if base is not None and there.content is None else self._read(there)[0]
                if base is not None and base.version != current.version:
                    raise self._overtaken(Draft("", base, made_by))
                places = {entry: self._place(entry, part) for entry, part in entries.items()}
                with ThreadPoolExecutor(_PUTS) as threads:
                    list(threads.map(lambda entry: _brought(entries[entry], places[entry]), entries))
                files = {entry: path.relative_to(self.root).as_posix() for entry, path in places.items()}
                kept = {entry: file for entry, file in carried(current.files, files).items() if entry not in gone}
                made = Version(_id(), made_by, {**kept, **files}, current.models)
                check()
                # parts of counters are many, and a data set to other readers: none of before stay
                self._put_once(made, Version() if self.subject.startswith(f"{COUNTERS}-") else current, there)
        finally:
            for part in entries.values():
                part.unlink(missing_ok=True)
        self.follow(None)
        return made

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which, in a directory, no file of the current version goes.

        At an object store they stay for :func:`keep_s` seconds.
        """
        return shared(self._readers)

    def publish(self, id: str, set_aliases: SetAliases | None = None) -> Version:
        """Make the draft ``id`` the current version; update aliases and pages.

        InputError if another version was published since the draft began. If the registry raises, or the disk, the version before is
        current again; if it can no longer be put back, or aliases had moved, the version stays, and the next reader finishes it.
        """
        moved, made, put = [], Version(), False

        def move(models: Mapping[str, str]) -> None:
            if set_aliases is not None:
                set_aliases(models)
                moved.append(models)

        try:
            with self._locked() as check:
                there = seen(self._pointer)
                if self._drafts.read(id)[0] is None:
                    raise InputError(f"{self.subject}: there is no draft {id} to publish: it was published or given up")
                draft, before = self._begin(id)[0], self._read(there)[0]
                made = Version(
                    _id(),
                    draft.made_by,
                    carried(before.files, draft.files) | dict(draft.files),
                    dict(draft.models) or dict(before.models),
                )
                for file in draft.files.values():
                    if not self.has_whole(file):
                        raise InputError(f"{self.root / file}: is missing or damaged, and would be published: begin again")
                check()
                self._put_once(made, before, there)
                put = True
            self.follow(None if set_aliases is None else move)
        except BaseException as error:
            from models.registry.versions import keep_made

            if isinstance(error, Unseen):  # its models stay, as it may become current
                keep_made()
            elif made.version and self._stands(made, put) and not (put and not moved and self._taken_back(made)):
                keep_made()
                error.add_note(PUBLISHED)
            raise
        with suppress(OSError, InputError):  # what is left is swept by the next
            removed(self._drafts.place(id))
        self.sweep_if_possible()
        return made

    def _put_once(self, made: Version, before: Version, there: Seen) -> None:
        """Put the pointer; Overtaken unless it had been put by an attempt whose answer was lost."""
        try:
            self._put(made, before, there)
        except Overtaken:
            if made.version not in {each.version for each in (*self.kept(), *(each for _, each in self.replaced()))}:
                raise

    def _stands(self, made: Version, put: bool) -> bool:
        """Tell whether a version is current; where the store does not answer, whether it was put."""
        try:
            return self.current().version == made.version
        except (OSError, InputError):
            return put

    def _taken_back(self, made: Version) -> bool:
        try:
            self.take_back(made)
        except (OSError, InputError):
            return not self._stands(made, True)
        return True

    def take_back(self, made: Version | None = None) -> None:
        """Make the version before current again, for a version that cannot be followed.

        Its draft is kept. With ``made``, nothing is done where another version is current.
        """
        with self._locked():
            there = seen(self._pointer)
            current, before = self._read(there)
            if made is not None and current.version != made.version:
                return
            if before.version or is_remote(self.root):  # an object is not removed on condition, but put
                self._put(before, Version(), there)
            else:
                removed(self._pointer)

    @property
    def under_way(self) -> bool:
        """Tell whether aliases and pages do not yet follow the published version."""
        return self.current().version not in ("", self._follows())

    def follow(self, set_aliases: SetAliases | None) -> bool:
        """Update aliases and pages to the current version; return whether anything was left to do.

        It looks again when it is done: another version may have been published and followed meanwhile.
        """
        last = ""
        # the same version once more: a store that answers with the copy of before
        while (now := self._follow(set_aliases)) not in ("", last):
            last = now
        return last != ""

    def _follow(self, set_aliases: SetAliases | None) -> str:
        """Update aliases and pages once; return the version that they now follow, "" where nothing was to do."""
        version, before = self.kept()
        if version.version in ("", self._follows()):
            return ""
        # aliases that followed the version before and have not changed since may have been moved by hand, and stay
        if version.models and not (version.models == before.models and self._follows() == before.version != ""):
            if set_aliases is None:
                return ""
            set_aliases(version.models)
        for entry in {*version.files, *before.files}:
            if entry.startswith(PAGES):
                self._show(entry, version.files.get(entry))
        write(self._followed, stated(version, before))
        return version.version

    def has_whole(self, file: str) -> bool:
        """Tell whether a file that a version lists is there, and is what its name says."""
        if _COUNTERS_PART.search(file):
            return is_there(self.root / file)
        return is_whole(self.root / file, seen(self.root / file).content)

    def discard(self, id: str) -> None:
        """Give up the draft ``id``, and remove the files that nothing else lists.

        At an object store its process may run on another machine: there the draft stays, without files, and tells it.
        """
        if is_remote(self.root):
            self._drafts.end(id)
        else:
            removed(self._drafts.place(id))
        self.sweep()

    def kept(self) -> tuple[Version, Version]:
        """Return the current version and the one before."""
        return self._read(seen(self._pointer))

    def replaced(self) -> list[tuple[float, Version]]:
        """Return versions that readers may still hold, with Unix times of their replacement.

        They are older than the one before the current one.
        """
        found = seen(self._pointer)
        self._read(found)
        former = [] if found.content is None else older(found.content)
        since = now_s(self.root) - keep_s(self.root) if former else 0.0
        return [(until, version) for until, version in former if until > since]

    def _read(self, found: Seen) -> tuple[Version, Version]:
        if found.content is None:
            return Version(files=self._unversioned()), Version()
        try:
            return parsed(found.content)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self._pointer}: is damaged: {error}; {MEND}") from error

    def followed(self) -> tuple[Version, Version] | None:
        """Return the versions in the pointer's copy; None without a readable one."""
        try:
            found = seen(self._followed).content
            return None if found is None else parsed(found)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, version: Version, before: Version) -> None:
        """Replace the pointer, without looking at what it was."""
        with self._locked():
            self._put(version, before, seen(self._pointer))

    def show(self) -> None:
        """Show the pages of the current version again."""
        for entry, file in self.current().files.items():
            if entry.startswith(PAGES):
                self._show(entry, file)

    def _put(self, version: Version, before: Version, there: Seen) -> None:
        """Replace the pointer, on condition that it is what was ``there``; Unseen where a store does not show it then.

        Versions that it names no more join those that readers may still hold, each with the files that only it has.
        """
        former: list[dict[str, object]] = []
        with suppress(ValueError, KeyError, TypeError):  # a damaged pointer tells of none
            if there.content is not None:
                now, named = now_s(self.root), ("", version.version, before.version)
                went = [(now, each) for each in parsed(there.content) if each.version not in named]
                listed = {*version.files.values(), *before.files.values()}
                for until, each in went + older(there.content):
                    if until > now - keep_s(self.root):
                        own = {entry: file for entry, file in each.files.items() if file not in listed}
                        former.append({"until": until, "version": asdict(replace(each, files=own))})
        content = stated(version, before, former)
        write(self._pointer, content, there)
        if is_remote(self.root):
            self._read_back(content.encode(), version, there)

    def _read_back(self, content: bytes, version: Version, there: Seen) -> None:
        """Wait until the store shows the pointer just put, or one put after it that names its version.

        It says what it waits for; Unseen after the site's max wait.
        """
        began, told = time.monotonic(), False
        while (now := seen(self._pointer).content) != content:
            with suppress(ValueError, KeyError, TypeError):
                if now not in (None, there.content):
                    after = (*parsed(now), *(each for _, each in older(now)))
                    if version.version in {each.version for each in after}:
                        return
            waited_s = time.monotonic() - began
            said = f"{self._pointer}: the store took version {version.version or 'none'} and shows the one before"
            if waited_s > wait_s():
                raise Unseen(
                    f"{said} after {wait_s():g} s: it lost what was put, and the version before stays current, or its answers are late; "
                    "run it again when the store is well"
                )
            if waited_s > _QUIET_S and not told:
                print(f"{said}: waiting for the new one", file=sys.stderr)
                told = True
            time.sleep(min(_AGAIN_S, wait_s()))

    def _begin(self, id: str) -> tuple[Draft, Seen]:
        """Return the draft ``id``, a new one where there is none, and what its file holds."""
        found, there = self._drafts.read(id)
        current = self.current()
        if found is None:
            return Draft(id, current), there
        if found.stage == OVERTAKEN or found.base.version != current.version:
            raise self._overtaken(found)
        return found, there

    def _overtaken(self, draft: Draft) -> Overtaken:
        current, what = self.current(), draft.made_by or "this"
        if draft.base.version == current.version:
            return Overtaken(f"{self.subject}: {what} was given up by another process, or after a week: begin again")
        return Overtaken(f"{self.subject}: {current.made_by} was published after {what} had begun: begin again")

    def _note(self, id: str, files: Mapping[str, str], facts: Mapping[str, str | Mapping[str, str]]) -> None:
        for attempt in range(_ATTEMPTS):
            begun, there = self._begin(id)
            changed = replace(begun, files={**begun.files, **files}, **facts)  # type: ignore[arg-type]
            try:
                self._drafts.put(changed, there)
            except Overtaken:  # another step of the same run, on another machine
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            return

    def _unversioned(self) -> dict[str, str]:
        """Return tables that an older Queuecast left: ``<table>/<name>.parquet``."""
        if self.subject.startswith(f"{COUNTERS}-") and is_there(ledger := self.root / COUNTERS / self.name / "ledger.json"):
            raise InputError(f"{ledger}: an older Queuecast wrote these counters; queuecast doctor --repair takes them over")
        found = (table / f"{self.name}.parquet" for table in self._tables())
        return {path.parent.name: path.relative_to(self.root).as_posix() for path in found if is_there(path)}

    def _tables(self) -> list[Path]:
        return [path for path in inside(self.root) if subject_of(path.name, self.name) == self.subject]

    def _show(self, entry: str, file: str | None) -> None:
        page = self.root.parent / entry
        if file is not None:
            write(page, (self.root / file).read_bytes())
        elif not entry.startswith(DATED):
            page.unlink(missing_ok=True)

    def _follows(self) -> str:
        content = seen(self._followed).content
        if content is None:
            return ""
        try:
            return str(json.loads(content)["current"]["version"])
        except (ValueError, KeyError, TypeError):  # an older Queuecast wrote the version alone
            return content.decode("utf-8")

    def sweep(self) -> None:
        """Remove stale drafts, and files that no kept version or draft lists.

        Kept are the current version and the one before.
        """
        with self._locked():
            drafts = self.drafts()  # before the pointer: what began on a newer version than it would seem overtaken
            current, week_ago = self.current(), time.time() - _OVERTAKEN_DAYS * 86_400
            for draft in drafts:
                if draft.base.version != current.version or _written_before(self._drafts.place(draft.id), week_ago):
                    self._drafts.end(draft.id)
            for path in self._drafts.files():
                if _written_before(path, week_ago):
                    removed(path)
            self._remove(self.unlisted())

    def sweep_if_possible(self) -> None:
        """Call :meth:`sweep`; what is left where the disk or the store fails goes with the next one."""
        with suppress(OSError, InputError):
            self.sweep()

    def unlisted(self) -> list[Path]:
        """Return files that no kept version or draft lists, and that nothing is writing.

        At an object store those put in the last :func:`keep_s` seconds, an hour at least, may still be listed, so they are left out.
        """
        least_s = UNNAMED_S if is_remote(self.root) else 0.0
        since = now_s(self.root) - max(
            keep_s(self.root), least_s
        )  # before versions are read: what is put and listed after that stays
        found = self.loose()
        if not is_remote(self.root):
            return [path for path in found if path.is_file() and not being_written(path)]
        return [path for path in found if _written_before(path, since)]

    def loose(self) -> list[Path]:
        """Return files that no kept version or draft lists, whenever they were written."""
        drafts = self.drafts()  # before the pointer: what is published in between is then in one of the two
        every: list[Version | Draft] = [*drafts, *self.kept(), *(each for _, each in self.replaced())]
        listed = {self.root / file for each in every for file in each.files.values()}
        return [path for path in self._files() if path not in listed]

    def collect(self, before_s: float, dry: bool = False) -> list[Path]:
        """Remove the files of :meth:`unlisted` written before a Unix time; return them.

        With ``dry`` they are only returned.
        """
        with self._locked():
            gone = [path for path in self.unlisted() if _written_before(path, before_s)]
            if not dry:
                self._remove(gone)
        return gone

    def _remove(self, files: Sequence[Path]) -> None:
        """Remove files, but for those that were named or put again since they were found."""
        if not files:
            return
        again = {*self.unlisted()} if is_remote(self.root) else {*files}
        with unshared(self._readers) as alone:  # else what a reader holds goes with a later version
            for path in files if alone else ():
                if path in again:
                    removed(path)

    def _files(self) -> Iterator[Path]:
        """Yield the files of the subject's tables and pages, whatever lists them."""
        for folder in [*(table / self.name for table in self._tables()), self.root / "pages" / self.subject]:
            yield from (folder / name for name in listed(folder) if _FILE.fullmatch(name.rpartition("/")[2]))
        yield from (path for table in self._tables() if is_there(path := table / f"{self.name}.parquet"))

    @contextmanager
    def _locked(self) -> Iterator[Callable[[], None]]:
        with held(self._pointer.with_suffix(".lock")) as check:
            yield check


def is_whole(path: Path, content: bytes | None) -> bool:
    """Tell whether a file is there, with the content whose hash it may be named by."""
    return content is not None and (not _BY_CONTENT.fullmatch(path.name) or _digest(content) == path.stem)


def _brought(part: Path, place: Path) -> None:
    made_folder(place.parent)
    moved(part, place)


def _id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _written_before(path: Path, time_s: float) -> bool:
    """Tell whether a file was written before a Unix time; False where it is gone."""
    with suppress(FileNotFoundError):
        return modified_s(path) <= time_s
    return False


def inside(folder: Path) -> list[Path]:
    """Return what is in a folder, in order; nothing where there is none."""
    try:
        return sorted(path for path in folder.iterdir() if path.name not in ("", folder.name) or path.parent == folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
