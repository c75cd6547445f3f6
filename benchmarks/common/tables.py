"""Write tables in Markdown, and keep all their cells as one CSV beside a study's card.

:func:`cells` gives one row for each cell of the tables of a text, and :func:`kept_table` has one table back::

    rows = pd.read_csv("okcm.csv")
    kept_table(rows, "SDSC-SP2", "3")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from pipelines.lake.places import replacing
from pipelines.report import table as report

LONGEST_CAPTION = 160


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]], keys: int = 1, left: Sequence[str] = ()) -> str:
    """Return a table in Markdown.

    The first ``keys`` columns and those headed ``left`` hold words.
    """
    return report.Table("", headings, list(rows), keys=keys, left=left).markdown()


def cells(text: str, part: str = "") -> pd.DataFrame:
    """Return every cell of every table of a text in Markdown, or of a ``part`` of one, without marks of bold.

    Columns: ``section table line column value``. The section is the heading above; ``table`` is its number in the section, from 1,
    and, where that is short, the paragraph that announces it there.
    """
    section, number, paragraph, header, rows = part, 0, [""], [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            if not header:
                header, number, below, caption = _unique(_split(line)), number + 1, -2, " ".join(filter(None, paragraph))
                name = f"{number}: {caption}" if 0 < len(caption) <= LONGEST_CAPTION else str(number)
            else:
                below += 1
                rows += [(section, name, below, *cell) for cell in zip(header, _split(line), strict=True) if below >= 0]
            continue
        paragraph = [""] if header or line.startswith("#") or (line and not paragraph[-1]) else paragraph
        header = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
            section, number = f"{part}: {heading}" if part else heading, 0
        else:
            paragraph = [*paragraph, line.replace("**", "").strip()]
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


def write_data(path: Path, parts: Mapping[str, str]) -> None:
    """Replace the sections of a page's data by the cells of ``parts``; other sections stay."""
    table, data = pd.concat([cells(text, name) for name, text in parts.items()]), path.parent / "data" / f"{path.stem}.csv"
    if data.exists():
        before = pd.read_csv(data, dtype={"line": "int64"}, keep_default_na=False)
        table = pd.concat([before[~before["section"].str.partition(": ")[0].isin(list(parts))], table])
    with replacing(data) as unfinished:
        table.to_csv(unfinished, index=False, lineterminator="\n")


def _split(line: str) -> list[str]:
    return [cell.strip().replace("**", "") for cell in line.strip().strip("|").split("|")] if line.strip("| ") else []


def _unique(header: list[str]) -> list[str]:
    """Tell columns of the same name apart by the column before; the first may have none."""
    named = [header[0] or "row"]
    for name in header[1:]:
        named.append(name if name and header.count(name) == 1 else f"{named[-1]}, {name or 'what'}")
    return named
