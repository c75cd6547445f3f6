"""No table on a terminal cuts a figure, however narrow the terminal is."""

from __future__ import annotations

import io

import pytest
from click.testing import CliRunner
from rich.console import Console

from pipelines.cli import cli
from pipelines.report.terminal import print_table

WIDE = [f"{number:,.4f}" for number in (123456.789, 71.7224, 1234567.25, 0.125)]


def printed(width: int, headings: list[str], rows: list[list[str]], **more) -> str:
    screen = Console(width=width, file=io.StringIO())
    print_table(headings, rows, to=screen, **more)
    return screen.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, 250])
def test_every_cell_is_whole_at_any_width(width):
    headings = ["scheduler", *(f"mean of quantity {number}" for number in range(6))]
    rows = [["EASY-SJBF", *WIDE, "-12.5% [-20.1, -4.0]", "7"], ["EASY", *WIDE, "", "8"]]
    text = printed(width, headings, rows)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for cell in (cell for row in rows for cell in row[1:] if len(cell) < width - 16):
        assert cell in text


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "generated", "--scheduler", "EASY", "--scheduler", "EASY-SJBF", "--predictor", "last2"],
        ["inspect", "generated"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_keep_their_digits(width, arguments):
    done = CliRunner().invoke(cli, arguments, env={"COLUMNS": str(width)})
    assert done.exit_code == 0, done.output
    assert "…" not in done.stdout
    assert max(len(line) for line in done.stdout.splitlines() if "│" in line) <= width
