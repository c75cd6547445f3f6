"""The log of questions and answers, as JSON lines.

A thread of its own writes it, one file per day (UTC) and 64 MiB: ``asked-2026-03-01.jsonl``, ``asked-2026-03-01.1.jsonl`` and so
on. The number of waiting answers is bounded. Answers beyond it are dropped, and their number is written in their place.
"""

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

from features.errors import InputError, one_line
from pipelines.lake.home import local_home
from pipelines.lake.places import regular

WAITING = 20_000
"""Max number of answers that wait to be written."""
LARGEST = 64 << 20
"""Bytes after which the next file begins."""
ASKED = "asked"
"""The directory of logs in this machine's home directory."""
_EVERY_S = 0.2
"""Seconds between two looks at the waiting answers."""


def asked_place() -> Path:
    """Return the directory of the logs that nights judge."""
    return local_home() / ASKED


class AskedLog:
    """Appends answers to files in ``directory``; one thread may :meth:`put`."""

    def __init__(self, directory: Path, largest: int = LARGEST, waiting: int = WAITING) -> None:
        """Raise InputError if nothing can be written there."""
        self._directory, self._largest, self._most = directory, largest, waiting
        self._waiting: deque[Sequence[Mapping[str, Any]]] = deque()
        self._put = self._dropped = 0  # of the thread that answers
        self._taken = self._written = self._lost = self._dropped_written = 0  # of the thread that writes
        self._problem = ""
        self._over = Event()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file(time.time()).touch()
        except OSError as error:
            raise InputError(f"--log {directory}: {error.strerror}") from error
        self._thread = Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def put(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Hand over answers, each with its Unix time ``asked_s``, or count them as dropped."""
        if self._put - self._taken + len(entries) > self._most:
            self._dropped += len(entries)
            return
        self._put += len(entries)
        self._waiting.append(entries)

    def state(self) -> dict[str, Any]:
        """Return the numbers of answers that were written and that were not."""
        problem = {"problem": self._problem} if self._problem else {}
        return {"written": self._written, "dropped": self._dropped + self._lost, **problem}

    def close(self, wait_s: float = 5.0) -> None:
        """Write the waiting answers, and end the thread."""
        self._over.set()
        self._thread.join(wait_s)

    def _write(self) -> None:
        over = False
        while not over:
            over = self._over.wait(_EVERY_S)
            while self._waiting or self._dropped + self._lost > self._dropped_written:
                if not self._append():
                    break

    def _append(self) -> bool:
        """Write waiting answers until a file is full; return False if that failed."""
        before, missing = self._taken, self._dropped + self._lost
        try:
            with self._file(self._waiting[0][0]["asked_s"] if self._waiting else time.time()).open("ab") as file:
                while self._waiting and file.tell() < self._largest:
                    entries = self._waiting.popleft()
                    self._taken += len(entries)
                    file.writelines(map(_line, entries))
                if missing > self._dropped_written:
                    file.write(_line({"dropped": missing - self._dropped_written}))
        except (OSError, InputError) as error:  # the service continues without the log, and counts the lost answers
            if self._taken == before and self._waiting:  # the file could not be opened
                self._taken += len(self._waiting.popleft())
            self._lost += self._taken - before
            self._problem = one_line(f"{self._directory}: {getattr(error, 'strerror', None) or error}", 200)
            return False
        self._written += self._taken - before
        self._dropped_written, self._problem = missing, ""
        return True

    def _file(self, unix_s: float) -> Path:
        """Return the file of a day, the next one if it is full."""
        day, number = datetime.fromtimestamp(unix_s, UTC).date().isoformat(), 0
        while (place := self._directory / f"asked-{day}{f'.{number}' if number else ''}.jsonl").exists():
            if place.stat().st_size < self._largest:
                break
            number += 1
        return regular(place)


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"
