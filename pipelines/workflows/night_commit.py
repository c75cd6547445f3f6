"""A night's results take the place of the last night's all at once, or not at all.

A night writes its tables and pages into a directory of its own. When everything is there, a journal that names each move and the aliases
is written: from then on the night has happened. Aliases and files are moved, the journal is removed. Whoever comes after a
process that died finds either no journal, and throws away what lies there, or a journal, and finishes what it says; every step may be repeated.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from features.errors import InputError
from pipelines.storage.atomic import replacing
from pipelines.storage.lake import Lake

SetAliases = Callable[[Mapping[str, str]], None]
"""Points the registry's aliases to versions."""


class Staging:
    """Where one night of one trace puts its results until it is committed; made by :func:`staged`."""

    def __init__(self, home: Path, trace: str) -> None:
        self.home = home
        self.root = home / "nights" / trace
        self.lake = Lake(self.root / "staged" / "lake")
        self._staged = self.root / "staged"
        self._journal = self.root / "commit.json"

    @property
    def under_way(self) -> bool:
        """Was a commit begun that is not finished?"""
        return self._journal.exists()

    def enter(self, label: str, stage: str) -> None:
        """Note how far the night is, for the case that nobody can ask it any more."""
        self._staged.mkdir(parents=True, exist_ok=True)
        with replacing(self._staged / "stage.json") as temporary:
            temporary.write_text(json.dumps({"night": label, "stage": stage}), encoding="utf-8")

    def page(self, name: str, html: str) -> None:
        """Keep a page under ``reports/`` of the home directory."""
        path = self._staged / "reports" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8")

    def clear(self) -> None:
        """Forget what was staged."""
        shutil.rmtree(self._staged, ignore_errors=True)

    def commit(self, aliases: Mapping[str, str], promote: SetAliases) -> None:
        """Let it be: ``promote`` moves the ``aliases`` first, so that a registry that does not answer leaves the files of the night before."""
        (self._staged / "stage.json").unlink()
        files = sorted(path.relative_to(self._staged).as_posix() for path in self._staged.rglob("*") if path.is_file())
        with replacing(self._journal) as temporary:
            temporary.write_text(json.dumps({"files": files, "aliases": dict(aliases)}, indent=1), encoding="utf-8")
        try:
            promote(aliases)
        except BaseException:
            self._journal.unlink()
            raise
        self._move(files)

    def recover(self, promote: SetAliases) -> str:
        """Finish or forget what a process left that died; says which, empty if there is nothing."""
        if self._journal.exists():
            journal = json.loads(self._journal.read_text(encoding="utf-8"))
            promote(journal["aliases"])
            self._move(journal["files"])
            return "a night before had died while its results were moved into place: that was finished"
        told = self.left_behind()
        if not told:
            return ""
        self.clear()
        return f"the night {told['night']} had died while {told['stage']}: nothing of it was kept"

    def left_behind(self) -> dict[str, str]:
        """``night`` and ``stage`` of one that died, empty if none did."""
        if not self._staged.exists():
            return {}
        told = {"night": "of an unknown date", "stage": "beginning"}
        with suppress(OSError, ValueError):
            told |= json.loads((self._staged / "stage.json").read_text(encoding="utf-8"))
        return told

    def forget(self) -> None:
        """Forget a commit that cannot be finished, with what was staged for it."""
        self._journal.unlink(missing_ok=True)
        self.clear()

    def _move(self, files: list[str]) -> None:
        for name in files:
            source, target = self._staged / name, self.home / name
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(source, target)
        self.clear()
        self._journal.unlink()


@contextmanager
def alone(home: Path, trace: str, wait_s: float = 0.0) -> Iterator[Staging]:
    """The staging directory of ``trace`` to one night or one run at a time: only what is in here moves the aliases of ``runtime-<trace>``.

    InputError if another is there and stays longer than ``wait_s`` seconds.
    """
    staging = Staging(home, trace)
    staging.root.mkdir(parents=True, exist_ok=True)
    lock = FileLock(staging.root / ".lock", timeout=wait_s)
    try:
        lock.acquire()
    except Timeout as error:
        waited = f", and still is after {wait_s:g} s" if wait_s else ""
        raise InputError(f"another night or run of {trace} is running{waited}: try again when it is done") from error
    try:
        yield staging
    finally:
        lock.release()


@contextmanager
def staged(home: Path, trace: str) -> Iterator[Staging]:
    """:func:`alone`, for a night; InputError at once if another is running. What is not committed is forgotten."""
    with alone(home, trace) as staging:
        try:
            yield staging
        except Exception:
            if not staging.under_way:
                staging.clear()
            raise
