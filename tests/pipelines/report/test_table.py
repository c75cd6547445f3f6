"""One table is the same on a terminal of any width, on a page and in Markdown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pipelines.report.page import Front, render
from pipelines.report.table import Cell, Table

TABLE = Table(
    "waits",
    ["policy", Cell("wait, s", tip="mean_wait_s"), "why"],
    [
        [Cell("EASY", colour="#123456"), "12", "a|b"],
        ["SJBF", Cell("9", (("−25 %", "better"), ("", "better"), ("[1, 2]", "")), best=True), "<b>"],
    ],
    "of all jobs",
    left=["why"],
    classes=["baseline", ""],
)


def printed(table: Table) -> str:
    screen = Console(width=80, file=io.StringIO())
    table.show(screen)
    return screen.file.getvalue()  # type: ignore[attr-defined]


def on_page(table: Table) -> str:
    return render(Front("a page", [], table, ""), [])


def test_all_three_show_every_cell_and_only_the_asked_lines() -> None:
    for shown in (printed(TABLE), on_page(TABLE), TABLE.markdown()):
        assert all(text in shown for text in ("policy", "wait, s", "EASY", "SJBF", "12", "9", "−25 %", "[1, 2]"))
    assert "waits" in printed(TABLE)
    assert "of all jobs" in printed(TABLE)


def test_a_page_has_marks_and_no_markup_of_the_data() -> None:
    page = on_page(TABLE)
    assert '<th title="mean_wait_s">wait, s</th><th class="text">why</th>' in page
    assert (
        '<tr class="baseline"><th><span class="dot" style="background:#123456"></span>EASY</th><td data-label="wait, s"><div>12</div></td>'
        in page
    )
    assert (
        'SJBF</th><td data-label="wait, s"><div><span class="best">9</span><small class="better">−25 %</small><small>[1, 2]' in page
    )
    assert "&lt;b&gt;" in page
    assert "Of all jobs." in page


WIDE = [f"{number:,.4f}" for number in (123456.789, 71.7224, 1234567.25, 0.125)]


@pytest.mark.parametrize("width", [30, 80, 250])
def test_every_figure_is_whole_at_any_width(width: int) -> None:
    headings = ["scheduler", *(f"mean of quantity {number}" for number in range(6))]
    rows = [["EASY-SJBF", *WIDE, "-12.5% [-20.1, -4.0]", "71"], ["EASY", *WIDE, "", "8"]]
    screen = Console(width=width, file=io.StringIO())
    Table("", headings, rows).show(screen)
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    for cell in (cell for row in rows for cell in row[1:]):
        assert cell in text
