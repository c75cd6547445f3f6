"""Where parts of counters lie, and for how long: in a directory, or at an object store.

In a directory readers hold a lock, and what the ledger does not name goes when there are none. At an object store readers are not
known: a part stays for :func:`pipelines.storage.version.keep_s` seconds after it was replaced, which the ledger notes; one that a
killed process put and no ledger names stays for as long after it was put, at least an hour. All these times are of the store's clock.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from models.registry.syncing import sync
from pipelines.storage import remote
from pipelines.storage.atomic import alive, made_folder, unfinished
from pipelines.storage.version import keep_s

_STAGING, _READERS = ".staging", ".readers"
_PART = re.compile(r"[^/]+/day=[^/]+/part-[^/]+\.parquet")
_SCRATCH = re.compile(r"counters\.(\d+)-[0-9a-f]{12}\.part")
_UNNAMED_S = 3600.0
"""Min seconds for which a part stays that no ledger names: its process may be about to."""
_PUTS = 4
"""Parts put at a time."""


class Place(Protocol):
    """Keeper of the parts below one root.

    ``replaced`` are parts with the Unix times when they were.
    """

    suffix: str
    """What names of new parts end with."""

    def staging(self) -> Path:
        """Return the local directory for parts that are not yet the store's."""

    def now_s(self) -> float:
        """Return the Unix time by the clock that parts are dated with."""

    def remains(self, named: Collection[str], replaced: Mapping[str, float], now_s: float) -> list[Path]:
        """Return parts neither ``named`` nor to be kept for readers, and unfinished files.

        ``now_s`` is a time at which ``named`` and ``replaced`` were not older: what was put since stays.
        """

    def sweep(self, named: Collection[str], replaced: Mapping[str, float], now_s: float, before_s: float = math.inf) -> list[Path]:
        """Remove what remains and was written before a Unix time; return what is gone."""

    def take(self, staged: Path, names: Collection[str]) -> None:
        """Bring staged parts to where the ledger is about to name them."""

    def noted(self, names: Collection[str], replaced: Mapping[str, float]) -> dict[str, float]:
        """Return what the ledger is to note as replaced.

        It is ``names``, now, and what is still to be kept of ``replaced``.
        """

    def drop(self, names: Iterable[str]) -> None:
        """Remove parts that the ledger has just ceased to name, unless a reader may need them."""

    def reading(self, named: Iterable[str], age_s: float) -> AbstractContextManager[bool]:
        """Keep parts for a reader; yields False where those of a ledger of this age may be gone."""


def place_at(root: Path) -> Place:
    """Return the keeper of the parts below ``root``."""
    return _AtStore(root) if remote.is_remote(root) else _InDirectory(root)


class _InDirectory:
    """Parts in a directory."""

    suffix = ""

    def __init__(self, root: Path) -> None:
        self.root = root

    def staging(self) -> Path:
        (self.root / _READERS).touch()
        return self.root / _STAGING

    def now_s(self) -> float:
        return remote.now_s(self.root)

    def remains(self, named: Collection[str], replaced: Mapping[str, float], now_s: float) -> list[Path]:
        parts = [path for path in self.root.glob("*/day=*/part-*.parquet") if str(path.relative_to(self.root)) not in named]
        return [*parts, *self.root.glob(_STAGING), *self.root.glob(".*.tmp")]

    def sweep(self, named: Collection[str], replaced: Mapping[str, float], now_s: float, before_s: float = math.inf) -> list[Path]:
        shutil.rmtree(self.root / _STAGING, ignore_errors=True)
        remains = [path for path in self.remains(named, replaced, now_s) if path.stat().st_mtime <= before_s]
        self.drop(str(path.relative_to(self.root)) for path in remains if path.suffix == ".parquet")
        for path in remains:
            if path.suffix == ".tmp":
                path.unlink()
        return [path for path in remains if not path.exists()]

    def take(self, staged: Path, names: Collection[str]) -> None:
        folders: set[Path] = set()
        for name in names:
            place = self.root / name
            made_folder(place.parent)
            os.replace(staged / name, place)
            folders.add(place.parent)
        for folder in folders:
            sync(folder)

    def noted(self, names: Collection[str], replaced: Mapping[str, float]) -> dict[str, float]:
        return {}

    def drop(self, names: Iterable[str]) -> None:
        with (self.root / _READERS).open("ab") as file, suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name in names:
                (self.root / name).unlink(missing_ok=True)

    @contextmanager
    def reading(self, named: Iterable[str], age_s: float) -> Iterator[bool]:
        with ExitStack() as held:
            with suppress(FileNotFoundError):  # it exists from the first change on, and only changes remove parts
                file = held.enter_context((self.root / _READERS).open("rb"))
                fcntl.flock(file, fcntl.LOCK_SH)
            yield all((self.root / name).exists() for name in named)


class _AtStore:
    """Parts at an object store. No two have the same name, so that of two writers at once none changes the other's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.suffix = f"-{secrets.token_hex(4)}"

    def staging(self) -> Path:
        scratch = remote.scratch()
        for folder in scratch.iterdir():  # of processes that were killed
            found = _SCRATCH.fullmatch(folder.name)
            if found and not alive(int(found[1])):
                shutil.rmtree(folder, ignore_errors=True)
        return scratch / f"counters.{unfinished('part')}"

    def now_s(self) -> float:
        return remote.now_s(self.root)

    def remains(self, named: Collection[str], replaced: Mapping[str, float], now_s: float) -> list[Path]:
        there = {name: held for name, held in remote.listed(self.root).items() if _PART.fullmatch(name) and name not in named}
        keep = keep_s(self.root)

        def stays(name: str, put_s: float) -> bool:
            return replaced[name] > now_s - keep if name in replaced else put_s > now_s - max(keep, _UNNAMED_S)

        return [self.root / name for name, held in there.items() if not stays(name, held.modified_s)]

    def sweep(self, named: Collection[str], replaced: Mapping[str, float], now_s: float, before_s: float = math.inf) -> list[Path]:
        remains = self.remains(named, replaced, now_s)
        gone = [path for path in remains if before_s == math.inf or remote.modified_s(path) <= before_s]
        remote.remove_each(gone)
        return gone

    def take(self, staged: Path, names: Collection[str]) -> None:
        def put(name: str) -> None:
            remote.put_file(self.root / name, staged / name)
            (staged / name).unlink()

        with ThreadPoolExecutor(_PUTS) as threads:
            list(threads.map(put, names))

    def noted(self, names: Collection[str], replaced: Mapping[str, float]) -> dict[str, float]:
        if not names and not replaced:
            return {}
        now, keep = remote.now_s(self.root), keep_s(self.root)
        return {name: when for name, when in replaced.items() if when > now - keep} | dict.fromkeys(names, now)

    def drop(self, names: Iterable[str]) -> None:
        """Keep them: the ledger notes when they were replaced, and a later change removes them."""

    @contextmanager
    def reading(self, named: Iterable[str], age_s: float) -> Iterator[bool]:
        yield age_s < keep_s(self.root) / 2
