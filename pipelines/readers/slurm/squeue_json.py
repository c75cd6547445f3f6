"""``squeue --json`` as the lines that ``squeue --Format`` prints.

Slurm's data parsers differ by version: a number is plain, or an object ``{"set", "infinite", "number"}``; a state is a word or a
list of words. Times are Unix seconds.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from features.errors import InputError

_COLUMNS = (
    *("JOBID", "STATE", "USER", "PARTITION", "CPUS", "TIME_LIMIT", "SUBMIT_TIME", "START_TIME", "ACCOUNT", "QOS", "TRES_ALLOC"),
    *("PRIORITY", "NODELIST", "REASON", "RESERVATION", "DEPENDENCY", "FEATURES"),
)


def as_lines(text: str, path: str, place: ZoneInfo) -> list[str]:
    """Return the jobs of ``text`` as lines under a header, with times local to ``place``.

    Raises InputError for text that is not what squeue writes.
    """
    try:
        jobs = json.loads(text)["jobs"]
        return ["|".join(_COLUMNS), *("|".join(_cells(job, place)) for job in jobs)]
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: is not whole JSON, as squeue --json writes it") from error
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{path}: is JSON, but not that of squeue --json: {error!r}") from error


def _cells(job: dict[str, Any], place: ZoneInfo) -> list[str]:
    number, state = str(job["job_id"]), job["job_state"]
    array, task, tasks = _number(job.get("array_job_id")), _number(job.get("array_task_id")), job.get("array_task_string")
    if array and (task is not None or tasks):
        most = _number(job.get("array_max_tasks"))
        waiting = "[" + re.sub(r"%\d+$", "", str(tasks)) + (f"%{most}" if most else "") + "]"
        number = f"{array}_{waiting if tasks else task}"
    elif het := _number(job.get("het_job_id")):
        number = f"{het}+{_number(job.get('het_job_offset')) or 0}"
    limit = job.get("time_limit")
    minutes = None if isinstance(limit, dict) and limit.get("infinite") else _number(limit)
    values = [number, state[0] if isinstance(state, list) else state, job.get("user_name"), job.get("partition")]
    values += [_number(job["cpus"]), "UNLIMITED" if minutes is None else 60 * minutes]
    values += [_time(job.get(name), place) for name in ("submit_time", "start_time")]
    values += [job.get(name) for name in ("account", "qos")] + [job.get("tres_alloc_str") or job.get("tres_req_str")]
    values += [_number(job.get("priority"))]
    values += [job.get(name) for name in ("nodes", "state_reason", "resv_name", "dependency", "features")]
    return ["" if value is None else str(value) for value in values]


def _number(value: Any) -> int | None:
    """Return a number of either form, None if it is not set."""
    if isinstance(value, dict):
        return int(value["number"]) if value.get("set", True) and not value.get("infinite") else None
    return None if value is None else int(value)


def _time(value: Any, place: ZoneInfo) -> str:
    second = _number(value)
    return f"{datetime.fromtimestamp(second, place):%Y-%m-%dT%H:%M:%S}" if second else ""
