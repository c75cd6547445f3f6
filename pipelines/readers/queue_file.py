"""Snapshots of a queue, running and waiting jobs, from squeue's text or a site's table."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from features import limits
from features.errors import InputError, shown
from pipelines.readers.delimited import UNBOUNDED, duration
from pipelines.readers.localtime import to_unix
from pipelines.readers.slurm import COMMAND
from pipelines.readers.slurm.as_json import as_lines
from pipelines.readers.slurm.requests import after_of, nodes_and_memory, with_type
from pipelines.readers.slurm.times import count_tasks, tasks_in
from pipelines.readers.text import counted, text_of
from sim.slurm.site import UNLIMITED, Site
from sim.starts.reasons import STANDING_STILL, class_of

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
"""Columns that are read, and their possible titles, in upper or lower case."""
RUNNING, WAITING = ("RUNNING", "R"), ("PENDING", "PD", "WAITING", "W")
_ENDLESS = {*UNBOUNDED, "not_set"}
_NO_TIME = ("", "N/A", "NONE", "UNKNOWN", "NULL")
OF_SLURM = {"account": "account", "qos": "qos", "tres": "tres_alloc", "nodes": "nodelist", "reason": "reason"} | {
    "features": "features",
    "after": "dependency",
}
"""Further columns that simulating a Slurm site forward needs, and squeue's title of each."""
_NAMED, _ARRAY = re.compile(r"\d{8}T\d{6}Z"), re.compile(r"(\d{1,18})(?!\d)(?:_(\d{1,18})(?!\d))?", re.ASCII)
_COMPONENT = re.compile(r"\d+\+\d+", re.ASCII)
_MOST_TASKS = 1_000_000
_DIGITS = 18
_SIZED = r"\d+(\.\d+)?[KMGTPE]?"
_WHOLE_TRES = re.compile(rf"([\w/:.-]+={_SIZED},)*[\w/:.-]+={_SIZED}")
_CUT_WIDTH = 20
"""Width to which squeue's --Format cuts a column, where none is asked for."""
_HELD, _FAR_S, _YEAR_S = "JobHeld", 10 * 365 * 86_400, 365 * 86_400


@dataclass(frozen=True)
class QueueFile:
    """A snapshot of a queue, one row per job, in order of submission.

    Columns ``job_id runs user queue procs requested_s submit_unix_s start_unix_s expected_unix_s``, the texts of
    ``OF_SLURM``, ``reservation``, the one that it asks for, ``throttle``, the tasks of its array that may run at once
    (0: all), and the site's ``priority``, NaN where it is not known. The start is null for a waiting job;
    ``expected_unix_s`` is the start that the site's scheduler expects; ``requested_s`` is UNLIMITED for a job without a
    limit (:func:`limited`). ``left_out`` counts rows of other states; ``absent`` names missing columns that simulating
    a Slurm site forward needs; ``notes`` are texts.
    """

    jobs: pd.DataFrame
    left_out: int
    absent: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_queue(path: Path, timezone: str | None) -> QueueFile:
    """Read a snapshot of a queue, columns under a header, or squeue's JSON.

    Columns are separated by ``|`` or commas. Times are local to ``timezone`` (UTC if None). Raises InputError with
    file, line and what is wrong.
    """
    place = ZoneInfo(timezone or "UTC")
    with text_of(path) as text:
        content = text.read().decode("utf-8-sig", "replace").replace("\r\n", "\n")
    lines = as_lines(content, str(path), place) if content.lstrip().startswith("{") else content.split("\n")
    if lines == [""]:
        raise InputError(f"{path}: is empty: {COMMAND} makes a snapshot")
    parted = "|" if "|" in lines[0] else ","
    head = [name.strip().lower() for name in _cells(lines[0], parted, [])]
    positions = {name: next((head.index(title) for title in titles if title in head), None) for name, titles in COLUMNS.items()}
    texts = {name: head.index(called) for name, called in OF_SLURM.items() if called in head}
    if absent := [name for name, at in positions.items() if at is None and name not in ("user", "queue")]:
        raise InputError(f"{path}, line 1: no column {' or '.join(COLUMNS[absent[0]])}: {COMMAND} makes a snapshot")
    rows, left_out, shared = [], 0, 0
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        cells = _cells(line, parted, head)
        if len(cells) != len(head):
            raise InputError(f"{path}, line {number}: {len(cells)} columns under a header of {len(head)}")
        fields = {name: "" if at is None else cells[at].strip() for name, at in positions.items()}
        state = fields["state"].upper()
        if state not in (*RUNNING, *WAITING):
            left_out += 1
            continue
        where = f"{path}, line {number}"
        row = _row(fields, state in RUNNING, where, place)
        row |= {name: _text(cells[texts[name]]) if name in texts else "" for name in OF_SLURM}
        _refuse_cut(row, where)
        row["reservation"] = _text(cells[head.index("reservation")]) if "reservation" in head else ""
        row["priority"] = _priority(cells[head.index("priority")] if "priority" in head else "", where)
        tasks = _tasks(row, where)
        shared += len(tasks) if len(tasks) > 1 else 0
        rows.extend(tasks)
    jobs = pd.DataFrame(rows, columns=[*_READ, *OF_SLURM, "reservation", "priority", "throttle"])
    if jobs["job_id"].duplicated().any():
        raise InputError(
            f"{path}: job {jobs['job_id'][jobs['job_id'].duplicated()].iloc[0]} appears twice; run squeue with --array so that each task has its own line"
        )
    unsaid = tuple(called for name, called in OF_SLURM.items() if name not in texts)
    notes: list[str] = []
    counted(notes, "Array tasks that share a line are read as jobs of their own", shared)
    components = jobs["job_id"].str.fullmatch(_COMPONENT).to_numpy(bool)
    counted(notes, "Components of heterogeneous jobs are predicted apart, and start together with the last of them", components)
    endless = (jobs["requested_s"] == UNLIMITED).to_numpy(bool)
    counted(notes, "Jobs without a time limit are taken to have their partition's longest, at most a year", endless)
    return QueueFile(jobs.sort_values("submit_unix_s", kind="stable", ignore_index=True), left_out, unsaid, tuple(notes))


