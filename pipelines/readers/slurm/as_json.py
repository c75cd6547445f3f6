"""``sacct --json`` and ``squeue --json`` as the columns that both print as text.

Slurm's data parsers differ by version: a number is plain (22.05), or an object ``{"set", "infinite", "number"}``; a
state is a word or a list of words. Times are Unix seconds; a time limit is in minutes.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from features.errors import InputError, one_line, shown
from pipelines.readers.text import Source

_COLUMNS = (
    *("Cluster", "JobIDRaw", "JobID", "User", "Account", "Partition", "QOS", "State", "Submit", "Start", "End", "ElapsedRaw"),
    *("TimelimitRaw", "ReqCPUS", "AllocCPUS", "AllocNodes", "ReqTRES", "NodeList", "JobName"),
)
_LATER = ("Eligible", "Priority", "Constraints", "Flags", "Reservation", "SubmitLine")
"""Columns that are written only if a job has a value: not every version of Slurm has them."""
_DELIMITER = "\x1f"  # no value has it; a comma or a bar is in names
_BETWEEN = re.compile(r"[\x1f\r\n]")
_STARTED = {"STARTED_ON_SUBMIT": "SchedSubmit", "STARTED_ON_SCHEDULE": "SchedMain", "STARTED_ON_BACKFILL": "SchedBackfill"}


_QUEUE = (
    *("JOBID", "STATE", "USER", "PARTITION", "CPUS", "TIME_LIMIT", "SUBMIT_TIME", "START_TIME", "ACCOUNT", "QOS", "TRES_ALLOC"),
    *("PRIORITY", "NODELIST", "REASON", "RESERVATION", "DEPENDENCY", "FEATURES"),
)


def is_json(source: Source) -> bool:
    """Tell whether a file begins like a JSON object."""
    return source.head().lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


def as_table(source: Source) -> Source:
    """Return the same accounting as delimited text, one line for each job.

    Text is returned as it is. Raises InputError for JSON of another kind.
    """
    if not is_json(source):
        return source
    try:
        with source.open() as text:
            document = json.load(text)
    except (ValueError, RecursionError) as error:
        at = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        column = f", wrong at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{source.path}{at}: is not JSON{column}; is the file whole?") from error
    if errors := document.get("errors"):
        raise InputError(f"{source.path}: is a partial dump: run sacct again, which reported {one_line(json.dumps(errors), 160)}")
    jobs = document.get("jobs")
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise InputError(f"{source.path}: is JSON without a list of jobs, which sacct --json writes")
    rows, later = [], []
    for number, job in enumerate(jobs, start=1):
        try:
            rows.append(_row(job))
            later.append(_later(job))
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError, OSError) as error:
            wrong = f"lacks {error.args[0]!r}" if isinstance(error, KeyError) else "has a value of another form than sacct writes"
            raise InputError(f"{source.path}: job {number} of its list {wrong}") from error
    filled = [at for at in range(len(_LATER)) if any(row[at] != "" for row in later)]
    table: list[list[object]] = [[*_COLUMNS, *(_LATER[at] for at in filled)]]
    table += [[*row, *(more[at] for at in filled)] for row, more in zip(rows, later, strict=True)]
    lines = (_DELIMITER.join(_BETWEEN.sub(" ", str(value)) for value in row) for row in table)
    return Source(source.path, "\n".join(lines).encode(errors="replace"), source.sha256)


def _row(job: Mapping[str, Any]) -> list[object]:
    time, tres, array = job["time"], job.get("tres", {}), job.get("array") or {}
    state = job["state"]["current"]
    task = _number(array.get("task_id")) if _number(array.get("job_id")) else ""
    requested, allocated = _tres(tres.get("requested")), _tres(tres.get("allocated"))
    required = _number(job.get("required", {}).get("CPUs"))
    task = f"[{array['task']}]" if task == "" and array.get("task") else task  # of several waiting tasks
    written = f"{_number(array.get('job_id'))}_{task}" if task != "" else job["job_id"]
    nodes = job.get("allocation_nodes")
    return [
        *(job.get("cluster") or "", job["job_id"], written, job.get("user") or job.get("association", {}).get("user") or ""),
        *(job.get("account") or "", job.get("partition") or "", job.get("qos") or ""),
        *(
            " ".join(state[:1]) if isinstance(state, list) else state,
            *(_time(time[name]) for name in ("submission", "start", "end")),
        ),
        *(_number(time["elapsed"]), _number(time.get("limit")), required or requested.get("cpu", ""), allocated.get("cpu", 0)),
        *(_number(nodes), ",".join(f"{name}={count}{'M' * (name == 'mem')}" for name, count in requested.items())),
        *(job.get("nodes") or "", job.get("name") or ""),
    ]


def _later(job: Mapping[str, Any]) -> list[object]:
    """Return the values of :data:`_LATER`."""
    reserved = (job.get("reservation") or {}).get("name")
    return [
        *(_time(job["time"].get("eligible")), _number(job.get("priority")), job.get("constraints") or ""),
        ",".join(_STARTED[flag] for flag in job.get("flags") or () if flag in _STARTED),
        *(reserved if isinstance(reserved, str) else "", job.get("submit_line") or ""),
    ]


def _number(value: object) -> object:
    """Return a whole number, "" if missing or infinite; raise ValueError for other values."""
    if isinstance(value, Mapping):
        value = value["number"] if value.get("set", True) and not value.get("infinite") else None
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise ValueError(f"{shown(value)} is not a whole number")
    return int(value)


def _time(value: object, place: tzinfo = UTC) -> str:
    second = _number(value)
    return datetime.fromtimestamp(second, place).strftime("%Y-%m-%dT%H:%M:%S") if second else ""  # type: ignore[arg-type]


def _tres(counted: object) -> dict[str, object]:
    """Return trackable resources by name, ``gres/gpu`` or ``gres/gpu:a100``."""
    resources: dict[str, object] = {}
    for resource in counted or ():  # type: ignore[attr-defined]
        name = f"{resource['type']}/{resource['name']}" if resource.get("name") else resource["type"]
        if name.split("/")[0] in ("cpu", "mem", "node", "gres"):
            resources[name] = _number(resource["count"])
    return resources


def as_lines(text: str, path: str, place: ZoneInfo) -> list[str]:
    """Return the jobs of ``text`` as lines under a header, with times local to ``place``.

    Raises InputError for text that is not what squeue writes.
    """
    try:
        jobs = json.loads(text)["jobs"]
        return ["|".join(_QUEUE), *("|".join(_queued(job, place)) for job in jobs)]
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: is not whole JSON, as squeue --json writes it") from error
    except (AttributeError, LookupError, OSError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{path}: is JSON, but not that of squeue --json: {error!r}") from error


def _queued(job: dict[str, Any], place: ZoneInfo) -> list[str]:
    number, state = str(job["job_id"]), job["job_state"]
    array, task, tasks = _number(job.get("array_job_id")), _number(job.get("array_task_id")), job.get("array_task_string")
    if array and (task != "" or tasks):
        most = _number(job.get("array_max_tasks"))
        waiting = "[" + re.sub(r"%\d+$", "", str(tasks)) + (f"%{most}" if most else "") + "]"
        number = f"{array}_{waiting if tasks else task}"
    elif het := _number(job.get("het_job_id")):
        number = f"{het}+{_number(job.get('het_job_offset')) or 0}"
    limit = job.get("time_limit")
    minutes = _number(limit)
    values = [number, state[0] if isinstance(state, list) else state, job.get("user_name"), job.get("partition")]
    values += [_number(job["cpus"]), 60 * minutes if isinstance(minutes, int) else "UNLIMITED"]
    values += [_time(job.get(name), place) for name in ("submit_time", "start_time")]
    values += [job.get(name) for name in ("account", "qos")] + [job.get("tres_alloc_str") or job.get("tres_req_str")]
    values += [_number(job.get("priority"))]
    values += [job.get(name) for name in ("nodes", "state_reason", "resv_name", "dependency", "features")]
    return ["" if value is None else str(value) for value in values]
