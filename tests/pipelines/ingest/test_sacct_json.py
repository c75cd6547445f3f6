"""``sacct --json`` says what ``sacct --parsable2`` says. What is read here is made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from features.errors import InputError
from pipelines.ingest.read import read_trace

ZONE = "Europe/Stockholm"
TEXT = """Cluster|JobIDRaw|JobID|User|Account|Partition|QOS|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|AllocCPUS|AllocNodes|ReqTRES|JobName
c|7|7|ann|phys|long|normal|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T11:05:00|3600|120|8|8|2|cpu=8,mem=4G,node=2,gres/gpu:a=2|a, "b" | c
c|8|5_1|bob|bio|long|high|CANCELLED|2026-03-01T10:01:00||2026-03-01T10:02:00|0||4|0|0|cpu=4,mem=100M,node=1|x
"""


def unix(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(ZONE)).timestamp())


def document(number: Callable[[int | None], Any], state: Callable[[str], Any]) -> dict[str, Any]:
    """The two jobs as a version of Slurm writes them."""

    def job(
        row: int, task: int | None, words: str, times: tuple[str, str, str], counts: tuple[Any, ...], **more: Any
    ) -> dict[str, Any]:
        submission, start, end = (unix(text) if text else 0 for text in times)
        limit, elapsed, asked, allocated, nodes = counts
        time = {"submission": submission, "start": start, "end": end, "elapsed": elapsed, "limit": number(limit)}
        tres = {"requested": asked, "allocated": [{"type": "cpu", "name": "", "count": allocated}] if allocated else []}
        array = {"job_id": 5 if task else 0, "task_id": number(task)}
        return {
            "job_id": row,
            "array": array,
            "state": {"current": state(words)},
            "time": time,
            "tres": tres,
            "allocation_nodes": nodes,
            "cluster": "c",
        } | more

    def tres(*counts: tuple[str, str, int]) -> list[dict[str, Any]]:
        return [{"type": kind, "name": name, "count": count} for kind, name, count in counts]

    first = (120, 3600, tres(("cpu", "", 8), ("mem", "", 4096), ("node", "", 2), ("gres", "gpu:a", 2), ("billing", "", 8)), 8, 2)
    second = (None, 0, tres(("cpu", "", 4), ("mem", "", 100), ("node", "", 1)), 0, 0)
    day = "2026-03-01T"
    names = {"partition": "long", "required": {"CPUs": 8}, "name": 'a, "b" | c'}
    return {
        "jobs": [
            job(
                7,
                None,
                "COMPLETED",
                (f"{day}10:00", f"{day}10:05", f"{day}11:05"),
                first,
                user="ann",
                account="phys",
                qos="normal",
                **names,
            ),
            job(
                8,
                1,
                "CANCELLED",
                (f"{day}10:01", "", f"{day}10:02"),
                second,
                user="bob",
                account="bio",
                qos="high",
                partition="long",
                name="x",
            ),
        ]
    }


OLD = document(lambda value: value, lambda word: word)
NEW = document(lambda value: {"set": value is not None, "infinite": False, "number": value or 0}, lambda word: [word])


@pytest.mark.parametrize("document", [OLD, NEW], ids=["22.05", "23.11"])
def test_json_gives_the_jobs_that_text_gives(document: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "a.json").write_text(json.dumps(document))
    text, of_json = (read_trace(tmp_path / name, timezone=ZONE) for name in ("a.txt", "a.json"))
    pd.testing.assert_frame_equal(of_json.jobs, text.jobs)
    assert (of_json.origin_unix_s, of_json.timezone, of_json.name) == (text.origin_unix_s, ZONE, "a")
    assert read_trace(tmp_path / "a.json").origin_unix_s == text.origin_unix_s  # its times need no zone


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"jobs": [', r"a.json:1: is no JSON: "),
        ('{"meta": {}}', "a.json: is JSON without a list of jobs, which sacct --json writes"),
        ('{"jobs": [{"job_id": 1}]}', "a.json: job 1 of its list: KeyError: "),
        ('{"jobs": []}', "a.json: holds no job, only a header line"),
    ],
)
def test_other_json_is_refused_in_one_line(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError, match=words):
        read_trace(tmp_path / "a.json", timezone=ZONE)
