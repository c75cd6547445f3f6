"""Standard output for users: its width, and tables on it."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid
from rich.text import Text

from features.errors import printable

if TYPE_CHECKING:
    from pipelines.report.table import Table

_UNBOUNDED = 250
"""Width of a file or pipe without ``COLUMNS``."""
_FOLDED = 12
"""Characters from which words, and headings of narrower figures, are folded."""
_BORDER = 3
"""Characters of padding and border of a column."""


class _Console(Console):
    """Standard output on which no text can control the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def console() -> Console:
    """Return standard output with the terminal's width, or ``COLUMNS`` in a file or pipe."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return _Console()
    return _Console(width=_UNBOUNDED)


def print_table(table: Table, to: Console | None = None) -> None:
    """Print a table on standard output or ``to``.

    Words are folded at the terminal's width, figures never: a table whose figures need more room is printed wider.
    """
    grid = Grid(
        title=escape(table.title) if table.title else None,
        caption=escape(table.note) if table.note else None,
        title_justify="left",
        caption_justify="left",
    )
    rows = [[cell.lines() for cell in row] for row in table.cells]
    least = 1
    for place, head in enumerate(table.heads):
        words = table.is_left(place)
        widest = max((len(line) for row in rows for line in row[place]), default=0)
        heading = head.text if words else textwrap.fill(head.text, max(widest, _FOLDED), break_long_words=False)
        narrowest = min(widest, _FOLDED) if words else max(widest, *map(len, heading.splitlines()), 0)
        grid.add_column(escape(heading), justify="left" if words else "right", min_width=narrowest, overflow="fold")
        least += narrowest + _BORDER
    for row in rows:
        grid.add_row(*(escape("\n".join(lines)) for lines in row))
    screen = to or console()
    width = screen.width
    screen.width = max(width, least)
    screen.print(grid, crop=False)
    screen.width = width
