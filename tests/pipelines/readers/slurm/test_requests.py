"""What Slurm's jobs ask for: nodes, memory and GPUs, in the forms that sacct writes."""

from __future__ import annotations

import pandas as pd
import pytest

from features.jobs.schema import Trace
from pipelines.readers.read import read_file
from pipelines.readers.slurm.sacct import parse_sacct
from pipelines.readers.text import Source
from tests.conftest import SHARED, needs_shared
from tests.support.refusals import refusal

LINE = "2024-05-01T10:00:00|00:00:10"


def parse(columns: str, *rows: str) -> Trace:
    text = "\n".join([f"JobID|Submit|Elapsed|{columns}", *(f"{number}|{LINE}|{row}" for number, row in enumerate(rows, start=1))])
    return parse_sacct(Source("sacct.txt", text.encode(), ""), "UTC")


def lists(trace: Trace) -> dict[str, list]:
    return {name: [None if pd.isna(value) else value for value in trace.jobs[name]] for name in ("nodes", "memory_kib", "gpus")}


def test_requested_resources_count_for_the_whole_job() -> None:
    rows = [
        "24|billing=24,cpu=24,mem=1.5G,node=4,gres/gpu=2,gres/gpu:a100=2",
        "1|cpu=1,mem=500,node=1",
        "1|cpu=1,gres/gpu:a=1,gres/gpu:b=2",
        "1|",
    ]
    trace = parse("ReqCPUS|ReqTRES", *rows)
    assert lists(trace) == {
        "nodes": [4, None, None, None],
        "memory_kib": [1536 * 1024, 500 * 1024, None, None],
        "gpus": [2, None, 3, None],
    }
    assert trace.notes == ()


def test_requested_memory_is_of_a_node_a_processor_or_the_job() -> None:
    rows = ["8|2|4Gn", "8|2|1000Mc", "8|2|16G", "8|2|2T", "8|2|0n", "8|2|", "8|1|3Kn"]
    trace = parse("ReqCPUS|ReqNodes|ReqMem", *rows)
    kib = [2 * 4 * 2**20, 8 * 1000 * 1024, 16 * 2**20, 2 * 2**30, None, None, 3]
    assert lists(trace) == {"nodes": [2] * 6 + [None], "memory_kib": kib, "gpus": [None] * 7}


def test_requested_memory_that_cannot_be_read_is_missing_and_counted() -> None:
    trace = parse("ReqCPUS|ReqMem", "1|16?", "1|4G")
    assert lists(trace)["memory_kib"] == [None, 4 * 2**20]
    assert trace.notes == ("Memory requests that cannot be read, such as ReqMem 16?, are taken as missing: 1.",)


def test_allocated_nodes_are_taken_where_none_are_requested() -> None:
    trace = parse("ReqCPUS|NNodes|ReqMem", "8|2|4Gn", "8|1|4Gn")
    assert lists(trace) == {"nodes": [2, None], "memory_kib": [8 * 2**20, 4 * 2**20], "gpus": [None, None]}
    assert trace.notes == (
        "The file states no requested nodes: where a job had several nodes, it is taken to have requested these.",
    )


@pytest.mark.parametrize(
    ("columns", "row", "complaint"),
    [
        ("ReqCPUS|ReqTRES", "1|cpu=1,mem=lots", "ReqTRES 'cpu=1,mem=lots' is not a size of memory such as 16G, 4000Mc or 4Gn"),
        ("ReqCPUS|ReqTRES", "1|4 processors", "ReqTRES '4 processors' is not a list of resources such as cpu=4,mem=16G,node=1"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(columns: str, row: str, complaint: str) -> None:
    assert refusal(parse, columns, row) == f"sacct.txt:2: {complaint}"


@needs_shared
def test_a_real_slurms_jobs_say_what_they_ask_for() -> None:
    jobs = read_file(SHARED / "slurm" / "micro-1.sacct.txt", timezone="UTC").jobs
    assert (len(jobs), jobs["memory_kib"].notna().sum(), jobs["gpus"].notna().sum()) == (244, 244, 27)
    assert (jobs["memory_kib"].max(), jobs["gpus"].max()) == (200_000 * 1024, 4)
