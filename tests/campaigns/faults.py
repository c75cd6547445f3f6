"""Let system calls fail, with a full disk, an I/O error or no permission, and hold the registry's lock.

A command whose calls fail ends with a line and not with exit code 0, and leaves the results of before whole (or the new ones, where it
had published them), or it succeeds. Without faults it then ends as if nothing had happened. The patterns: every n-th call that writes,
one call, or every one from a moment on; a lock is given back in time, or never.
"""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.campaigns.counts import Counts
from tests.campaigns.in_scenes import InScenes, Rehearsed, after, rehearsed, restored
from tests.support.scenes import Scene, forked
from tests.support.system_calls import Call, Ended, watched

ATTEMPTS = 200
SHARES = {"run": 0.2, "night": 0.25, "promotion": 0.25, "campaign": 0.12, "ingestion": 0.18}
FAULTS = {
    "ENOSPC": ("write", "open", "mkdir", "rename", "fsync", "truncate", "link"),
    "EIO": ("write", "open", "mkdir", "rename", "fsync", "truncate", "unlink", "rmdir", "link"),
    "EACCES": ("open", "mkdir", "rename", "unlink", "rmdir", "link"),
}
LINE = 400
"""Max characters of the line with which a command that failed ends, its name and prefix included."""


@dataclass(frozen=True)
class Pattern:
    """Which calls fail with ``name``: each ``every``-th of those that can from the ``first`` on, at most ``count`` times."""

    name: str
    first: int
    every: int = 1
    count: int = 1 << 60

    def __str__(self) -> str:
        which = (
            f"call {self.first}"
            if self.count == 1
            else f"every call from {self.first} on"
            if self.every == 1
            else f"every {self.every}th call"
        )
        return f"{self.name} in {which}"

    def answer(self) -> Callable[[Call], int]:
        """Return what decides on a call."""
        can, seen, failed = FAULTS[self.name], 0, 0

        def decide(call: Call) -> int:
            nonlocal seen, failed
            if call.name not in can:
                return 0
            seen += 1
            if seen < self.first or (seen - self.first) % self.every or failed >= self.count:
                return 0
            failed += 1
            return int(getattr(errno, self.name))

        return decide


def _fail(scene: Scene, attempts: int, random_: random.Random, folder: Path, counts: Counts) -> None:
    rehearsal = rehearsed(scene, folder)
    place = rehearsal.place
    names = Counter(call.name for call in rehearsal.calls)
    for pattern in patterns(names, max(attempts, 4), random_):
        restored(rehearsal.first, place)
        failed = watched(lambda: scene.act(place), place, pattern.answer())
        _judge(rehearsal, str(pattern), failed, counts)
    if (place / "home" / "mlflow.db").exists():
        for held_s in (0.5, 60.0):
            restored(rehearsal.first, place)
            with locked(place / "home" / "mlflow.db", held_s):
                failed = watched(partial(_acted, scene, place, 3 if held_s > 2 else 600), place, None)
            case = f"the registry locked for {held_s:g} s"
            if held_s < 2 and failed.code:
                counts.findings.append(f"{scene.name}, {case}: did not wait: {failed.output.strip()[-300:]}")
            _judge(rehearsal, case, failed, counts)


def patterns(names: Counter[str], attempts: int, random_: random.Random) -> list[Pattern]:
    """Return as many patterns as asked, of all kinds in turn, for a command that makes calls of these ``names``."""
    drawn: list[Pattern] = []
    for number in range(attempts):
        name = list(FAULTS)[number % len(FAULTS)]
        calls = sum(names[each] for each in FAULTS[name])
        kind = number // len(FAULTS) % 4
        first = random_.randrange(1, calls + 1)
        if kind == 0:
            drawn.append(Pattern(name, random_.randrange(1, 11), 10))
        elif kind == 1:
            drawn.append(Pattern(name, first))
        else:
            drawn.append(Pattern(name, first, 1, 1))
    return drawn


@contextmanager
def locked(database: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of an SQLite database in another process for so many seconds, or until left."""
    holds = (
        "import select, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('BEGIN EXCLUSIVE')\n"
        "print('held', flush=True)\n"
        "select.select([sys.stdin], [], [], float(sys.argv[2]))\n"
    )
    asked = [sys.executable, "-c", holds, str(database), str(seconds)]
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            yield
        finally:
            holder.kill()


def _acted(scene: Scene, place: Path, wait_s: int) -> int:
    os.environ["QUEUECAST_WAIT_S"] = str(wait_s)
    return scene.act(place)


def _judge(rehearsal: Rehearsed, case: str, failed: Ended, counts: Counts) -> None:
    """Count what became of a command whose calls failed; note what is wrong with it."""
    case = f"{rehearsal.scene.name}, {case}"
    wrong = "it hangs" if failed.hung else _unclear(failed.code, failed.output)
    try:
        outcome = forked(lambda: after(rehearsal.scene, rehearsal.place, rehearsal.before, rehearsal.wanted, failed.code))
    except AssertionError as error:
        wrong, outcome = f"{wrong} {error}", "LOST"
    ended = "succeeded" if failed.code == 0 else "a line"
    counts.add(f"{rehearsal.scene.name}: {ended}, {outcome}", f"{case}: {wrong}" if wrong else None)


def _unclear(code: int, output: str) -> str:
    """Return what is wrong with the end of a command that failed, "" if nothing is."""
    if code == 0:
        return ""
    lines = [line for line in output.splitlines() if line.startswith("queuecast: ")]
    if "Traceback" in output:
        return f"exit code {code} and a traceback: {output.strip()[-300:]}"
    if not lines:
        return f"exit code {code} without a line: {output.strip()[-200:]}"
    if "defect" in lines[-1]:
        return f"called a defect: {lines[-1]}"
    return f"a line of {len(lines[-1])} characters" if len(lines[-1]) > LINE else ""


campaign = InScenes(SHARES, _fail)