def kept_queues(folder: Path) -> dict[int, Path]:
    """Return the snapshots that a site keeps in a folder, by the Unix second in their names.

    Names hold it as ``20260301T090000Z``, in UTC. Raises InputError for an unreadable folder and a name without such a
    time.
    """
    snapshots = dict[int, Path]()
    try:
        files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from error
    for path in files:
        if (second := named_second(path)) is None:
            raise InputError(f"{path}: its name must say when the snapshot was made, by a time such as 20260301T090000Z")
        snapshots[second] = path
    return dict(sorted(snapshots.items()))


def named_second(path: Path) -> int | None:
    """Return the Unix second in a snapshot's name, as ``20260301T090000Z``, or None."""
    match = _NAMED.search(path.name)
    second = pd.to_datetime(match[0] if match else "", format="%Y%m%dT%H%M%SZ", errors="coerce")
    return int(second.timestamp()) if isinstance(second, pd.Timestamp) else None


def is_held(jobs: pd.DataFrame) -> np.ndarray:
    """Tell which jobs of a snapshot are held, or never start, bool [jobs]."""
    return jobs["reason"].map(class_of).isin(STANDING_STILL).to_numpy(bool)


def limited(jobs: pd.DataFrame, site: Site | None) -> pd.DataFrame:
    """Return a snapshot in which all jobs have limits.

    A job without one has the longest of its partitions at a Slurm site, and at most a year.
    """
    partitions = {} if site is None else site.partitions
    longest = [
        max((partitions[name].max_s for name in str(queue).split(",") if name in partitions), default=UNLIMITED)
        for queue in jobs["queue"]
    ]
    return jobs.assign(requested_s=jobs["requested_s"].mask(jobs["requested_s"] == UNLIMITED, np.minimum(longest, _YEAR_S)))


