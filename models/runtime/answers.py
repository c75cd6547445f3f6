"""Answers given at submission, compared with the jobs' runtimes.

An answer belongs to the job of the same user, processors and request whose number, as its source writes it, was in the
question. A number that was used again is that of the job submitted nearest in time. A submit filter asks before its job
has a number: that answer goes to the nearest job of the same user, processors and request. A job gets at most one such
answer.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.jobs.damage import numbers
from models.runtime.evaluation import accuracy

BEFORE_S, AFTER_S = 5, 60
"""Max seconds by which a job's recorded submission may lie before, and after, that of its answer; with its number a
day."""
_KEYS = ("user", "procs", "requested_s")


def joined(answers: Iterable[Mapping[str, Any]], jobs: pd.DataFrame, origin_s: int) -> pd.DataFrame:
    """Return one row per answer, by time of submission, with its job's runtime and request.

    Reads ``user procs requested_s submit_unix_s job_id version user_known predicted_s quantiles`` (the last: seconds by
    level) of ``answers``. Columns: ``version user_known predicted_s``, ``pLEVEL`` per level, the job's
    ``runtime_s requested_s`` (NaN without a job), ``later`` (submitted after all ``jobs``, a canonical table whose
    second 0 is the Unix time ``origin_s``).
    """
    by_submission, rows = sorted(answers, key=lambda entry: entry["submit_unix_s"]), []
    last = int(jobs["submit_s"].iloc[-1]) + origin_s
    for entry, row in zip(by_submission, rows_of(by_submission, jobs, origin_s), strict=True):
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

    ``answers`` by time of submission, with ``job_id user procs requested_s submit_unix_s``. An array task that
    accounting names differently from the queue (``12_3``) is also the nearest job, and the same job in all its answers.
    """
    submit = jobs["submit_s"].to_numpy(np.int64) + origin_s
    user = jobs["user"].astype(object).where(jobs["user"].notna(), None).tolist()
    requests = list(zip(user, jobs["procs"].tolist(), jobs["requested_s"].tolist(), strict=True))
    called = numbers(jobs)
    by_number, by_id, alike = dict[Any, list[int]](), dict[Any, list[int]](), dict[Any, list[int]]()
    for row, (number, job_id, request) in enumerate(zip(called, jobs["job_id"].tolist(), requests, strict=True)):
        by_number.setdefault((number, request), []).append(row)
        by_id.setdefault((str(job_id), request), []).append(row)
        alike.setdefault(request, []).append(row)
    names, tasks = set(called), dict[Any, int]()
    taken, rows = set[int](), list[int]()
    for entry in answers:
        name, at_s = entry["job_id"], entry["submit_unix_s"]
        request = tuple(entry[key] for key in _KEYS)
        candidates = list[int]()
        if name is not None:
            name = str(name)
            candidates = _near(by_number.get((name, request), []), submit, at_s, DAY_S, DAY_S)
            candidates = candidates or _near(by_id.get((name, request), []), submit, at_s)
        job = (name, at_s, request)
        if job in tasks:
            candidates = [tasks[job]]
        elif not candidates and (name is None or ("_" in name and name not in names)):
            candidates = [row for row in _near(alike.get(request, []), submit, at_s) if row not in taken]
            if candidates and name is not None:
                tasks[job] = candidates[0]
        row = candidates[0] if candidates else -1
        taken.add(row)
        rows.append(row)
    return rows


def _near(rows: list[int], submit: np.ndarray, at_s: int, before_s: int = BEFORE_S, after_s: int = AFTER_S) -> list[int]:
    """Return those of ``rows``, by submission, that were submitted near ``at_s``, nearest first."""
    first = bisect_left(rows, at_s - before_s, key=submit.__getitem__)
    last = bisect_right(rows, at_s + after_s, key=submit.__getitem__)
    return sorted(rows[first:last], key=lambda row: abs(int(submit[row]) - at_s))


def scores(rows: pd.DataFrame) -> dict[str, Any]:
    """Return counts and scores of rows of :func:`joined`; NaN without jobs."""
    judged = rows[rows["runtime_s"].notna()]
    runtime, predicted = judged["runtime_s"].to_numpy(np.float64), judged["predicted_s"].to_numpy(np.float64)
    mean = (lambda values: float(np.mean(values))) if len(judged) else (lambda values: float("nan"))
    figures: dict[str, Any] = {
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
