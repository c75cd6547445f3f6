"""The files of a subject in the lake: which are listed, and which may be removed.

The rule: a file is removed if it is at least :func:`pipelines.storage.version.keep_s` seconds old, by the clock that dates the
files, and no pointer, draft or version replaced in that time lists it.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from features.errors import InputError
from features.names import check_name
from pipelines.storage.drafts import OVERTAKEN, Drafts
from pipelines.storage.locks import held, shared, unshared
from pipelines.storage.places import at, being_written, seen
from pipelines.storage.pointer import Pointer
from pipelines.storage.version import COUNTERS, Draft, Version, keep_s, subject_of

_OVERTAKEN_DAYS = 7.0
"""Days after which no process works on a draft any more."""
_BY_CONTENT = re.compile(r"[0-9a-f]{16}\.(parquet|html)")
_FILE = re.compile(r"[0-9a-f]{16}\.(parquet|html)|part-.*\.parquet|.*\.(part|tmp)")
COUNTERS_PART = re.compile(r"[^/]+/day=[^/]+/part-[^/]+\.parquet")


class SubjectFiles:
    """The files of one subject in the lake at ``root``."""

    def __init__(self, root: Path, subject: str) -> None:
        self.root, self.subject = root, subject
        self.name = check_name(subject.partition("-")[2], "lake")
        self.of_counters = subject.startswith(f"{COUNTERS}-")
        self.pointer = Pointer(root, subject)
        self._readers = root / "current" / f"{subject}.readers"
        self._drafts = Drafts(root / "drafts" / subject)

    def current(self) -> Version:
        """Return the version that readers see."""
        return self.kept()[0]

    def kept(self) -> tuple[Version, Version]:
        """Return the current version and the one before."""
        return self.pointer.kept(seen(self.pointer.place))

    def drafts(self) -> list[Draft]:
        """Return the drafts that can still be published, in order of writing."""
        return [draft for draft in self._drafts.every() if draft.stage != OVERTAKEN]

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which no file of the current version is removed from a directory.

        In an object store they stay for :func:`keep_s` seconds.
        """
        return shared(self._readers)

    def has_whole(self, file: str) -> bool:
        """Tell whether a listed file is there, with the content that its name states."""
        if COUNTERS_PART.search(file):
            return at(self.root).there(self.root / file)
        return is_whole(self.root / file, seen(self.root / file).content)

    def _tables(self) -> list[Path]:
        return [path for path in inside(self.root) if subject_of(path.name, self.name) == self.subject]

    def sweep(self) -> None:
        """Remove stale drafts, and files that no kept version or draft lists.

        Kept are the current version and the one before.
        """
        with self._locked():
            drafts = self.drafts()  # before the pointer: a draft begun on a newer version would seem overtaken
            current, week_ago = self.current(), time.time() - _OVERTAKEN_DAYS * 86_400
            for draft in drafts:
                if draft.base.version != current.version or _written_before(self._drafts.place(draft.id), week_ago):
                    self._drafts.end(draft.id)
            for path in self._drafts.files():
                if _written_before(path, week_ago):
                    at(path).removed(path)
            self._remove(self.unlisted())

    def sweep_if_possible(self) -> None:
        """Call :meth:`sweep`; if the disk or the store fails, the next one does it."""
        with suppress(OSError, InputError):
            self.sweep()

    def unlisted(self) -> list[Path]:
        """Return files that no kept version or draft lists, and that nothing is writing.

        Those written in the last :func:`keep_s` seconds, in an object store at least an hour, may still get listed: not returned.
        """
        now_s = at(self.root).now_s(self.root)  # before versions are read: a file put and listed after that stays
        since_s = now_s - max(keep_s(self.root), at(self.root).unlisted_s)
        return [path for path, written_s in self.loose().items() if written_s <= since_s and not being_written(path)]

    def loose(self) -> dict[Path, float]:
        """Return files that no kept version or draft lists, with Unix times of writing."""
        drafts = self.drafts()  # before the pointer: a draft published in between is then in one of the two
        every: list[Version | Draft] = [*drafts, *self.kept(), *(each for _, each in self.pointer.replaced())]
        listed = {self.root / file for each in every for file in each.files.values()}
        return {path: written_s for path, written_s in self._files() if path not in listed}

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
        """Remove those of ``files`` that are still unlisted; none while a process is reading."""
        if not files:
            return
        again = {*self.unlisted()}
        with unshared(self._readers) as alone:  # else a later sweep removes them
            for path in files if alone else ():
                if path in again:
                    at(path).removed(path)

    def _files(self) -> Iterator[tuple[Path, float]]:
        """Yield the files of the subject's tables and pages, with Unix times of writing."""
        for folder in [*(table / self.name for table in self._tables()), self.root / "pages" / self.subject]:
            for name, each in at(folder).listed(folder).items():
                if _FILE.fullmatch(name.rpartition("/")[2]):
                    yield folder / name, each.modified_s

    def _locked(self) -> AbstractContextManager[Callable[[], None]]:
        return held(self.pointer.place.with_suffix(".lock"))


def is_whole(path: Path, content: bytes | None) -> bool:
    """Tell whether a file is there and, if its name is a hash, has that content."""
    return content is not None and (not _BY_CONTENT.fullmatch(path.name) or digest(content) == path.stem)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _written_before(path: Path, time_s: float) -> bool:
    """Tell whether a file was written before a Unix time; False if it is gone."""
    with suppress(FileNotFoundError):
        return at(path).modified_s(path) <= time_s
    return False


def inside(folder: Path) -> list[Path]:
    """Return the paths in a folder, sorted; [] if there is no folder."""
    try:
        return sorted(path for path in folder.iterdir() if path.name not in ("", folder.name) or path.parent == folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
