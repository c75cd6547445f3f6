"""The log of questions and answers, as JSON lines.

A thread of its own appends them to one file per day (UTC), such as ``asked-2026-03-01.jsonl``.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import time
from typing import Any

from features.errors import InputError, one_line
from pipelines.lake.home import local_home
from pipelines.lake.places import regular

ASKED = "asked"
"""The directory of logs in this machine's home directory."""


def asked_place() -> Path:
    """Return the directory of the logs that nights judge."""
    return local_home() / ASKED


class AskedLog:
    """Appends answers to files in ``directory``."""

    def __init__(self, directory: Path) -> None:
        """Raise InputError if nothing can be written there."""
        self._directory = directory
        self._waiting: SimpleQueue[Sequence[Mapping[str, Any]] | None] = SimpleQueue()
        self._state: dict[str, Any] = {"written": 0, "dropped": 0}
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file(time()).touch()
        except OSError as error:
            raise InputError(f"--log {directory}: {error.strerror}") from error
        self._thread = Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def put(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Hand over answers, each with its Unix time ``asked_s``."""
        self._waiting.put(entries)

    def state(self) -> dict[str, Any]:
        """Return the numbers of answers that were written and that were not, and the last problem."""
        return dict(self._state)

    def close(self, wait_s: float = 5.0) -> None:
        """Write the waiting answers, and end the thread."""
        self._waiting.put(None)
        self._thread.join(wait_s)

    def _write(self) -> None:
        while (entries := self._waiting.get()) is not None:
            try:
                with self._file(entries[0]["asked_s"]).open("ab") as file:
                    file.writelines(map(_line, entries))
                self._state["written"] += len(entries)
                self._state.pop("problem", None)
            except (OSError, InputError) as error:  # the service goes on without the log, as on a full disk
                self._state["dropped"] += len(entries)
                self._state["problem"] = one_line(f"{self._directory}: {getattr(error, 'strerror', None) or error}", 200)

    def _file(self, unix_s: float) -> Path:
        """Return the file of a day."""
        return regular(self._directory / f"asked-{datetime.fromtimestamp(unix_s, UTC).date().isoformat()}.jsonl")


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"
