"""Tell what hangs from what a busy machine is slow to run.

A wall clock cannot: with ten times as many programs as cores everything takes ten times as long. CPU time alone cannot either: what
waits for ever uses none. Linux says of every thread how long it ran, and how long it was ready while others ran.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

_T = TypeVar("_T")

LOOK_S = 0.5
"""Seconds from one look at the processes to the next."""
SELDOM_S = 4 * LOOK_S
"""The same for those of a place, which are many to find and to look at."""
_IDLE = 0.1
"""Processes that ran or were ready for less than this share of the time since the last look are waiting."""
FOREVER_S = 3600.0
"""Max seconds of a program with processes of its own, which nobody looks at: no machine is so slow."""
GIVEN_S = 900.0
"""Seconds that the processes at work in a place are given for one thing that is waited for."""


class Patience:
    """The ``seconds`` that ``processes`` are given together: in which one ran, or in which all of them waited.

    Time in which one was ready and others ran, or in which it waited for a disk, is not theirs. Where the system does not say
    (no ``schedstat``), all time is taken for theirs.
    """

    def __init__(self, processes: Iterable[int], seconds: float, look_s: float = LOOK_S) -> None:
        self._processes, self._left, self._look_s = processes, seconds, look_s
        self._before, _ = used(processes)
        self._looked = time.monotonic()

    def ready(self, files: Sequence[int | IO[bytes]]) -> list[int | IO[bytes]]:
        """Wait until some of ``files`` can be read; return them, none where the time is up before."""
        while not self.over():
            if readable := select.select(files, [], [], self._look_s)[0]:
                return list(readable)
        return []

    def excuse(self, seconds: float) -> None:
        """Leave out so many seconds just gone, in which the processes were kept waiting."""
        self._looked += seconds

    def over(self) -> bool:
        """Look at the processes, if the last look was a while ago; tell whether their time is up."""
        passed = time.monotonic() - self._looked
        if passed >= self._look_s:
            now, active = used(self._processes)
            ran, ready = (sum(now[path][which] - self._before.get(path, (0, 0))[which] for path in now) / 1e9 for which in (0, 1))
            waits = not active and ran + ready < _IDLE * passed
            # a long time since the last look is one in which this process did not run
            self._left -= min(passed, 2 * self._look_s) if waits else ran
            self._before, self._looked = now, time.monotonic()
        return self._left <= 0


def used(processes: Iterable[int]) -> tuple[dict[Path, tuple[int, int]], bool]:
    """Return for how many nanoseconds each thread ran and was ready, and whether one is ready now or waits for a disk.

    Time in which a thread is ready is told once it runs again.
    """
    times_ns, active = {}, False
    for thread in _threads(processes):
        with suppress(OSError):  # it has ended
            ran, ready, _ = (thread / "schedstat").read_text().split()
            times_ns[thread] = int(ran), int(ready)
            active |= (thread / "stat").read_text().rpartition(")")[2].split()[0] in "RD"
    return times_ns, active


@dataclass(frozen=True)
class At:
    """The processes of each moment, but this one, that work in the directory ``place`` or whose environment names it."""

    place: Path

    def __iter__(self) -> Iterator[int]:
        name = os.fsencode(self.place)
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or is another user's
                if int(process.name) == os.getpid():  # it asks again and again, which is no work
                    continue
                if name in os.fsencode(os.readlink(process / "cwd")) or name in (process / "environ").read_bytes():
                    yield int(process.name)


def wait_until(
    over: Callable[[], _T], place: Path, report: Callable[[], object] = str, *, seconds: float = GIVEN_S, every_s: float = 0.1
) -> _T:
    """Return what ``over`` returns once that is true: it is asked again while the processes at work in ``place`` get on.

    AssertionError, with what ``report`` tells, once they ran for ``seconds`` together, or all of them waited for so long.
    """
    patience, forever = Patience(At(place), seconds, SELDOM_S), time.monotonic() + FOREVER_S
    while not (answer := over()):
        if patience.over() or time.monotonic() > forever:
            raise AssertionError(f"what is waited for hangs: {report()}")
        time.sleep(every_s)
    return answer


def run(
    command: Sequence[str | Path], place: Path, *, cwd: Path | None = None, env: Mapping[str, str] | None = None, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` to its end, as :func:`wait_until` waits for it; ``given`` is what it reads. It is killed where it hangs."""
    with tempfile.TemporaryFile("w+") as read, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        read.write(given)
        read.seek(0)

        def printed() -> list[str]:
            for file in (out, err):
                file.seek(0)
            return [out.read(), err.read()]

        process = subprocess.Popen(command, cwd=cwd or place, env=env, stdin=read, stdout=out, stderr=err)
        try:
            wait_until(lambda: process.poll() is not None, place, lambda: (command, *printed()))
        finally:
            process.kill()
            process.wait()
        return subprocess.CompletedProcess(command, process.returncode, *printed())


def spend(seconds: float, processes: Iterable[int]) -> None:
    """Sleep until ``processes`` had so many seconds: in which one ran, or in which all of them waited."""
    patience = Patience(processes, seconds)
    while not patience.over():
        time.sleep(LOOK_S)


def _threads(processes: Iterable[int]) -> Iterator[Path]:
    for process in processes:
        tasks = Path(f"/proc/{process}/task")
        with suppress(OSError):  # it has ended
            yield from [tasks / number for number in os.listdir(tasks)]


def limit(seconds: float, stop: Callable[..., None]) -> None:
    """Call ``stop`` once this process has run for ``seconds`` more, or has waited for very long."""
    signal.signal(signal.SIGPROF, stop)
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, FOREVER_S)


def unlimited() -> None:
    """Take back what :func:`limit` has set."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
