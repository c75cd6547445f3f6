"""What a service answered, against what the jobs then ran (:mod:`models.runtime.answers`)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from features.errors import InputError, one_line
from features.jobs.cleaning import CleanTrace
from models.runtime.answers import joined, scores
from pipelines.serving.asked_log import asked_place

_READ = ("model", "version", "user", "procs", "requested_s", "elapsed_s", "submit_unix_s", "job_id", "predicted_s", "user_known")


@dataclass(frozen=True)
class Judged:
    """Answers of one model and the jobs they were for.

    ``answers`` has a row an answer to a submission: ``version user_known predicted_s``, the quantiles, ``runtime_s`` and ``requested_s`` of its
    job (NaN where it could not be joined) and ``later`` (submitted after the last submission in the accounting). ``running`` counts answers for jobs
    that had begun, ``dropped`` those that were not logged, ``unreadable`` lines.
    """

    answers: pd.DataFrame
    running: int
    dropped: int
    unreadable: int

    def versions(self) -> list[dict[str, Any]]:
        """Return a row a version, and one of all: how many answers, and how good they were."""
        groups = [(str(name), rows) for name, rows in self.answers.groupby("version", sort=False)]
        return [scores(name, rows) for name, rows in [*groups, *([("all", self.answers)] if len(groups) > 1 else [])]]


def judge(place: Path, clean: CleanTrace, model: str = "") -> Judged:
    """Judge the log at ``place``, a file or a directory of them, by a trace's jobs.

    Of the answers of ``model``, by default the trace's ``runtime-<trace>``; where the log has one model only, of that. InputError for a place
    without a log, and for a log without answers of the model.
    """
    entries, dropped, unreadable = [], 0, 0
    for line in _lines(place):
        try:
            entry = json.loads(line)
            dropped += entry.get("dropped", 0)
            if "dropped" not in entry:
                entries.append({name: entry[name] for name in _READ} | {"quantiles": entry.get("quantiles") or {}})
        except (ValueError, KeyError, TypeError, AttributeError):
            unreadable += 1
    wanted, there = model or f"runtime-{clean.name}", sorted({entry["model"] for entry in entries})
    wanted = there[0] if not model and len(there) == 1 else wanted
    mine = [entry for entry in entries if entry["model"] == wanted]
    if not mine:
        raise InputError(f"{place}: has no answer of {wanted}; there are those of {one_line(', '.join(there) or 'none', 200)}")
    submissions = [entry for entry in mine if entry["elapsed_s"] == 0]
    return Judged(joined(submissions, clean.jobs, clean.origin_unix_s or 0), len(mine) - len(submissions), dropped, unreadable)


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
    return scored | {"running": judged.running, "dropped": judged.dropped, "unreadable": judged.unreadable}


def _lines(place: Path) -> Iterator[str]:
    files = sorted(place.glob("asked-*.jsonl")) if place.is_dir() else [place]
    if not files or not all(file.is_file() for file in files):
        raise InputError(f"{place}: is no log of queuecast serve, nor a directory with files asked-*.jsonl")
    for file in files:
        with file.open(encoding="utf-8", errors="replace") as text:
            yield from text
