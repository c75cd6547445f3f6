"""Keep the tables of a page that matter, and all its cells as one CSV beside it.

A page of figures shows about ten rows of each table; all of them stay readable. :func:`cells` gives one row for each
cell, with values as on the page, and :func:`shortened` takes tables out of the text. To have one table back::

    rows = pd.read_csv("okcm.csv").query("section == 'SDSC-SP2' and table.str.contains('Average wait')")
    rows.pivot(index="line", columns="column", values="value")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from pipelines.report import table as report
from pipelines.storage.atomic import replacing

LONGEST_CAPTION = 160


class Table(NamedTuple):
    """A Markdown table of a page.

    ``section`` is the heading it stands under, ``caption`` the paragraph before it, ``number`` which of the
    section's it is, from 1; ``caption_start``, ``start`` and ``stop`` are lines of the text.
    """

    section: str
    caption: str
    number: int
    caption_start: int
    start: int
    stop: int


Keep = Callable[[Table], bool]
Rows = Callable[[Table, list[str]], bool]
"""Whether a table stays on its page, and whether a row of it does, given its cells."""


def always(*_: object) -> bool:
    """Keep every table and every row."""
    return True


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]], keys: int = 1, left: Sequence[str] = ()) -> str:
    """Return a table in Markdown.

    The first ``keys`` columns and those headed ``left`` hold words.
    """
    return report.Table("", headings, list(rows), keys=keys, left=left).markdown()


def tables(text: str, part: str = "") -> Iterator[Table]:
    """Find the tables of a page, or of a ``part`` of one, from top to bottom."""
    lines = text.splitlines()
    section, number, place = part, 1, 0
    paragraph = (0, 0)
    while place < len(lines):
        line, start = lines[place], place
        if line.startswith("#"):
            heading = line.lstrip("# ")
            section, number, paragraph = f"{part}: {heading}" if part else heading, 1, (place + 1, place + 1)
        elif line.startswith("|"):
            while place < len(lines) and lines[place].startswith("|"):
                place += 1
            yield Table(section, _plain(lines[slice(*paragraph)]), number, paragraph[0], start, place)
            number, paragraph = number + 1, (place, place)
            continue
        elif line and not line.startswith(("<!--", "```")):
            while place < len(lines) and lines[place] and not lines[place].startswith(("|", "#", "<!--")):
                place += 1
            paragraph = (start, place)
            continue
        place += 1


def cells(text: str, part: str = "") -> pd.DataFrame:
    """Return every cell of every table of a page, without marks of bold.

    Columns: ``section table line column value``. ``table`` is its number in the section and, where that is
    short, what announces it there.
    """
    lines, rows = text.splitlines(), []
    for table in tables(text, part):
        header, short = _unique(_split(lines[table.start])), len(table.caption) <= LONGEST_CAPTION
        name = f"{table.number}: {table.caption}" if table.caption and short else str(table.number)
        for number, line in enumerate(lines[table.start + 2 : table.stop]):
            row = zip(header, _split(line), strict=True)
            rows += [(table.section, name, number, column, value) for column, value in row]
    return pd.DataFrame(rows, columns=["section", "table", "line", "column", "value"])


def kept_table(rows: pd.DataFrame, section: str, table: str = "1") -> pd.DataFrame:
    """Return one table of :func:`cells`, texts in the order of the page; ValueError if there is none.

    ``table`` is its number in the section.
    """
    rows = rows[(rows["section"] == section) & (rows["table"].astype(str).str.partition(":")[0] == table)]
    if rows.empty:
        raise ValueError(f"no table {table} of section {section}")
    wide = rows.pivot(index="line", columns="column", values="value")[list(rows["column"].unique())]
    return wide.fillna("").reset_index(drop=True).rename_axis(columns=None)


def shortened(text: str, keep: Keep = always, rows: Rows = always, part: str = "") -> str:
    """Leave on a page the tables that ``keep`` wants, with the rows that ``rows`` wants.

    A paragraph that ends in a colon announces its table and goes with it, as do folds (``<details>``) around a table
    and headings under which nothing is left.
    """
    lines = text.splitlines()
    for table in [*tables(text, part)][::-1]:
        if keep(table):
            body = lines[table.start + 2 : table.stop]
            lines[table.start + 2 : table.stop] = [line for line in body if rows(table, _split(line))]
            continue
        folded = table.caption.startswith("<details>")
        stop = lines.index("</details>", table.stop) + 1 if folded else table.stop
        del lines[table.caption_start if folded or table.caption.endswith(":") else table.start : stop]
    left: list[str] = []
    for line in lines[::-1]:
        follows = next((later for later in left[::-1] if later), "#")
        empty = line.startswith("#") and follows.startswith("#") and _level(follows) <= _level(line)
        if not empty and (line or (left and left[-1])):
            left.append(line)
    return "\n".join(left[::-1]) + "\n"


def write_page(path: Path, text: str, keep: Keep = always, rows: Rows = always) -> None:
    """Write a page :func:`shortened`, and all its cells to ``data/<page>.csv`` beside it."""
    _write(path, cells(text))
    path.write_text(shortened(text, keep, rows), encoding="utf-8")


def _data(path: Path) -> Path:
    return path.parent / "data" / f"{path.stem}.csv"


def _write(path: Path, made: pd.DataFrame) -> None:
    with replacing(_data(path)) as unfinished:
        made.to_csv(unfinished, index=False, lineterminator="\n")


def _split(line: str) -> list[str]:
    return [cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")] if line.strip("| ") else []


def _unique(header: list[str]) -> list[str]:
    """Tell columns of the same name apart by the column before; the first may have none."""
    named = [header[0] or "row"]
    for name in header[1:]:
        named.append(name if name and header.count(name) == 1 else f"{named[-1]}, {name or 'what'}")
    return named


def _plain(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines).replace("**", "")


def _level(heading: str) -> int:
    return len(heading) - len(heading.lstrip("#"))