def asked_of(jobs: pd.DataFrame, site: Site) -> pd.DataFrame:
    """Return the requests of a snapshot's jobs to a Slurm site, with the columns of a replay.

    Values that squeue does not give are defaults. If an array waits for its task limit, that limit is the number of its
    running tasks. Raises InputError for a partition that the site does not have.
    """
    accounts = {association.user: association.account for association in reversed(site.associations) if association.user}
    usual = next((name for name, part in site.partitions.items() if part.default), next(iter(site.partitions)))
    numbers = [_ARRAY.match(text) for text in jobs["job_id"]]
    group = [_FAR_S + row if match is None else int(match[1]) for row, match in enumerate(numbers)]
    running, rows = Counter(number for number, runs in zip(group, jobs["runs"], strict=True) if runs), []
    for job, number, match in zip(jobs.to_dict("records"), group, numbers, strict=True):
        task = -1 if match is None or match[2] is None else int(match[2])
        partition, procs = job["queue"] or usual, job["procs"]
        if unknown := set(partition.split(",")) - set(site.partitions):
            raise InputError(
                f"job {job['job_id']} is in the partition {unknown.pop()}, which {site.name} does not name; known: {', '.join(site.partitions)}"
            )
        # since 24.11 a waiting job may name several QOS
        every_qos = [name for name in job["qos"].split(",") if name in site.qos] or [job["qos"] or next(iter(site.qos))]
        every_qos.sort(key=lambda name: -site.qos[name].priority if name in site.qos else 0)
        held = class_of(job["reason"]) in STANDING_STILL
        has_begin_time = job["reason"] == "BeginTime" and not pd.isna(job["expected_unix_s"])
        begins = job["submit_unix_s"] + _FAR_S if held else int(job["expected_unix_s"]) if has_begin_time else -1
        rows.append(
            {
                **{"job_id": job["job_id"], "group": number, "task": task, "submit_s": job["submit_unix_s"]},
                **{"user": job["user"] or "", "account": job["account"] or accounts.get(job["user"], "")},
                **{"partition": partition, "qos": every_qos[0], "other_qos": ",".join(every_qos[1:]), "cpus": procs},
                "het": number if _COMPONENT.fullmatch(job["job_id"]) else -1,
                **{"limit_s": job["requested_s"], "least_limit_s": job["requested_s"], "runtime_s": 0},
                **nodes_and_memory({"reqtres": job["tres"]}, {}, procs, site, partition.partition(",")[0]),
                **{
                    "eligible_s": begins,
                    "held_s": 0 if held else -1,
                    "features": with_type(job["features"], {"reqtres": job["tres"]}, {}, site),
                    "nodes": job["nodes"],
                },
                **{"after": after_of({"dependency": job["after"]}), "cancel_s": -1, "withdrawn_s": -1},
                **{"killed": False, "requeues": False, "nice": 0},
                **{"throttle": _throttle(job, running[number])},
                "reservation": job["reservation"] if isinstance(job.get("reservation"), str) else "",
                **{"exclusive": False, **dict.fromkeys(("licenses", "nodelist", "exclude"), "")},
            }
        )
    return pd.DataFrame(rows)


def queue_at(jobs: pd.DataFrame, now_s: int) -> pd.DataFrame:
    """Return the queue at a Unix second as a snapshot would show it, from accounting.

    ``jobs`` are those of :class:`pipelines.readers.slurm.jobs.SlurmJobs`; ``waits``, bool [jobs], by default those
    submitted, not cancelled, and not started before that second. Facts known only later are left out: a job not yet
    eligible is held, unless it has a reservation, for which it waits, or is a task of an array of which others run:
    then it waits for the limit of its array, whose number the accounting does not have.
    """
    begun, submit, gone = (jobs[name].to_numpy(np.float64) for name in ("start_s", "submit_s", "cancel_s"))
    waits = (submit <= now_s) & ((begun >= now_s) | ~(begun >= 0)) & ~((gone >= 0) & (gone <= now_s))
    runs = (submit <= now_s) & (begun >= 0) & (begun <= now_s) & ~(jobs["end_s"].to_numpy(np.float64) <= now_s) & ~waits
    queued, runs = jobs[runs | waits], runs[runs | waits]
    running = queued["group"].map(queued[runs]["group"].value_counts()).fillna(0)
    later, task = queued["eligible_s"] > now_s, queued["task"] >= 0
    full = ((running >= queued["throttle"]) & (queued["throttle"] > 0)) | (later & task & (running > 0))
    memory = np.where(queued["memory_node"] > 0, queued["memory_node"] * queued["min_nodes"], queued["memory_cpu"] * queued["cpus"])
    requests = zip(memory, queued["min_nodes"], queued["gpus"] * queued["min_nodes"], strict=True)
    texts: dict[str, Any] = {
        "user": queued["user"],
        "queue": queued["partition"],
        "account": queued["account"],
        "qos": queued["qos"],
    }
    texts |= {"tres": [f"mem={mib}M,node={nodes}" + f",gres/gpu={gpus}" * (gpus > 0) for mib, nodes, gpus in requests]}
    texts |= {"nodes": queued["nodes"].where(runs, ""), "features": queued["features"]}
    texts |= {"after": "afterok:" + queued["after"].str.replace(",", ":")}
    reserved = later & (queued["reservation"] != "")
    why = np.select([full, reserved, later], ["JobArrayTaskLimit", "Reservation", _HELD], "")
    texts |= {"reservation": queued["reservation"]}
    times = {"submit_unix_s": queued["submit_s"].clip(upper=now_s), "start_unix_s": queued["start_s"].where(runs)}
    numbers = {"procs": queued["cpus"], "requested_s": queued["limit_s"], "expected_unix_s": None}
    rows = {"job_id": queued["job_id"], "runs": runs, **numbers, **times, **texts, "reason": np.where(runs, "", why)}
    return pd.DataFrame(rows).reset_index(drop=True)


_READ = ("job_id", "runs", "user", "queue", "procs", "requested_s", "submit_unix_s", "start_unix_s", "expected_unix_s")


def _throttle(job: Mapping[Any, Any], running: int) -> int:
    """Return how many tasks of a job's array may run at once, 0 for all."""
    limit = job.get("throttle", 0)
    if not pd.isna(limit) and limit:
        return int(limit)
    return max(running, 1) if job["reason"] == "JobArrayTaskLimit" else 0


