"""``sacct --json`` says what ``sacct --parsable2`` says. What is read here is made up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from features.errors import InputError
from pipelines.readers.read import read_trace

ZONE = "Europe/Stockholm"
TEXT = """Cluster|JobIDRaw|JobID|User|Account|Partition|QOS|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|AllocCPUS|AllocNodes|ReqTRES|JobName
c|7|7|ann|phys|long|normal|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T11:05:00|3600|120|8|8|2|cpu=8,mem=4G,node=2,gres/gpu:a=2|a, "b" | c
c|8|5_1|bob|bio|long|high|CANCELLED|2026-03-01T10:01:00||2026-03-01T10:02:00|0||4|0|0|billing=4,cpu=4,mem=100M,node=1|x
"""


def plain(value: Any) -> Any:
    """Write a number or a state as Slurm 22.05 does."""
    return value


def newer(value: Any) -> Any:
    """Write a number or a state as Slurm 23.11 does."""
    return [value] if isinstance(value, str) else {"set": value is not None, "infinite": False, "number": value or 0}


def document(rows: Iterable[Mapping[str, str]], zone: str, written: Callable[[Any], Any] = plain) -> str:
    """Write jobs, given by the columns of ``sacct --parsable2``, as ``sacct --json`` writes them."""
    return json.dumps({"jobs": [_job(row, zone, written) for row in rows]})


def _job(row: Mapping[str, str], zone: str, written: Callable[[Any], Any]) -> dict[str, Any]:
    unix = {
        name: int(datetime.fromisoformat(row[name]).replace(tzinfo=ZoneInfo(zone)).timestamp())
        if row.get(name, "")[:1] == "2"
        else 0
        for name in ("Submit", "Eligible", "Start", "End")
    }
    array, _, task = row["JobID"].partition("_")
    tres = []
    for kind, count in (each.split("=") for each in row["ReqTRES"].split(",")):
        kind, _, name = kind.partition("/")
        tres.append({"type": kind, "name": name, "count": int(count.strip("MG")) * (1024 if count.endswith("G") else 1)})
    limit, cpus = row["TimelimitRaw"], int(row.get("AllocCPUS") or 0)
    time = {"submission": unix["Submit"], "eligible": unix["Eligible"], "start": unix["Start"], "end": unix["End"]}
    return {name.lower(): row.get(name, "") for name in ("Cluster", "User", "Account", "Partition", "QOS", "Constraints")} | {
        "job_id": int(row["JobIDRaw"] or array),
        "array": {"job_id": int(array), "task_id": written(int(task)) if task.isdigit() else None, "task": task.strip("[]")}
        if task
        else {},
        "state": {"current": written(row["State"].split(" ")[0])},
        "time": time | {"elapsed": int(row["ElapsedRaw"]), "limit": written(int(limit) if limit else None)},
        "tres": {"requested": tres, "allocated": [{"type": "cpu", "name": "", "count": cpus}] if cpus else []},
        "required": {"CPUs": cpus},  # none where nothing was allocated: what was requested tells
        "allocation_nodes": int(row.get("AllocNodes") or 0),
        "nodes": row.get("NodeList", ""),
        "name": row.get("JobName", ""),
        "priority": int(row.get("Priority") or 0) or None,
        "flags": ["STARTED_ON_BACKFILL"] if row.get("Flags") else [],
        "reservation": {"id": 0, "name": row.get("Reservation") or 0},
        "submit_line": row.get("SubmitLine", ""),
    }


@pytest.mark.parametrize("written", [plain, newer])
def test_json_gives_the_jobs_that_text_gives(written: Callable[[Any], Any], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    names, *rows = (line.split("|", 17) for line in TEXT.splitlines())
    (tmp_path / "a.json").write_text(document([dict(zip(names, row, strict=True)) for row in rows], ZONE, written))
    text, of_json = (read_trace(tmp_path / name, timezone=ZONE) for name in ("a.txt", "a.json"))
    pd.testing.assert_frame_equal(of_json.jobs, text.jobs)
    assert (of_json.origin_unix_s, of_json.timezone, of_json.name) == (text.origin_unix_s, ZONE, "a")
    assert read_trace(tmp_path / "a.json").origin_unix_s == text.origin_unix_s  # its times need no zone


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"jobs": [', r"a.json:1: is not JSON, wrong at column 11; is the file whole\?"),
        ('{"meta": {}}', "a.json: is JSON without a list of jobs, which sacct --json writes"),
        ('{"jobs": [{"job_id": 1}]}', "a.json: job 1 of its list lacks 'time'"),
        (
            '{"jobs": [{}], "errors": [{"error": "Unable to query database"}]}',
            r'a.json: is a partial dump: run sacct again, which reported .*"Unable to query database"',
        ),
        ('{"jobs": []}', "a.json: holds no job, only a header line"),
    ],
)
def test_other_json_is_refused_in_one_line(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError, match=words):
        read_trace(tmp_path / "a.json", timezone=ZONE)
