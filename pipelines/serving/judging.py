"""Compare a service's answers with runtimes and starts (:mod:`models.runtime.answers`)."""

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features.errors import InputError, one_line
from features.jobs.cleaning import CleanTrace
from models.packed.start_predictor import CHANCES, QUANTILES
from models.runtime.answers import joined, rows_of, scores
from pipelines.serving.asked_log import asked_place

_ASKED = {"model", "version", "user", "procs", "requested_s", "submit_unix_s", "job_id"}
_OF_RUNTIMES = _ASKED | {"elapsed_s", "predicted_s", "user_known"}
_TOLD = (_ASKED | {"at_unix_s", "fits", *QUANTILES, *CHANCES}) - {"model", "version"}
_OF_STARTS = _ASKED | _TOLD


@dataclass(frozen=True)
class JudgedAnswers:
    """Answers of one model with their jobs.

    ``answers`` has one row per answer to a submission: ``version user_known predicted_s``, quantiles, the job's ``runtime_s`` and
    ``requested_s`` (NaN if not joined) and ``later`` (submitted after the last submission in accounting). ``running`` counts
    answers for jobs that had begun, ``unreadable`` lines.
    """

    answers: pd.DataFrame
    running: int
    unreadable: int

    def versions(self) -> list[dict[str, Any]]:
        """Return one row per version, and one for all: the number and quality of answers."""
        groups = [(str(name), rows) for name, rows in self.answers.groupby("version", sort=False)]
        return [scores(name, rows) for name, rows in [*groups, *([("all", self.answers)] if len(groups) > 1 else [])]]


def judge(place: Path, clean: CleanTrace, model: str = "") -> JudgedAnswers:
    """Judge the log at ``place``, a file or a directory of files, by a trace's jobs.

    It judges the answers of ``model``. The default is the log's model if there is only one, else ``runtime-<trace>``. Raises
    InputError for a place without a log, and for a log without answers of the model.
    """
    entries, unreadable = _entries(place, _OF_RUNTIMES)
    wanted, named = model or f"runtime-{clean.name}", sorted({entry["model"] for entry in entries})
    wanted = named[0] if not model and len(named) == 1 else wanted
    of_model = [entry | {"quantiles": entry.get("quantiles") or {}} for entry in entries if entry["model"] == wanted]
    if not of_model:
        raise InputError(f"{place}: has no answers of {wanted}, only of {one_line(', '.join(named) or 'none', 200)}")
    submissions = [entry for entry in of_model if entry["elapsed_s"] == 0]
    return JudgedAnswers(joined(submissions, clean.jobs, clean.origin_unix_s or 0), len(of_model) - len(submissions), unreadable)


def answered(clean: CleanTrace) -> dict[str, Any] | None:
    """Judge the home directory's log for a night; None without answers of the trace's model."""
    place = asked_place()
    if not place.is_dir():
        return None
    try:
        judged = judge(place, clean, f"runtime-{clean.name}")
    except InputError:
        return None
    row = judged.versions()[-1] if len(judged.answers) else {}
    scored = {name: None if value != value else value for name, value in row.items()}
    return scored | {"running": judged.running, "unreadable": judged.unreadable}


def start_entry(now_s: float, model: str, version: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a log for an answer about a start.

    ``answer`` has at least the fields that :func:`started` reads.
    """
    return {"asked_s": round(now_s, 3), "model": model, "version": version} | {name: answer[name] for name in sorted(_TOLD)}


def started(model: str, jobs: pd.DataFrame, start_s: np.ndarray, origin_s: int, place: Path | None = None) -> pd.DataFrame:
    """Return the answers about starts of ``model`` in the log, by default the home's.

    Columns are as in the table ``starts``: ``job_id at_s version fits waited_s``, quantiles, chances. Times are seconds from
    ``origin_s`` (Unix). ``waited_s`` is NaN if unknown from the canonical ``jobs``, started at ``start_s`` int64 [jobs].
    """
    place = place or asked_place()
    entries = _entries(place, _OF_STARTS)[0] if any(place.glob("asked-*.jsonl")) else []
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
    files = sorted(place.glob("asked-*.jsonl")) if place.is_dir() else [place]
    if not files or not all(file.is_file() for file in files):
        raise InputError(f"{place}: is not a log of queuecast serve, nor a directory with files asked-*.jsonl")
    for file in files:
        with file.open(encoding="utf-8", errors="replace") as text:
            yield from text
