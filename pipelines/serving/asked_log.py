"""The log of questions and answers, as JSON lines, and how good the answers were.

They are appended to one file per day (UTC), such as ``asked-2026-03-01.jsonl``. They are compared with runtimes and
starts (:mod:`models.runtime.answers`).
"""

import json
from collections.abc import Iterator, Mapping, Set
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from time import time
from typing import Any

import numpy as np
import pandas as pd

from features.errors import InputError, one_line
from features.jobs.cleaning import CleanTrace
from models.packed.start_predictor import CHANCES, QUANTILES
from models.runtime.answers import joined, rows_of, scores
from pipelines.lake.places import local_home, regular

ASKED = "asked"
"""The directory of logs in this machine's home directory."""


def asked_place() -> Path:
    """Return the directory of the logs that nights judge."""
    return local_home() / ASKED


class AskedLog:
    """Appends answers to files in ``directory``.

    The service goes on without the log, as on a full disk.
    """

    def __init__(self, directory: Path) -> None:
        """Raise InputError if nothing can be written there."""
        self._directory = directory
        self._state: dict[str, Any] = {"written": 0, "dropped": 0}
        self._lock = Lock()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file(time()).touch()
        except OSError as error:
            raise InputError(f"--log {directory}: {error.strerror}") from error

    def put(self, entry: Mapping[str, Any]) -> None:
        """Append an answer with its Unix time ``asked_s``; any thread may."""
        with self._lock:
            try:
                with self._file(entry["asked_s"]).open("ab") as file:
                    file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
                self._state["written"] += 1
                self._state.pop("problem", None)
            except (OSError, InputError) as error:
                self._state["dropped"] += 1
                self._state["problem"] = one_line(f"{self._directory}: {getattr(error, 'strerror', None) or error}", 200)

    def state(self) -> dict[str, Any]:
        """Return the numbers of answers that were written and that were not, and the last problem."""
        return dict(self._state)

    def _file(self, unix_s: float) -> Path:
        """Return the file of a day."""
        return regular(self._directory / f"asked-{datetime.fromtimestamp(unix_s, UTC).date().isoformat()}.jsonl")


_ASKED = {"model", "version", "user", "procs", "requested_s", "submit_unix_s", "job_id"}
_OF_RUNTIMES = _ASKED | {"elapsed_s", "predicted_s", "user_known"}
_TOLD = (_ASKED | {"at_unix_s", "fits", *QUANTILES, *CHANCES}) - {"model", "version"}
_OF_STARTS = _ASKED | _TOLD


def answered(clean: CleanTrace, place: Path | None = None) -> dict[str, Any] | None:
    """Judge the answers of ``runtime-<trace>`` in a log, by default the home's.

    Returns the numbers and the quality of answers to submissions, how many were about jobs that ran already, and how
    many lines are unreadable; None without answers.
    """
    entries, unreadable = _entries(place or asked_place(), _OF_RUNTIMES)
    of_model = [
        entry | {"quantiles": entry.get("quantiles") or {}} for entry in entries if entry["model"] == f"runtime-{clean.name}"
    ]
    if not of_model:
        return None
    submissions = [entry for entry in of_model if entry["elapsed_s"] == 0]
    figures = scores(joined(submissions, clean.jobs, clean.origin_unix_s or 0)) if submissions else {}
    counts = {"running": len(of_model) - len(submissions), "unreadable": unreadable}
    return {name: None if value != value else value for name, value in figures.items()} | counts


def start_entry(now_s: float, model: str, version: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a log for an answer about a start.

    ``answer`` has at least the fields that :func:`started` reads.
    """
    return {"asked_s": round(now_s, 3), "model": model, "version": version} | {name: answer[name] for name in sorted(_TOLD)}


def started(model: str, jobs: pd.DataFrame, start_s: np.ndarray, origin_s: int, place: Path | None = None) -> pd.DataFrame:
    """Return the answers about starts of ``model`` in the log, by default the home's.

    Columns are as in the table ``starts``: ``job_id at_s version fits waited_s``, quantiles, chances. Times are seconds
    from ``origin_s`` (Unix). ``waited_s`` is NaN if unknown from the canonical ``jobs``, started at ``start_s`` int64
    [jobs].
    """
    entries, _ = _entries(place or asked_place(), _OF_STARTS)
    of_model = sorted((entry for entry in entries if entry["model"] == model), key=lambda entry: entry["submit_unix_s"])
    table = pd.DataFrame(of_model, columns=sorted(_OF_STARTS))
    at_s, row = table["at_unix_s"].to_numpy(np.float64) - origin_s, np.array(rows_of(of_model, jobs, origin_s), np.int64)
    waited = np.where(row >= 0, start_s[row] - at_s, np.nan) if len(jobs) else np.full(len(row), np.nan)
    return table.assign(at_s=at_s, waited_s=np.where(waited >= 0, waited, np.nan))


def _entries(place: Path, names: Set[str]) -> tuple[list[dict[str, Any]], int]:
    """Return a log's entries with these ``names``, and the number of unreadable lines."""
    entries, unreadable = list[dict[str, Any]](), 0
    for line in _lines(place):
        try:
            entry = json.loads(line)
            if names <= entry.keys():
                entries.append(entry)
            elif not any(kind <= entry.keys() for kind in (_OF_RUNTIMES, _OF_STARTS)):
                unreadable += 1
        except (ValueError, TypeError, AttributeError):
            unreadable += 1
    return entries, unreadable


def _lines(place: Path) -> Iterator[str]:
    for file in sorted(place.glob("asked-*.jsonl")):
        with file.open(encoding="utf-8", errors="replace") as text:
            yield from text
