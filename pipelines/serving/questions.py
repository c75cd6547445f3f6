"""A request's JSON, checked and as arrays."""

from __future__ import annotations

import json
import re
from calendar import timegm
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from features import limits

MOST_JOBS, MOST_LEVELS, LONGEST_TEXT = 10_000, 100, 1_000
"""Max jobs of a request, levels of quantiles, and characters of a text."""
TEXTS = ("user", "group", "executable")
NUMBERS = {"procs": (1, limits.PROCESSORS), "requested_s": (1, limits.SECONDS), "elapsed_s": (0, limits.SECONDS)}
"""Whole numbers of a job: min and max."""
_OF_A_JOB = (*TEXTS, *NUMBERS, "submit_time", "job_id")
_OF_A_REQUEST = ("model", "quantiles")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ZONE = re.compile(r"[T ].*(?:[Zz]|[+-]\d\d(?::?\d\d)?(?::?\d\d)?)\s*$")


class Unanswerable(Exception):
    """A request that cannot be answered: its HTTP status, the field, and one line about it."""

    def __init__(self, why: str, field: str = "", status: int = 422) -> None:
        super().__init__(why)
        self.status, self.field = status, field


@dataclass(frozen=True)
class Questions:
    """The jobs that a request asks about, and the ``quantiles`` that it wants of each.

    ``model`` is empty where the request names none; ``alone`` is a request of one job that is no list. Of the jobs, in order: names,
    whole numbers, ``local_s`` (the site's wall clock, seconds since 1970-01-01 00:00; None: now) and ``job_ids`` as given.
    """

    model: str
    alone: bool
    quantiles: tuple[float, ...]
    names: Mapping[str, Sequence[str | None]]
    numbers: Mapping[str, Sequence[int]]
    local_s: Sequence[int | None]
    job_ids: Sequence[str | int | None]

    def __len__(self) -> int:
        return len(self.local_s)

    def given(self, rows: slice, now_local_s: int, earliest_local_s: int, early: str) -> dict[str, np.ndarray]:
        """Return jobs as a model wants them; what has no time is submitted at ``now_local_s``."""
        local = [now_local_s if each is None else each for each in self.local_s[rows]]
        for place, each in enumerate(local):
            if each < earliest_local_s:
                raise Unanswerable(f"{self._field('submit_time', rows.start + place)} {early}", "submit_time")
        names = {name: np.array(values[rows], object) for name, values in self.names.items()}
        numbers = {name: np.array(self.numbers[name][rows], np.float64) for name in ("procs", "requested_s")}
        return {**names, **numbers, "local_s": np.array(local, np.int64)}

    def _field(self, name: str, row: int) -> str:
        return name if self.alone else f"jobs[{row}].{name}"


def read_questions(body: Mapping[str, Any]) -> Questions:
    """Check a request's JSON; :class:`Unanswerable` names the first field that is wrong."""
    alone = "jobs" not in body
    if alone:
        jobs: list[Any] = [{name: value for name, value in body.items() if name not in _OF_A_REQUEST}]
    else:
        _refuse_unknown(body, ("jobs", *_OF_A_REQUEST), "")
        jobs = body["jobs"]
        if not isinstance(jobs, list) or not 0 < len(jobs) <= MOST_JOBS:
            raise Unanswerable(f"jobs is not a list of 1 to {MOST_JOBS:,} jobs", "jobs")
    names: dict[str, list[str | None]] = {name: [] for name in TEXTS}
    numbers: dict[str, list[int]] = {name: [] for name in NUMBERS}
    local: list[int | None] = []
    job_ids: list[str | int | None] = []
    for row, job in enumerate(jobs):
        before = "" if alone else f"jobs[{row}]."
        if not isinstance(job, dict):
            raise Unanswerable(f"jobs[{row}] is not an object", f"jobs[{row}]")
        _refuse_unknown(job, _OF_A_JOB, before)
        for name in ("user", "procs", "requested_s"):
            if name not in job:
                raise Unanswerable(f"{before}{name} is missing", before + name)
        for name, texts in names.items():
            texts.append(_text(job.get(name), before + name))
        for name, (least, most) in NUMBERS.items():
            numbers[name].append(_whole(job[name], before + name, least, most) if name in job else 0)
        if (elapsed := numbers["elapsed_s"][-1]) > numbers["requested_s"][-1]:
            raise Unanswerable(
                f"{before}elapsed_s: {elapsed:,} is more than requested_s, at which the job is ended", f"{before}elapsed_s"
            )
        local.append(_local_s(job["submit_time"], before + "submit_time") if job.get("submit_time") is not None else None)
        number = job.get("job_id")
        job_ids.append(number if isinstance(number, int) and not isinstance(number, bool) else _text(number, before + "job_id"))
    return Questions(_text(body.get("model"), "model") or "", alone, _levels(body.get("quantiles")), names, numbers, local, job_ids)


def _refuse_unknown(given: Mapping[str, Any], known: Sequence[str], before: str) -> None:
    for name in given:
        if name not in known:
            raise Unanswerable(f"{before}{_shown(name)} is unknown; known: {', '.join(known)}", f"{before}{name}"[:100])


def _shown(value: object) -> str:
    """Return what was given in a few characters of one line."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _text(value: object, field: str) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise Unanswerable(f"{field}: {_shown(value)} is not a text of at most {LONGEST_TEXT:,} characters, nor null", field)
    return value


def _whole(value: object, field: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Unanswerable(f"{field}: {_shown(value)} is not a whole number in {least}..{most:,}", field)
    return value


def _levels(given: object) -> tuple[float, ...]:
    if given is None:
        return ()
    right = isinstance(given, list) and len(given) <= MOST_LEVELS
    if not right or not all(isinstance(level, float) and 0.0 < level < 1.0 for level in given):  # type: ignore[attr-defined]
        raise Unanswerable(f"quantiles: {_shown(given)} is not a list of up to {MOST_LEVELS} numbers between 0 and 1", "quantiles")
    return tuple(given)  # type: ignore[arg-type]


def _local_s(given: object, field: str) -> int:
    """Return a wall clock such as 2026-03-01 09:00:00 in seconds since 1970-01-01 00:00."""
    if not isinstance(given, str) or not _DATE.match(given):
        raise Unanswerable(f"{field}: {_shown(given)} is not a time such as 2026-03-01 09:00:00", field)
    if _ZONE.search(given):
        raise Unanswerable(f"{field}: {_shown(given)} has a time zone: give the wall clock at the site, without one", field)
    try:
        clock = datetime.fromisoformat(given.strip())
    except ValueError as error:
        raise Unanswerable(f"{field}: {_shown(given)} is not a time such as 2026-03-01 09:00:00", field) from error
    if not 1970 <= clock.year <= 2261:
        raise Unanswerable(f"{field}: {_shown(given)} is not of the years 1970 to 2261", field)
    return timegm(clock.timetuple())
