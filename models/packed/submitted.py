"""Read a consumer's raw submissions, or a whole queue, into the arrays that models take.

Of a submission, ``procs`` and ``requested_s`` are whole numbers from 1. The others are optional: ``user`` and, if the
method reads them, ``group`` and ``executable`` are text, null if unknown; ``submit_time`` is a timestamp, the site's
wall clock without a zone; ``elapsed_s`` is the seconds that the job has run, at most its request.

A row of a queue is a job that runs or waits. It has ``procs``, ``requested_s``, ``submit_time`` and ``start_time``,
which is null for a job that waits. Optional are the texts ``job_id``, ``user``, ``queue``, ``account`` and ``reason``
(squeue's word for why a job waits: held jobs are ahead of none), null if unknown, the site's ``priority`` of a job
(null or left out: jobs submitted before stand ahead), the predicted median of the runtime ``predicted_50_s`` (null or
left out: the request), and ``at_time``, the moment of the question (left out: the latest time). Packed unchanged into
registered models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .queue_state import NOT_YET, QueueJobs, by_priority

EARLY = "is of 1970 or before: give the wall clock as a timestamp, not as Unix seconds"
"""Error for such a time if the snapshot is of a later decade."""
_YEAR_S = 365 * 86_400
_YEARS_10_S = 10 * _YEAR_S


def columns(table: pd.DataFrame, optional: Sequence[str], now: pd.Timestamp) -> dict[str, Any]:
    """Return checked submissions as arrays by name: the module's columns, with ``optional``.

    ``submit_time`` becomes ``local_s``: seconds since 1970-01-01 00:00 of the wall clock; ``now`` is that of jobs
    without one. ValueError names row and column.
    """
    arrays: dict[str, Any] = {name: _texts(table, name) for name in optional if name in table}
    arrays["user"] = _texts(table, "user") if "user" in table else np.full(len(table), None, object)
    for name in ("procs", "requested_s"):
        if name not in table:
            raise ValueError(f"column {name} is missing")
        arrays[name] = _numbers(table, name)
        refuse(arrays[name] < 1, table, name, "is below 1")
    arrays["local_s"] = clock_s(table.assign(**({} if "submit_time" in table else {"submit_time": now})), "submit_time")
    arrays["elapsed_s"] = _numbers(table, "elapsed_s") if "elapsed_s" in table else np.zeros(len(table))
    refuse(
        (arrays["elapsed_s"] < 0) | (arrays["elapsed_s"] > arrays["requested_s"]),
        table,
        "elapsed_s",
        "is not between 0 and requested_s",
    )
    return arrays


def clock_s(table: pd.DataFrame, name: str, nullable: bool = False) -> np.ndarray:
    """Return a column of wall clocks as seconds since 1970-01-01 00:00, int64.

    A null, if ``nullable``, is below all others. ValueError names row and column of what is no timestamp.
    """
    times = table[name]
    wrong = times.dtype.kind != "M" or times.dt.tz is not None
    refuse(np.full(len(table), wrong), table, name, "is not a timestamp without a time zone")
    refuse(times.isna().to_numpy() & ~np.bool_(nullable), table, name, "is missing")
    return times.to_numpy("datetime64[s]").astype(np.int64)


def earliest_clock_s(snapshot_unix_s: int) -> int:
    """Return the earliest plausible wall clock, in seconds since 1970-01-01 00:00."""
    return _YEAR_S if snapshot_unix_s > _YEARS_10_S else -(2**62)


def as_unix_s(local_s: np.ndarray, zone: str | None) -> np.ndarray:
    """Return Unix seconds of wall clocks, int64; without a ``zone`` they are of UTC.

    Of the hour repeated in autumn the first counts; a time in the hour skipped in spring becomes the end of that hour.
    """
    if zone in (None, "UTC", "Etc/UTC"):
        return local_s
    clock = pd.DatetimeIndex(local_s.astype("datetime64[s]"))
    unix = clock.tz_localize(zone, ambiguous=np.ones(len(clock), bool), nonexistent="shift_forward").tz_convert(None)
    return unix.to_numpy("datetime64[s]").astype(np.int64)


def _texts(table: pd.DataFrame, name: str) -> np.ndarray:
    values = table[name].tolist()
    refuse(np.array([not (isinstance(value, str) or pd.isna(value)) for value in values], bool), table, name, "is not text")
    return np.array([value if isinstance(value, str) else None for value in values], object)


def _numbers(table: pd.DataFrame, name: str) -> np.ndarray:
    refuse(table[name].isna().to_numpy(), table, name, "is missing")
    refuse(np.full(len(table), table[name].dtype.kind not in "iuf"), table, name, "is not a whole number")
    numbers = table[name].to_numpy(np.float64)
    refuse(numbers != np.floor(numbers), table, name, "is not a whole number")
    return numbers


def refuse(wrong: np.ndarray, table: pd.DataFrame, column: str, why: str) -> None:
    """Raise ValueError for the first row of ``table`` that is ``wrong`` [rows], if any."""
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"row {row} (counted from 0), column {column}: {table[column].iloc[row]} {why} ({int(wrong.sum())} such rows)"
        )


REQUIRED = ("procs", "requested_s", "submit_time", "start_time")
_TEXTS, _MEDIAN, _AT, _PRIORITY = ("job_id", "user", "queue", "account", "reason"), "predicted_50_s", "at_time", "priority"

ASIDE = {
    "never": "DependencyNeverSatisfied",
    "dependency": "Dependency",
    "begin time": "BeginTime",
    "held": "JobHeld|JobHoldMaxRequeue|BadConstraints|.*requeued (in )?held",
    "refused": "(QOS|Account)NotAllowed|Invalid(QOS|Account)|Constraints|Reservation(Deleted|Invalid|.* has ended)",
    "request": r"(QOS|Assoc)?Max\w*Per(Job|Node|Limit)|QOSMin|Partition(Node|Time)Limit|PartitionConfig|(Association|QOS)TimeLimit",
}
"""Beginnings of Slurm's words for jobs that could not start if all others had, by their class; the first that fits
counts."""
_ANY_ASIDE = re.compile("|".join(f"(?:{pattern})" for pattern in ASIDE.values()))


class QueueSnapshot(NamedTuple):
    """A queue at one moment.

    ``jobs`` are in order of submission, in Unix seconds; ``row`` int64 [jobs] are their rows in the consumer's table. ``at_s`` is
    the Unix second of the question, ``local_s`` the same on the wall clock. ``rank`` int64 [jobs] is that of
    :func:`by_priority`.
    """

    jobs: QueueJobs
    row: np.ndarray
    at_s: int
    local_s: int
    rank: np.ndarray


def read_queue(table: pd.DataFrame, procs: int, zone: str | None, earliest_s: int) -> QueueSnapshot:
    """Return a consumer's queue, checked.

    ``procs`` are the machine's processors, ``zone`` is that of its wall clock, on which ``earliest_s`` is the earliest
    plausible time. Jobs submitted in the same second count in the order of rows. ValueError names row and column.
    """
    if absent := [name for name in REQUIRED if name not in table]:
        raise ValueError(f"column {absent[0]} is missing: the model asks for {', '.join(REQUIRED)}")
    table = table[[name for name in (*REQUIRED, *_TEXTS, _MEDIAN, _AT, _PRIORITY) if name in table]]
    arrays = columns(table, _TEXTS, pd.Timestamp(0))
    refuse(arrays["procs"] > procs, table, "procs", f"is more than the machine's {procs}")
    waits = table["start_time"].isna().to_numpy(bool)
    submit, start, at = arrays["local_s"], clock_s(table, "start_time", nullable=True), _moment(table, arrays["local_s"])
    for name, times, present in (("submit_time", submit, True), ("start_time", start, ~waits)):
        refuse(present & (times < earliest_s), table, name, EARLY)
        refuse(present & (times > at), table, name, "is after the question")
    if "job_id" in table:
        refuse((table["job_id"].duplicated() & table["job_id"].notna()).to_numpy(bool), table, "job_id", "appears twice")
    at_s = int(as_unix_s(np.array([at]), zone)[0])
    begun = np.minimum(as_unix_s(np.where(waits, at, start), zone), at_s - 1)  # a job that starts in this second runs
    start = np.where(waits, NOT_YET, begun)
    submit = np.minimum(as_unix_s(submit, zone), start)
    row = np.argsort(submit, kind="stable")
    numbers = (submit, start, np.full(len(table), NOT_YET), arrays["procs"], arrays["requested_s"])
    codes = (pd.factorize(arrays[name])[0] if name in arrays else np.full(len(table), -1) for name in ("user", "queue", "account"))
    jobs = QueueJobs._make(column[row].astype(np.int64) for column in (*numbers, *codes, _medians(table, arrays["requested_s"])))
    priority = table[_PRIORITY].to_numpy(np.float64, na_value=np.nan) if _PRIORITY in table else np.full(len(table), np.nan)
    aside = stand_aside(arrays["reason"]) if "reason" in arrays else np.zeros(len(table), bool)
    return QueueSnapshot(jobs, row, at_s, at, by_priority(priority[row], jobs.submit, aside[row]))


def stand_aside(reasons: Sequence[str | None]) -> np.ndarray:
    """Tell which waiting jobs keep no other job from starting, bool [jobs].

    ``reasons`` are squeue's words for why they wait.
    """
    aside = {word: word is not None and _ANY_ASIDE.match(word.replace("_", " ")) is not None for word in {*reasons}}
    return np.array([aside[word] for word in reasons], bool)


def _moment(table: pd.DataFrame, submit: np.ndarray) -> int:
    """Return the wall clock at the question, which is the same in all rows or, left out, the latest time."""
    if _AT not in table:
        return int(np.concatenate((submit, clock_s(table, "start_time", nullable=True))).max(initial=0))
    at = clock_s(table, _AT)
    refuse(at != at[:1], table, _AT, "differs from the time in the first row")
    return int(at.max(initial=0))


def _medians(table: pd.DataFrame, requested_s: np.ndarray) -> np.ndarray:
    """Return the one quantile of each runtime, whole seconds, float64 [jobs, 1]."""
    if _MEDIAN not in table:
        return requested_s[:, None]
    medians = table[_MEDIAN].to_numpy(np.float64, na_value=np.nan)
    medians = np.where(np.isnan(medians), requested_s, medians)
    refuse((medians < 1) | (medians > requested_s), table, _MEDIAN, "is not between 1 and requested_s")
    return np.rint(medians)[:, None]
