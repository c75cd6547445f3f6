"""What inspect says of a trace: facts counted by hand, cleaning, and refusals shown instead of raised."""

from __future__ import annotations

import io
import json
from dataclasses import asdict

import pytest
from rich.console import Console

from features.jobs.cleaning import clean
from features.jobs.schema import Trace
from features.limits import MISSING_REQUEST
from pipelines.readers.swf import parse_swf
from pipelines.readers.text import Source
from pipelines.report.inspection import Inspection, inspect_trace, render

DAY = 86_400
HEADER = "; MaxProcs: 8\n; UnixStartTime: 1704067200\n; TimeZoneString: Europe/Berlin\n"
LINES = [  # job submit wait run allocated - - procs requested - status user
    "1 0 5 100 4 -1 -1 4 60 -1 1 1 -1 -1 0 -1 -1 -1",
    f"2 {10 * DAY} -1 50 4 -1 -1 -1 -1 -1 1 2 -1 -1 0 -1 -1 -1",
    f"3 {9 * DAY} 5 0 4 -1 -1 4 60 -1 1 2 -1 -1 1 -1 -1 -1",
    f"4 {11 * DAY} 5 10 16 -1 -1 16 60 -1 1 -1 -1 -1 0 -1 -1 -1",
]


def trace(header: str = HEADER, lines: list[str] = LINES) -> Trace:
    return parse_swf(Source("a.swf", (header + "\n".join(lines)).encode(), "ab" * 32))


def shown(inspection: Inspection) -> str:
    console = Console(file=io.StringIO(), width=200, color_system=None)
    render(inspection, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_facts_of_a_small_trace() -> None:
    facts = inspect_trace(trace())
    assert (facts.jobs, facts.procs, facts.out_of_order) == (4, 8, 1)
    assert facts.distinct == {"user": 2, "group": 0, "executable": 0, "queue": 2, "partition": 0}
    assert (facts.first_submit_s, facts.last_submit_s) == (0, 11 * DAY)
    assert (facts.first_local, facts.last_local) == ("2024-01-01 01:00:00", "2024-01-12 01:00:00")
    assert [(gap.from_s, gap.length_s, gap.from_local) for gap in facts.gaps] == [
        (0, 9 * DAY, "2024-01-01 01:00:00"),
        (9 * DAY, DAY, "2024-01-10 01:00:00"),
        (10 * DAY, DAY, "2024-01-11 01:00:00"),
    ]
    assert facts.gaps_over_a_week == 1
    assert {name: number for name, number in facts.missing.items() if 0 < number < 4} == {
        "wait_s": 1,
        "procs": 1,
        "requested_s": 1,
        "user": 1,
    }
    assert (facts.requests_stated, facts.requests_exceeded) == (3, 1)
    runtime = facts.distributions["runtime_s"]
    assert (runtime["count"], runtime["mean"], runtime["q0"], runtime["q50"], runtime["q100"]) == (4, 40.0, 0, 10, 100)
    assert facts.distributions["wait_s"]["count"] == 3


def test_cleaning_is_shown_as_cleaning_does_it() -> None:
    by_way = {way: inspect_trace(trace(), missing_request=way).cleaning for way in MISSING_REQUEST}
    assert {way: cleaning.kept for way, cleaning in by_way.items()} == {"drop": 1, "runtime": 2, "queue-max": 2}
    assert by_way["drop"].dropped == {"no-runtime": 1, "no-request": 1, "wider-than-machine": 1}
    assert by_way["queue-max"].altered == {"procs-from-allocated": 1, "request-from-queue-max": 1, "runtime-cut-to-request": 1}
    assert by_way["runtime"].offered_load == (4 * 60 + 4 * 50) / (8 * 10 * DAY)
    assert inspect_trace(trace(), procs=16).cleaning.kept == 2
    for way, cleaning in by_way.items():
        assert cleaning.kept == len(clean(trace(), missing_request=way).jobs)


@pytest.mark.parametrize(
    ("case", "refusal"),
    [
        (trace(header="", lines=[LINES[2]]), "a.swf: the number of processors is unknown; give --procs N"),
        (trace(lines=[LINES[2]]), "a.swf: no job of 1 is left after cleaning (no-runtime: 1)"),
        (trace(lines=[LINES[1]]), "a.swf: no job states a requested time, so --missing-request drop cannot be applied; "),
    ],
)  # fmt: skip
def test_a_trace_that_cannot_be_cleaned_is_inspected_all_the_same(case: Trace, refusal: str) -> None:
    facts = inspect_trace(case)
    assert (facts.cleaning.refused or "").startswith(refusal)
    assert refusal in shown(facts).replace("\n", "")
    assert facts.jobs == len(case.jobs)


def test_what_is_shown_and_what_is_json_say_the_same() -> None:
    facts = inspect_trace(trace(lines=[line + " 7" for line in LINES]))
    as_json = json.loads(json.dumps(asdict(facts)))
    assert as_json["jobs"] == 4
    assert as_json["cleaning"]["dropped"] == {"no-runtime": 1, "no-request": 1, "wider-than-machine": 1}
    text = shown(facts)
    for part in (
        "2024-01-01 01:00:00 to 2024-01-12 01:00:00 (Europe/Berlin)",
        "1 of 3 jobs (33.3%) ran for longer than they had requested",
        "dropped: wider-than-machine",
        "Job lines of which columns after the 18th are not read: 4.",
        "UnixStartTime",
        "1 of over a week",
    ):
        assert part in text


def test_a_generated_trace_says_so_and_markup_in_a_header_is_harmless() -> None:
    case = trace(header=HEADER + "; Note: [/bold] [red]\n")
    text = shown(inspect_trace(Trace(**{**vars(case), "generated": True})))
    assert "(generated)" in text
    assert "[/bold] [red]" in text
