"""Lose power at any call of a command: what was not synced is lost, cut or kept, and directories change in any order.

Every call that changes a file is recorded, with what reached the disk by then: the content of a file when it was synced, the names in
a directory when that was. At a cut the rest is lost as file systems may lose it: content is as of the last sync, empty, cut short or
there; each name made, moved or removed since the directory's last sync is or is not. SQLite's databases, and Dagster's folder, are as
of the cut. Then a reader must see the results of before, or the new ones, whole, load the champion, and do the command again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.campaigns.counts import Counts
from tests.campaigns.in_scenes import InScenes, after, chosen, count, rehearsed, restored, undisturbed
from tests.support.scenes import MODEL, Scene, at_home
from tests.support.system_calls import Call

ATTEMPTS = 200
SHARES = {"run": 0.12, "night": 0.22, "promotion": 0.34, "campaign": 0.14, "ingestion": 0.18}
_FOLDER = 0
"""In place of a file's inode: the name is a directory's."""


@dataclass(frozen=True)
class Change:
    """A name that was made (``old`` is ""), removed (``new`` is "") or moved, and not yet synced."""

    old: str
    new: str
    inode: int

    def touches(self, folder: str) -> bool:
        return any(path and path.rpartition("/")[0] == folder for path in (self.old, self.new))

    def apply(self, names: dict[str, int]) -> None:
        if self.old:
            below = [path for path in names if path.startswith(f"{self.old}/")]
            for path in below:
                inode = names.pop(path)
                if self.new:
                    names[self.new + path.removeprefix(self.old)] = inode
            names.pop(self.old, None)
        if self.new:
            names[self.new] = self.inode


@dataclass
class Disk:
    """What of the files below ``root`` is on the disk, and what is not yet.

    ``names`` are the synced names and their inodes, ``changes`` what came after; ``synced`` and ``last`` are contents by inode: as of the
    last sync, and of files that lost their last name.
    """

    root: Path
    names: dict[str, int] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    synced: dict[int, bytes] = field(default_factory=dict)
    last: dict[int, bytes] = field(default_factory=dict)
    _before: Call | None = None

    def __post_init__(self) -> None:
        for path in sorted(self.root.rglob("*")):
            inode = _inode(str(path))
            self.names[str(path)] = inode
            if inode != _FOLDER:
                self.synced[inode] = path.read_bytes()

    def see(self, call: Call) -> None:
        """Take up a call that is about to happen; the one before has happened."""
        self.settle()
        self._before = call
        self._new = not Path(call.touched).exists()
        for path in (call.path if call.name in ("unlink", "rmdir") else "", call.target):
            if path and Path(path).is_file():
                self.last[_inode(path)] = Path(path).read_bytes()

    def settle(self) -> None:
        """Take up what the call before has done."""
        call, self._before = self._before, None
        if call is None:
            return
        if call.name == "fsync":
            self._sync(call.path)
        elif call.name in ("open", "mkdir", "link") and self._new and Path(call.touched).exists():
            self.changes.append(Change("", call.touched, _inode(call.touched)))
        elif call.name == "rename" and Path(call.target).exists():
            self.changes.append(Change(call.path, call.target, _inode(call.target)))
        elif call.name in ("unlink", "rmdir") and not Path(call.path).exists():
            self.changes.append(Change(call.path, "", _FOLDER))

    def _sync(self, path: str) -> None:
        if not Path(path).is_dir():
            if Path(path).exists():
                self.synced[_inode(path)] = Path(path).read_bytes()
            return
        for change in [change for change in self.changes if change.touches(path)]:
            change.apply(self.names)
            self.changes.remove(change)

    def lost(self, folder: Path, random_: random.Random) -> None:
        """Write to ``folder`` what is there after a loss of power now."""
        self.settle()
        names, contents = dict(self.names), dict(self.last)
        for path in self.root.rglob("*"):
            if path.is_file():
                contents[_inode(str(path))] = path.read_bytes()
        kept = random_.choice((0.0, 0.5, 1.0))
        for change in self.changes:
            if _database(change.new or change.old) or random_.random() < kept:
                change.apply(names)
        folder.mkdir()
        for path in sorted(names):
            place = folder / Path(path).relative_to(self.root)
            if not place.parent.is_dir():
                continue  # the name of its folder is lost
            if names[path] == _FOLDER:
                place.mkdir(exist_ok=True)
            elif place.parent.is_dir():
                now, then = contents.get(names[path], b""), self.synced.get(names[path], b"")
                place.write_bytes(now if _database(path) or now == then else _torn(now, then, random_))


def _inode(path: str) -> int:
    status = Path(path).stat()
    return _FOLDER if Path(path).is_dir() else status.st_ino


def _database(path: str) -> bool:
    return "/home/dagster" in path or ".db" in Path(path).name


def _torn(now: bytes, then: bytes, random_: random.Random) -> bytes:
    return random_.choice((then, b"", now[: random_.randrange(len(now) + 1)], now))


def _lose(scene: Scene, attempts: int, random_: random.Random, folder: Path, counts: Counts) -> None:
    rehearsal, left = rehearsed(scene, folder), folder / "left"
    place, calls = rehearsal.place, rehearsal.calls
    left.mkdir()
    points = chosen(calls, attempts, random_)
    restored(rehearsal.first, place)
    undisturbed(scene, place, _recorded(Disk(place), set(points), left, random_))
    for point in points:
        if not (left / str(point)).exists():
            continue  # the second time made fewer calls
        restored(left / str(point), place)
        call = calls[min(point, len(calls) - 1)]
        case = f"{scene.name}, power lost before call {point}, {call.name} {Path(call.touched).relative_to(place)}"
        count(counts, scene, case, partial(_after, scene, place, rehearsal.before, rehearsal.wanted))


def _recorded(disk: Disk, points: set[int], left: Path, random_: random.Random) -> Callable[[Call], int]:
    number = -1

    def decide(call: Call) -> int:
        nonlocal number
        number += 1
        if number in points:
            disk.lost(left / str(number), random_)
        disk.see(call)
        return 0

    return decide


def _after(scene: Scene, place: Path, before: object, wanted: object) -> str:
    if scene.name in ("run", "night"):
        from models.registry.runtime_registration import load
        from pipelines.storage.registry import tracking

        at_home(place)
        scene.mend(place)
        load(tracking(), MODEL, "champion")
    return after(scene, place, before, wanted)


campaign = InScenes(SHARES, _lose)