def _text(cell: str) -> str:
    return "" if cell.strip().lower() in ("(null)", "n/a", "none") else cell.strip()


def _cells(line: str, parted: str, head: list[str]) -> list[str]:
    """Split one line under a header; features, which may hold a ``|``, stand last.

    Quotes count only between commas, where they leave as many cells as the header has. Users choose names, so a quote
    may open and never close: it never reaches beyond its line.
    """
    if parted == ",":
        csv.field_size_limit(limits.LINE_BYTES)
        cells = next(csv.reader([line]))
        if not head or len(cells) == len(head):
            return cells
    free = parted == "|" and head[-1:] == [OF_SLURM["features"]]
    return line.split(parted, len(head) - 1 if free else -1)


def _refuse_cut(row: Mapping[str, Any], where: str) -> None:
    """Raise InputError for a cell that squeue cut, whose rest would be read as another request."""
    tres = row["tres"]
    cut = {
        "tres": bool(tres) and (not _WHOLE_TRES.fullmatch(tres) or (len(tres) == _CUT_WIDTH and "node=" not in tres)),
        "nodes": row["nodes"].count("[") != row["nodes"].count("]"),
        "after": row["after"].count("(") != row["after"].count(")"),
    }
    for name, field in (("tres", "tres-alloc"), ("nodes", "NodeList"), ("after", "Dependency")):
        if cut[name]:
            raise InputError(
                f"{where}: {OF_SLURM[name]} {shown(row[name])} is cut: ask squeue for its whole width, --Format '{field}:|,...'"
            )


def _tasks(row: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the array tasks of a line such as ``500_[5-40%2]`` as rows, or the row alone.

    ``throttle`` is the number of tasks that may run at once, 0 if the line does not say it.
    """
    shared = tasks_in(row["job_id"])
    if shared is None and "[" not in row["job_id"]:
        return [{**row, "throttle": 0}]
    if shared is None or not shared[1]:
        raise InputError(
            f"{where}: {shown(row['job_id'])} does not name all its tasks; run squeue with --array so that each task has its own line"
        )
    if count_tasks(shared[0]) > _MOST_TASKS:
        raise InputError(f"{where}: {shown(row['job_id'])} is not an array of at most {_MOST_TASKS:,} tasks")
    array, _, rest = row["job_id"].partition("_")
    throttle = re.search(r"%(\d*)", rest)
    most = _whole(throttle[1], "tasks at once", _MOST_TASKS, where) if throttle else 0
    return [{**row, "job_id": f"{array}_{number}", "throttle": most} for numbers in shared[0] for number in numbers]


def _row(fields: dict[str, str], runs: bool, where: str, place: ZoneInfo) -> dict[str, object]:
    procs = _whole(fields["procs"], "processors", limits.PROCESSORS, where)
    requested = fields["requested"]
    try:
        seconds = UNLIMITED if requested.lower() in _ENDLESS else float(requested) if requested.isdecimal() else duration(requested)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= limits.SECONDS and seconds != UNLIMITED:
        raise InputError(f"{where}: limit {shown(requested)} is not a time such as 2:00:00 or 1-00:00:00")
    submit = _time(fields["submit"], where, "submit", place)
    start = _time(fields["start"], where, "start", place, submit)
    if submit is None or (runs and start is None):
        raise InputError(
            f"{where}: job {shown(fields['job_id'])} {'runs and has no start' if runs else 'has no time of submission'}"
        )
    texts = fields["job_id"], runs, fields["user"] or None, fields["queue"] or None
    return dict(zip(_READ, (*texts, procs, int(seconds), submit, start if runs else None, start), strict=True))


def _whole(text: str, what: str, most: int, where: str) -> int:
    if not (text.isdecimal() and len(text) <= _DIGITS and 1 <= int(text) <= most):
        raise InputError(f"{where}: {shown(text)} is not a number of {what}")
    return int(text)


def _priority(text: str, where: str) -> float:
    try:
        number = float(text) if _text(text) else np.nan
    except ValueError:
        number = np.inf
    if np.isinf(number):
        raise InputError(f"{where}: {shown(text)} is not a priority")
    return number


def _time(text: str, where: str, what: str, place: ZoneInfo, not_before_s: int | None = None) -> int | None:
    if text.upper() in _NO_TIME:
        return None
    moment = pd.to_datetime(text, format="ISO8601", errors="coerce")
    if not isinstance(moment, pd.Timestamp) or moment.tzinfo is not None:
        raise InputError(f"{where}: {what} {shown(text)} is not a local time such as 2026-03-01T09:00:00")
    least = None if not_before_s is None else np.array([not_before_s])
    return int(to_unix(np.array([moment], "datetime64[s]"), place, least).unix_s[0])
