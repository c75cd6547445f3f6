"""Standard output for users: its width, and tables on it.

A cell is never cut: columns that do not fit beside each other go into a further table below.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from features.errors import printable

_UNBOUNDED = 250
_NARROWEST = 8
"""Min characters of a folded column that names its row. It is not folded below the longest word of its heading, either."""

_WORDS = 12
"""Min characters of a folded column of words."""


class _Console(Console):
    """Standard output on which no text can control the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def console() -> Console:
    """Return standard output with the terminal's width, or ``COLUMNS`` in a file or pipe.

    Without ``COLUMNS`` a file or pipe is as wide as a table needs.
    """
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return _Console()
    return _Console(width=_UNBOUNDED)


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    caption: str = "",
    keys: int = 1,
    left: Sequence[str] = (),
    to: Console | None = None,
) -> None:
    """Print text cells under headings, in as many tables as the terminal's width needs.

    The first ``keys`` columns name a row: they are repeated in each of those tables, folded to half of the width if there are
    several. They and the columns ``left``, words, are aligned to the left, the others to the right. Words are folded if that
    saves a further table. ``to`` is standard output by default.
    """
    screen = to or console()
    headings, rows = [printable(heading) for heading in headings], [[printable(cell) for cell in row] for row in rows]
    left = [printable(heading) for heading in left]
    widths = [_width(heading, [row[place] for row in rows]) for place, heading in enumerate(headings)]
    if _framed(widths) + 1 > screen.width:
        of_words = [bool(left) and (place < keys or heading in left) for place, heading in enumerate(headings)]
        least = [min(width, _WORDS) if folds else width for width, folds in zip(widths, of_words, strict=True)]
        narrowed = _folded(widths, least, screen.width)
        widths = narrowed if _framed(narrowed) + 1 <= screen.width else widths
    unwrapped = [max(len(heading), width) for heading, width in zip(headings, widths, strict=True)]
    if _framed(unwrapped) + 1 <= screen.width:
        widths = unwrapped
    names = widths[:keys]
    if _framed(widths) + 1 > screen.width:
        narrowest = [max(_width(heading, []), _NARROWEST) for heading in headings[:keys]]
        widest = max((_framed([width]) for width in widths[keys:]), default=0)
        names = _folded(names, narrowest, min(screen.width // 2, screen.width - widest))
    places = list(_split(widths, names, screen.width))
    for number, shown in enumerate(places):
        table = Table(
            title=escape(title) if number == 0 and title else None,
            caption=escape(caption) if number == len(places) - 1 and caption else None,
            title_justify="left",
            caption_justify="left",
        )
        for place in shown:
            width = names[place] if place < keys else min(widths[place], screen.width - _framed(names) - 4)
            aligned = "left" if place < keys or headings[place] in left else "right"
            table.add_column(escape(headings[place]), min_width=width, max_width=width, overflow="fold", justify=aligned)  # type: ignore[arg-type]
        for row in rows:
            table.add_row(*(escape(row[place]) for place in shown))
        screen.print(table)


def _width(heading: str, cells: Sequence[str]) -> int:
    """Return the number of characters that a column needs.

    It is that of its longest line, or of the longest word of its heading, which may be wrapped.
    """
    lines = [len(line) for cell in cells for line in cell.splitlines()]
    return max([*lines, *(len(word) for word in heading.split()), 1])


def _framed(widths: Sequence[int]) -> int:
    """Return the number of characters of these columns with padding and right borders."""
    return sum(width + 3 for width in widths)


def _folded(widths: Sequence[int], narrowest: Sequence[int], room: int) -> list[int]:
    """Return the widths narrowed until they fit into ``room``, or each to its ``narrowest``.

    The widest is narrowed first.
    """
    narrowed = list(widths)
    while _framed(narrowed) + 1 > room:
        foldable = [place for place, width in enumerate(narrowed) if width > narrowest[place]]
        if not foldable:
            break
        narrowed[max(foldable, key=narrowed.__getitem__)] -= 1
    return narrowed


def _split(widths: Sequence[int], names: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield the columns of each table: those that name a row, and as many others as fit."""
    keys = list(range(len(names)))
    start = _framed(names) + 1
    shown, taken = [*keys], start
    for place in range(len(names), len(widths)):
        wide = _framed([widths[place]])
        if len(shown) > len(keys) and taken + wide > room:
            yield shown
            shown, taken = [*keys], start
        shown.append(place)
        taken += wide
    yield shown
