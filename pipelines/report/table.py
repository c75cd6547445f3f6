"""Tables as values, for terminals, pages and Markdown, and words of several pages."""

from __future__ import annotations

import html
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.text import Text

from features.deferred import pd
from features.errors import printable
from sim.metrics.names import METRICS
from sim.metrics.schedule_metrics import nothing_waits
from sim.metrics.verdict import change, interval, number, sentence

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console


class Cell(NamedTuple):
    """A cell with marks, or with lines below its text, each with its tone.

    A tone is "", ``better`` or ``worse``. ``best`` marks the best of its column; ``tip`` explains a heading; ``colour``
    is that of a dot before the text. Only pages show marks other than tone and best.
    """

    text: str
    below: tuple[tuple[str, str], ...] = ()
    best: bool = False
    tip: str = ""
    colour: str = ""

    def lines(self) -> list[str]:
        """Return the text and what is below it, without empty lines below."""
        return [self.text, *(text for text, _ in self.below if text)]


_FOLDED = 12
"""Characters from which words, and headings of narrower figures, are folded on a terminal."""
_BORDER = 2
"""Characters between columns there."""
Row = list[str | Cell]
"""A row under construction."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings, with a title above and a note below.

    The first ``keys`` columns name a row. They and the columns with the headings ``left`` hold words and are aligned to
    the left, others to the right. ``classes`` are the rows' styles on a page, if any.
    """

    title: str
    headings: Sequence[str | Cell]
    rows: Sequence[Sequence[str | Cell]]
    note: str = ""
    keys: int = 1
    left: Sequence[str] = ()
    classes: Sequence[str] = ()

    @classmethod
    def of(cls, title: str, columns: Mapping[str, str], records: Iterable[Mapping[Any, Any]], **options: Any) -> Table:
        """Return one row per record; ``columns`` has formats by heading, such as ``{jobs:,}``."""
        return cls(title, list(columns), [[form.format_map(record) for form in columns.values()] for record in records], **options)

    @property
    def heads(self) -> list[Cell]:
        """Return the headings as cells."""
        return list(map(_cell, self.headings))

    @property
    def cells(self) -> list[list[Cell]]:
        """Return the rows, every cell with its marks."""
        return [list(map(_cell, row)) for row in self.rows]

    def is_left(self, place: int) -> bool:
        """Tell whether the column ``place`` holds words."""
        return place < self.keys or self.heads[place].text in self.left

    def show(self, to: Console | None = None) -> None:
        """Print the table on standard output or ``to``.

        Words are folded at the terminal's width, figures never: a table whose figures need more room is printed wider.
        """
        from rich.box import SIMPLE_HEAD
        from rich.markup import escape
        from rich.table import Table as Grid

        # lines between columns would take a third of a terminal's width
        grid = Grid(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        rows = [[cell.lines() for cell in row] for row in self.cells]
        least = 1
        for place, head in enumerate(self.heads):
            words = self.is_left(place)
            widest = max((len(line) for row in rows for line in row[place]), default=0)
            heading = head.text if words else textwrap.fill(head.text, max(widest, _FOLDED), break_long_words=False)
            narrowest = min(widest, _FOLDED) if words else max(widest, *map(len, heading.splitlines()), 0)
            grid.add_column(escape(heading), justify="left" if words else "right", min_width=narrowest, overflow="fold")
            least += narrowest + _BORDER
        for row in rows:
            grid.add_row(*(escape("\n".join(lines)) for lines in row))
        screen = to or console()
        width = screen.width
        if self.title:
            screen.print(escape(self.title), highlight=False)
        screen.width = max(width, least)
        screen.print(grid, crop=False)
        screen.width = width
        if self.note:
            screen.print(escape(self.note), highlight=False)

    def markdown(self) -> str:
        """Return headings and rows as a table of Markdown, without title and note."""
        lines = [
            [_line(head.text) for head in self.heads],
            ["---" if self.is_left(place) else "---:" for place in range(len(self.headings))],
            *([_marked(cell) for cell in row] for row in self.cells),
        ]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def changed(row: Mapping[Any, Any], tone: str = "", *, sure: bool, best: bool = False) -> Cell:
    """Return a metric's value and, below it, its change and the change's interval.

    ``row`` is one of a comparison; a change that is ``sure`` has a star.
    """
    lines = change(row["relative"]) + "*" * sure, interval(row["low"], row["high"], row.get("coverage"))
    return Cell(number(row["value"], METRICS[row["metric"]].kind), tuple((line, tone) for line in lines), best)


def markdown_of(table: pd.DataFrame, form: str = ".4g", empty: str = "none") -> str:
    """Return a data frame in Markdown, fractions in ``form``; ``empty`` for no rows."""
    if table.empty:
        return empty
    columns = [[escaped(_plain(value, form)) for value in table[name]] for name in table]
    words = [escaped(str(name)) for name, kind in table.dtypes.items() if kind.kind not in "iuf"]
    return Table("", [escaped(str(name)) for name in table], list(zip(*columns, strict=True)), keys=0, left=words).markdown()


def escaped(text: str) -> str:
    """Escape text of data for Markdown: no HTML, links, pictures or code, on one line.

    Bars are escaped by the table that contains the text.
    """
    return html.escape(re.sub(r"([\\`*\[])", r"\\\1", printable(text).replace("\n", " ")), quote=False)


def _plain(value: object, form: str) -> str:
    text = format(value, form) if isinstance(value, float) else str(value)
    return "–" if text in ("nan", "None", "NaT", "<NA>") else text


def _cell(cell: str | Cell) -> Cell:
    return cell if isinstance(cell, Cell) else Cell(cell)


def _marked(cell: Cell) -> str:
    below = [f"**{text}**" if tone else text for text, tone in cell.below if text]
    lines = [f"**{cell.text}**" if cell.best else cell.text, *below]
    return _line("\n".join(lines))


def _line(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<br>")


_UNBOUNDED = 250
"""Width of a file or pipe without ``COLUMNS``."""


class _Console(Console):
    """Standard output on which no text can control the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def console() -> Console:
    """Return standard output with the terminal's width, or ``COLUMNS`` in a file or pipe."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return _Console()
    return _Console(width=_UNBOUNDED)


_UNITS = {"d": 86_400, "h": 3_600, "min": 60}


def not_modelled(machine: str = "") -> str:
    """Return what schedules on one pool, or on a ``machine`` of clusters, leave out."""
    if machine:
        return f"Not modelled: partitions and disk. Jobs run on the clusters of the machine {machine}."
    return (
        "Not modelled: partitions, nodes, memory and GPUs. Jobs run on one pool of processors that are all alike, so waits for anything but "
        "processors do not come up here."
    )


def requests_warning(count: int, jobs: int, baseline: tuple[str, str]) -> str:
    """Return a warning that ``count`` of ``jobs`` have their runtime as requested time."""
    which = f"all {jobs:,} jobs" if count == jobs else f"{count:,} of {jobs:,} jobs ({number(count / jobs, 'share')})"
    knowing = f", and so the baseline {' / '.join(baseline)}," if baseline[1] == "requested" else ""
    return (
        f"The requested time is the runtime: for {which} no request was recorded, and the runtime stands in for it. For these jobs the "
        f"predictor requested{knowing} is clairvoyant, and no predictor can over-predict, as predictions end at the request."
    )


def nothing_waited(comparison: pd.DataFrame, procs: int) -> str:
    """Return a sentence if no job waits in any simulated schedule of the comparison, else ""."""
    simulated = comparison[comparison["predictor"] != ""]
    values = simulated.pivot_table(index=["scheduler", "predictor", "correction"], columns="metric", values="value")
    return sentence(nothing_waits(values.to_dict("records"), procs))


def brief(name: str) -> str:
    """Return a short name for figures: no formula, and a registered model by its trace."""
    return re.sub(r"^registry:runtime-", "registered: ", re.sub(r"^SCORE\(.*?\)-(?=[A-Z])", "SCORE(…)-", name))


def takes_correction(scheduler: str) -> bool:
    """Tell whether predictions can expire under ``scheduler``: not under ``Harm``.

    Only the beginning of the name decides, since tables may have any name.
    """
    return not scheduler.lower().startswith("harm")


def instant(at_s: int, origin_unix_s: int | None) -> str:
    """Return a second of the trace as a date in UTC, or as a number without an origin."""
    if origin_unix_s is None:
        return f"second {at_s:,} of the trace"
    return f"{datetime.fromtimestamp(origin_unix_s + at_s, UTC):%Y-%m-%d %H:%M} UTC"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it, or a dash if it is not finite."""
    unit, size = next((named for named in _UNITS.items() if seconds >= 2 * named[1]), ("s", 1))
    return f"{seconds / size:,.{int(size > 1)}f} {unit}" if np.isfinite(seconds) else "–"
