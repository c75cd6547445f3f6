"""A queue as it stands: what runs and waits, from squeue's text or a site's table."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from features import limits
from features.errors import InputError, shown
from pipelines.ingest.accounting import duration
from pipelines.ingest.localtime import to_unix
from pipelines.ingest.text import text_of

COMMAND = 'squeue --all --array --states=RUNNING,PENDING --format="%i|%T|%u|%P|%C|%l|%V|%S"'
"""Makes the snapshot of a Slurm site."""
COLUMNS = {
    "job_id": ("jobid", "job_id"),
    "state": ("state", "st"),
    "user": ("user",),
    "queue": ("partition", "queue"),
    "procs": ("cpus", "procs"),
    "requested": ("time_limit", "timelimit", "requested_s"),
    "submit": ("submit_time", "submit"),
    "start": ("start_time", "start"),
}
"""What is read, and how its column may be called, in any case."""
RUNNING, WAITING = ("RUNNING", "R"), ("PENDING", "PD", "WAITING", "W")
_NO_TIME = ("", "N/A", "NONE", "UNKNOWN", "NULL")


@dataclass(frozen=True)
class QueueFile:
    """A snapshot of a queue, a row a job, by submission.

    Columns ``job_id runs user queue procs requested_s submit_unix_s start_unix_s``. The start is null of a job that
    waits, whatever the site's scheduler expects. ``left_out`` counts rows of other states.
    """

    jobs: pd.DataFrame
    left_out: int


def read_queue(path: Path, timezone: str | None) -> QueueFile:
    """Read a snapshot of a queue, columns parted by ``|`` or commas under a header.

    Times are the local clock of ``timezone`` (UTC without one). InputError with file, line and what is wrong.
    """
    place = ZoneInfo(timezone or "UTC")
    with text_of(path) as text:
        lines = text.read().decode("utf-8", "replace").splitlines()
    if not lines:
        raise InputError(f"{path}: is empty: {COMMAND} makes a snapshot")
    parted = "|" if "|" in lines[0] else ","
    head = [name.strip().lower() for name in next(csv.reader(lines[:1], delimiter=parted))]
    found = {name: next((head.index(each) for each in known if each in head), None) for name, known in COLUMNS.items()}
    if absent := [name for name, at in found.items() if at is None and name not in ("user", "queue")]:
        raise InputError(f"{path}, line 1: no column {' or '.join(COLUMNS[absent[0]])}: {COMMAND} makes a snapshot")
    rows, left_out = [], 0
    for number, cells in enumerate(csv.reader(lines[1:], delimiter=parted), start=2):
        if not "".join(cells).strip():
            continue
        if len(cells) != len(head):
            raise InputError(f"{path}, line {number}: {len(cells)} columns under a header of {len(head)}")
        given = {name: "" if at is None else cells[at].strip() for name, at in found.items()}
        state = given["state"].upper()
        if state not in (*RUNNING, *WAITING):
            left_out += 1
            continue
        rows.append(_row(given, state in RUNNING, f"{path}, line {number}", place))
    jobs = pd.DataFrame(rows, columns=list(_READ))
    if jobs["job_id"].duplicated().any():
        raise InputError(
            f"{path}: job {jobs['job_id'][jobs['job_id'].duplicated()].iloc[0]} is there twice: --array lists tasks apart"
        )
    return QueueFile(jobs.sort_values("submit_unix_s", kind="stable", ignore_index=True), left_out)


_READ = ("job_id", "runs", "user", "queue", "procs", "requested_s", "submit_unix_s", "start_unix_s")


def _row(given: dict[str, str], runs: bool, where: str, place: ZoneInfo) -> tuple[object, ...]:
    procs = _whole(given["procs"], "processors", limits.PROCESSORS, where)
    asked = given["requested"]
    try:
        seconds = float(asked) if asked.isdigit() else duration(asked)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= limits.SECONDS:
        raise InputError(f"{where}: limit {shown(asked)} is no time such as 2:00:00 or 1-00:00:00")
    submit, start = (_time(given[name], where, name, place) for name in ("submit", "start"))
    if submit is None or (runs and start is None):
        raise InputError(
            f"{where}: job {shown(given['job_id'])} {'runs and has no start' if runs else 'has no time of submission'}"
        )
    return (
        given["job_id"],
        runs,
        given["user"] or None,
        given["queue"] or None,
        procs,
        int(seconds),
        submit,
        start if runs else None,
    )


def _whole(text: str, what: str, most: int, where: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise InputError(f"{where}: {shown(text)} is no number of {what}")
    return int(text)


def _time(text: str, where: str, what: str, place: ZoneInfo) -> int | None:
    if text.upper() in _NO_TIME:
        return None
    moment = pd.to_datetime(text, format="ISO8601", errors="coerce")
    if not isinstance(moment, pd.Timestamp) or moment.tzinfo is not None:
        raise InputError(f"{where}: {what} {shown(text)} is no local time such as 2026-03-01T09:00:00")
    return int(to_unix(np.array([moment], "datetime64[s]"), place).unix_s[0])
