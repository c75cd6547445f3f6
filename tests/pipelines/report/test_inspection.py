"""What inspect says of a trace: facts counted by hand, cleaning, and refusals shown instead of raised."""

from __future__ import annotations

import io
from dataclasses import replace

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


def rows_of(inspection: Inspection, title: str) -> list[list[str]]:
    """Return the rows of the table whose title begins so."""
    (table,) = (table for table in inspection.tables if table.title.startswith(title))
    return [[cell.text for cell in row] for row in table.cells]


def test_the_facts_of_a_small_trace() -> None:
    inspection = inspect_trace(trace())
    facts = dict(inspection.facts)
    assert facts["jobs"] == "4"
    assert [facts[name] for name in ("users", "groups", "queues")] == ["2", "none stated", "2"]
    assert facts["submissions"] == "over 11.0 days: 2024-01-01 01:00:00 to 2024-01-12 01:00:00 (Europe/Berlin)"
    assert facts[""] == "1 listed after a later one (cleaning sorts them)"
    assert facts["request exceeded"].startswith("1 of 3 jobs (33.3%)")
    assert facts["missing or odd"] == "3 of 4 jobs (75.0%) are dropped, 2 values altered"
    assert rows_of(inspection, "Longest times without submissions (1 of over a week)") == [
        ["2024-01-01 01:00:00", "0", "9.0"],
        ["2024-01-10 01:00:00", "777,600", "1.0"],
        ["2024-01-11 01:00:00", "864,000", "1.0"],
    ]
    missing = {name: count for name, count, _ in rows_of(inspection, "Jobs without a value") if count != "4"}
    assert missing == {"wait_s": "1", "procs": "1", "requested_s": "1", "user": "1"}
    quantiles = {row[0]: row[1:] for row in rows_of(inspection, "Distributions")}
    assert quantiles["runtime_s"] == ["4", "40.0", "0", "0", "0", "10", "50", "100", "100"]
    assert quantiles["wait_s"][0] == "3"


def test_cleaning_is_shown_as_cleaning_does_it() -> None:
    for way in MISSING_REQUEST:
        inspection, cleaned = inspect_trace(trace(), missing_request=way), clean(trace(), missing_request=way)
        rows = dict(rows_of(inspection, f"Cleaning, with --missing-request {way}"))
        assert (rows["read"], rows["kept"]) == ("4", f"{len(cleaned.jobs)}")
        expected = {f"{action}: {rule}": f"{count}" for (action, rule), count in cleaned.counts().items()}
        assert {name: count for name, count in rows.items() if ":" in name} == expected
        if way == "runtime":
            assert rows["offered load"] == f"{(4 * 60 + 4 * 50) / (8 * 10 * DAY):.3f}"


@pytest.mark.parametrize(
    ("case", "refusal"),
    [
        (trace(header="", lines=[LINES[2]]), "a.swf: the number of processors is unknown; give --procs N"),
        (trace(lines=[LINES[2]]), "a.swf: no job of 1 is left after cleaning (no-runtime: 1)"),
        (trace(lines=[LINES[1]]), "a.swf: no job states a requested time, so --missing-request drop cannot be applied; "),
    ],
)  # fmt: skip
def test_a_trace_that_cannot_be_cleaned_is_inspected_all_the_same(case: Trace, refusal: str) -> None:
    inspection = inspect_trace(case)
    assert inspection.refused.startswith(refusal)
    assert refusal in shown(inspection).replace("\n", "")
    assert dict(inspection.facts)["jobs"] == f"{len(case.jobs)}"


def test_notes_and_the_header_are_shown() -> None:
    text = shown(inspect_trace(replace(trace(), notes=("Something was odd: 2.",))))
    assert "Something was odd: 2." in text
    assert "UnixStartTime" in text


def test_a_generated_trace_says_so_and_markup_in_a_header_is_harmless() -> None:
    case = trace(header=HEADER + "; Note: [/bold] [red]\n")
    text = shown(inspect_trace(Trace(**{**vars(case), "generated": True})))
    assert "(generated)" in text
    assert "[/bold] [red]" in text
