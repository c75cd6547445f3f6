"""No table on a terminal cuts or folds a figure, however narrow the terminal is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pipelines.report.table import Table

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
