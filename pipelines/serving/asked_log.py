"""The log of what was asked and answered, as JSON lines.

It is written beside the thread that answers: a file a day (UTC) and 64 MiB, ``asked-2026-03-01.jsonl``, ``asked-2026-03-01.1.jsonl`` and so
on. The queue is bounded: what does not fit is counted, and the count is written where it happened.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from features.errors import InputError, one_line
from pipelines.serving.models import Loaded
from pipelines.serving.questions import TEXTS, Questions
from pipelines.storage.home import local_home

WAITING = 20_000
"""Max answers that wait to be written."""
LARGEST = 64 << 20
"""Bytes after which the next file begins."""
ASKED = "asked"
"""The directory of logs in this machine's home directory."""
_EVERY_S = 1.0
"""Seconds after which what was written is handed to the operating system at the latest."""


def asked_place() -> Path:
    """Return where logs lie that nights judge."""
    return local_home() / ASKED


class Answered(NamedTuple):
    """Answers to the jobs ``rows`` of what was asked.

    ``given`` are the columns that the model was given, ``now_s`` is when.
    """

    loaded: Loaded
    asked: Questions
    rows: slice
    given: Mapping[str, np.ndarray]
    answers: Sequence[Mapping[str, Any]]
    now_s: float


class AskedLog:
    """Appends answers to files in ``directory``; one thread may :meth:`put`."""

    def __init__(self, directory: Path, largest: int = LARGEST, waiting: int = WAITING) -> None:
        """InputError where nothing can be written there."""
        self._directory, self._largest, self._most = directory, largest, waiting
        self._queue: queue.SimpleQueue[Answered | None] = queue.SimpleQueue()
        self._put = self._dropped = 0  # of the thread that answers
        self._taken = self._written = self._told = self._lost = 0  # of the thread that writes
        self._problem = ""
        self._file: TextIO | None = None
        self._day = ""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._open(_day(time.time()))
        except OSError as error:
            raise InputError(f"--log {directory}: {error.strerror}") from error
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def put(self, made: Answered) -> None:
        """Hand over answers, or count them as dropped."""
        count = len(made.answers)
        if self._put - self._taken + count > self._most:
            self._dropped += count
            return
        self._put += count
        self._queue.put(made)

    def state(self) -> dict[str, Any]:
        """Return how many answers were written and how many were not."""
        problem = {"problem": self._problem} if self._problem else {}
        return {"written": self._written, "dropped": self._dropped + self._lost, **problem}

    def close(self, wait_s: float = 5.0) -> None:
        """Write what waits, and end."""
        self._queue.put(None)
        self._thread.join(wait_s)

    def _write(self) -> None:
        over = False
        while not over:
            try:
                item = self._queue.get(timeout=_EVERY_S)
                over = item is None
                if item is not None:
                    self._taken += len(item.answers)
                    self._write_lines(_entries(item))
            except queue.Empty:
                pass
            if (over or self._queue.empty()) and self._file is not None:
                self._tell_dropped()
                self._flush()

    def _write_lines(self, entries: Sequence[Mapping[str, Any]]) -> None:
        try:
            day = _day(entries[0]["asked_s"])
            if self._file is None or day != self._day or self._file.tell() >= self._largest:
                self._open(day)
            assert self._file is not None
            self._file.write("".join(f"{json.dumps(entry, separators=(',', ':'))}\n" for entry in entries))
            self._written += len(entries)
            self._problem = ""
        except OSError as error:  # answers go on without it; the count says so
            self._lost += len(entries)
            self._problem = one_line(f"{self._directory}: {error.strerror or error}", 200)

    def _tell_dropped(self) -> None:
        """Write how many answers are missing here."""
        missing = self._dropped + self._lost
        if missing > self._told and self._file is not None:
            try:
                self._file.write(json.dumps({"dropped": missing - self._told}) + "\n")
                self._told = missing
            except OSError as error:
                self._problem = one_line(f"{self._directory}: {error.strerror or error}", 200)

    def _flush(self) -> None:
        try:
            if self._file is not None:
                self._file.flush()
        except OSError as error:
            self._problem = one_line(f"{self._directory}: {error.strerror or error}", 200)

    def _open(self, day: str) -> None:
        """Open the day's file for appending, the next one if it is full."""
        if self._file is not None:
            self._file.close()
            self._file = None
        number = 0
        while (place := self._directory / _name(day, number)).exists() and place.stat().st_size >= self._largest:
            number += 1
        self._file, self._day = place.open("a", encoding="utf-8"), day


def _name(day: str, number: int) -> str:
    return f"asked-{day}{f'.{number}' if number else ''}.jsonl"


def _day(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).date().isoformat()


def _entries(made: Answered) -> list[dict[str, Any]]:
    """Return the lines of a log: names as the model stores them, Unix times."""
    loaded, asked, rows, given, answers, now_s = made
    origin_s = loaded.predictor.origin_s
    head = {"asked_s": round(now_s, 3), "model": loaded.name, "version": loaded.number}
    names = [name for name in TEXTS if name in given]
    found = []
    for place, answer in enumerate(answers):
        row = rows.start + place
        job = {name: given[name][place] for name in names} | {name: asked.numbers[name][row] for name in asked.numbers}
        job |= {"submit_unix_s": int(given["submit_s"][place]) + origin_s, "job_id": asked.job_ids[row]}
        found.append({**head, **job, **answer})
    return found
