"""What a service answered, against what the jobs then ran.

An answer belongs to the job whose number was asked with; without one, as submit filters ask before a job has a number, to the job of
the same user, processors and request that was submitted next to it in time, each job to one answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features.errors import InputError, one_line
from features.jobs.cleaning import CleanTrace
from models.runtime.evaluation import accuracy
from pipelines.serving.asked_log import asked_place

BEFORE_S, AFTER_S = 5, 60
"""A job's submission is recorded at most so many seconds before it was asked about, and after."""
_KEYS = ("user", "procs", "requested_s")
_READ = ("model", "version", *_KEYS, "elapsed_s", "submit_unix_s", "job_id", "predicted_s", "user_known")


@dataclass(frozen=True)
class Judged:
    """Answers of one model and the jobs they were for.

    ``answers`` has a row an answer to a submission: ``version user_known predicted_s``, the levels told, ``runtime_s`` and ``requested_s`` of its
    job (NaN where it could not be joined) and ``later`` (submitted after the last submission in the accounting). ``running`` counts answers for jobs
    that had begun, ``dropped`` those that were not logged, ``unreadable`` lines.
    """

    answers: pd.DataFrame
    running: int
    dropped: int
    unreadable: int

    @property
    def joined(self) -> pd.DataFrame:
        return self.answers[self.answers["runtime_s"].notna()]

    def versions(self) -> list[dict[str, Any]]:
        """Return a row a version, and one of all: how many answers, and how good they were."""
        groups = [(str(name), rows) for name, rows in self.answers.groupby("version", sort=False)]
        return [_scores(name, rows) for name, rows in [*groups, *([("all", self.answers)] if len(groups) > 1 else [])]]


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
    return Judged(_joined(submissions, clean), len(mine) - len(submissions), dropped, unreadable)


def answered(clean: CleanTrace) -> dict[str, Any] | None:
    """Judge the home directory's log for a night; None without answers of the trace's model."""
    place = asked_place()
    if not place.is_dir():
        return None
    try:
        judged = judge(place, clean, f"runtime-{clean.name}")
    except InputError:
        return None
    scores = (
        {name: None if value != value else value for name, value in judged.versions()[-1].items()} if len(judged.answers) else {}
    )
    return scores | {"running": judged.running, "dropped": judged.dropped, "unreadable": judged.unreadable}


def _lines(place: Path) -> Iterator[str]:
    files = sorted(place.glob("asked-*.jsonl")) if place.is_dir() else [place]
    if not files or not all(file.is_file() for file in files):
        raise InputError(f"{place}: is no log of queuecast serve, nor a directory with files asked-*.jsonl")
    for file in files:
        with file.open(encoding="utf-8", errors="replace") as text:
            yield from text


def _joined(entries: list[dict[str, Any]], clean: CleanTrace) -> pd.DataFrame:
    jobs, origin_s = clean.jobs, clean.origin_unix_s or 0
    submit = jobs["submit_s"].to_numpy(np.int64) + origin_s
    numbers = {str(number): row for row, number in enumerate(jobs["job_id"].tolist())}
    user = jobs["user"].astype(object).where(jobs["user"].notna(), None).tolist()
    keys = zip(user, jobs["procs"].tolist(), jobs["requested_s"].tolist(), strict=True)
    alike: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(keys):
        alike.setdefault(key, []).append(row)
    taken: set[int] = set()
    found = []
    for entry in sorted(entries, key=lambda entry: entry["submit_unix_s"]):
        if entry["job_id"] is not None:
            row = numbers.get(str(entry["job_id"]), -1)
        else:
            row = _nearest(alike.get(tuple(entry[name] for name in _KEYS), []), submit, entry["submit_unix_s"], taken)
        taken.add(row)
        at = {f"p{level}": seconds for level, seconds in entry["quantiles"].items()}
        found.append(
            {name: entry[name] for name in ("version", "user_known", "predicted_s")}
            | {"runtime_s": np.nan if row < 0 else float(jobs["runtime_s"].iloc[row])}
            | {"requested_s": np.nan if row < 0 else float(jobs["requested_s"].iloc[row])}
            | {"later": bool(row < 0 and entry["submit_unix_s"] > submit[-1])}
            | at
        )
    columns = ["version", "user_known", "predicted_s", "runtime_s", "requested_s", "later"]
    return pd.DataFrame(found) if found else pd.DataFrame(columns=columns)


def _nearest(rows: list[int], submit: np.ndarray, asked_s: int, taken: set[int]) -> int:
    """Return the free job submitted nearest to ``asked_s``, -1 if there is none; ``rows`` by submission."""
    first = int(np.searchsorted(submit[rows], asked_s - BEFORE_S)) if rows else 0
    near = []
    for row in rows[first:]:
        if submit[row] > asked_s + AFTER_S:
            break
        if row not in taken:
            near.append(row)
    return min(near, key=lambda row: abs(int(submit[row]) - asked_s), default=-1)


def _scores(version: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Return counts and scores; NaN over no jobs."""
    known = rows[rows["runtime_s"].notna()]
    runtime, predicted = known["runtime_s"].to_numpy(np.float64), known["predicted_s"].to_numpy(np.float64)
    mean = (lambda values: float(np.mean(values))) if len(known) else (lambda values: float("nan"))
    scores: dict[str, Any] = {
        "version": version,
        "answers": len(rows),
        "judged": len(known),
        "not_joined": len(rows) - len(known) - int(rows["later"].sum()),
        "later": int(rows["later"].sum()),
        "accuracy": mean(accuracy(predicted, runtime)),
        "accuracy_of_requests": mean(accuracy(known["requested_s"].to_numpy(np.float64), runtime)),
        "underpredicted": mean(predicted < runtime),
        "mean_error_s": mean(np.abs(predicted - runtime)),
        "users_known": mean(known["user_known"].to_numpy(bool)),
    }
    told_levels = (name for name in map(str, rows.columns) if name[0] == "p" and name[1:2].isdigit())
    for level in sorted(told_levels, key=lambda name: float(name[1:])):
        told = known[known[level].notna()]
        scores[f"at_most_{level}"] = float((told["runtime_s"] <= told[level]).mean()) if len(told) else float("nan")
    return scores
