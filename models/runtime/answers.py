"""Answers given at submission, compared with the jobs' runtimes.

An answer belongs to the job whose number was in the question. A submit filter asks before its job has a number: that answer goes
to the job of the same user, processors and request submitted nearest in time. A job gets at most one such answer.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from models.runtime.evaluation import accuracy

BEFORE_S, AFTER_S = 5, 60
"""Max seconds by which a job's recorded submission may lie before, and after, that of its answer."""
_KEYS = ("user", "procs", "requested_s")


def joined(answers: Iterable[Mapping[str, Any]], jobs: pd.DataFrame, origin_s: int) -> pd.DataFrame:
    """Return one row per answer, by time of submission, with its job's runtime and request.

    Reads ``user procs requested_s submit_unix_s job_id version user_known predicted_s quantiles`` (the last: seconds by level) of
    ``answers``. Columns: ``version user_known predicted_s``, ``pLEVEL`` per level, the job's ``runtime_s requested_s`` (NaN
    without a job), ``later`` (submitted after all ``jobs``, a canonical table whose second 0 is the Unix time ``origin_s``).
    """
    asked, rows = sorted(answers, key=lambda entry: entry["submit_unix_s"]), []
    last = int(jobs["submit_s"].iloc[-1]) + origin_s
    for entry, row in zip(asked, rows_of(asked, jobs, origin_s), strict=True):
        at = {f"p{level}": seconds for level, seconds in entry["quantiles"].items()}
        rows.append(
            {name: entry[name] for name in ("version", "user_known", "predicted_s")}
            | {"runtime_s": np.nan if row < 0 else float(jobs["runtime_s"].iloc[row])}
            | {"requested_s": np.nan if row < 0 else float(jobs["requested_s"].iloc[row])}
            | {"later": bool(row < 0 and entry["submit_unix_s"] > last)}
            | at
        )
    columns = ["version", "user_known", "predicted_s", "runtime_s", "requested_s", "later"]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)


def rows_of(answers: Iterable[Mapping[str, Any]], jobs: pd.DataFrame, origin_s: int) -> list[int]:
    """Return the row in ``jobs`` of the job that each answer is for, -1 if there is none.

    ``answers`` by time of submission, with ``job_id user procs requested_s submit_unix_s``. An array task that accounting names
    differently from the queue (``12_3``) is also the nearest job, and the same job in all its answers.
    """
    submit = jobs["submit_s"].to_numpy(np.int64) + origin_s
    numbers = {str(number): row for row, number in enumerate(jobs["job_id"].tolist())}
    user = jobs["user"].astype(object).where(jobs["user"].notna(), None).tolist()
    alike: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(user, jobs["procs"].tolist(), jobs["requested_s"].tolist(), strict=True)):
        alike.setdefault(key, []).append(row)
    taken, rows = set[int](), list[int]()
    for entry in answers:
        name = None if entry["job_id"] is None else str(entry["job_id"])
        if name is None or (name not in numbers and "_" in name):
            row = _nearest(alike.get(tuple(entry[key] for key in _KEYS), []), submit, entry["submit_unix_s"], taken)
            numbers |= {} if name is None else {name: row}
        else:
            row = numbers.get(name, -1)
        taken.add(row)
        rows.append(row)
    return rows


def _nearest(rows: list[int], submit: np.ndarray, asked_s: int, taken: set[int]) -> int:
    """Return the free row, of ``rows`` by submission, nearest to ``asked_s``; -1 for none."""
    first = int(np.searchsorted(submit[rows], asked_s - BEFORE_S)) if rows else 0
    near = []
    for row in rows[first:]:
        if submit[row] > asked_s + AFTER_S:
            break
        if row not in taken:
            near.append(row)
    return min(near, key=lambda row: abs(int(submit[row]) - asked_s), default=-1)


def scores(version: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Return counts and scores of rows of :func:`joined`; NaN without jobs."""
    judged = rows[rows["runtime_s"].notna()]
    runtime, predicted = judged["runtime_s"].to_numpy(np.float64), judged["predicted_s"].to_numpy(np.float64)
    mean = (lambda values: float(np.mean(values))) if len(judged) else (lambda values: float("nan"))
    figures: dict[str, Any] = {
        "version": version,
        "answers": len(rows),
        "judged": len(judged),
        "not_joined": len(rows) - len(judged) - int(rows["later"].sum()),
        "later": int(rows["later"].sum()),
        "accuracy": mean(accuracy(predicted, runtime)),
        "accuracy_of_requests": mean(accuracy(judged["requested_s"].to_numpy(np.float64), runtime)),
        "underpredicted": mean(predicted < runtime),
        "mean_error_s": mean(np.abs(predicted - runtime)),
        "users_known": mean(judged["user_known"].to_numpy(bool)),
    }
    told_levels = (name for name in map(str, rows.columns) if name[0] == "p" and name[1:2].isdigit())
    for level in sorted(told_levels, key=lambda name: float(name[1:])):
        answered = judged[judged[level].notna()]
        figures[f"at_most_{level}"] = float((answered["runtime_s"] <= answered[level]).mean()) if len(answered) else float("nan")
    return figures
