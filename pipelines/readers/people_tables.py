"""Users' own tables, CSV or Parquet: submissions to predict."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from features import limits
from features.deferred import pd
from features.errors import InputError, first_line, shown
from pipelines.readers.text import text_of

Place = Callable[[int], str]
"""Function from a row, counted from 0, to its place in the file, for messages."""


def read_table(path: Path, wanted: Sequence[str]) -> tuple[pd.DataFrame, str, Place]:
    """Read a table; return it with the place of its header and of each row.

    A ``.parquet`` file is Parquet, any other is CSV, whose cells stay text. Raises InputError for a file that cannot be read or
    lacks one of the columns ``wanted``.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file")
    try:
        if path.suffix == ".parquet":
            from pipelines.lake.files import read_foreign

            table, head, place = read_foreign(path).reset_index(drop=True), str(path), lambda row: f"{path}: row {row + 1}"
        else:
            table, head, place = _read_csv(path)
    except (ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read: {first_line(error)}") from error
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise InputError(f"{head}: lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
    return table, head, place


def refuse(place: Place, column: pd.Series, wrong: pd.Series, what: str) -> None:
    """Raise InputError naming the first cell of ``column`` that is ``wrong``, if any.

    The message has the cell's place and the number of wrong cells.
    """
    count = int(wrong.sum())
    if count:
        first = int(np.argmax(wrong.to_numpy(bool)))
        raise InputError(
            f"{place(first)}: {column.name} {shown(str(column.iloc[first]))} {what} ({count} such row{'s' * (count > 1)})"
        )


def _read_csv(path: Path) -> tuple[pd.DataFrame, str, Place]:
    """Read the cells as text.

    pandas is not used: it skips blank lines and does not report on which line a row begins.
    """
    rows, lines, line = [], [], 1
    csv.field_size_limit(limits.LINE_BYTES)
    with text_of(path) as text:
        reader = csv.reader(io.TextIOWrapper(text, "utf-8-sig", newline=""), strict=True)
        try:
            names = next(reader, [])
            if twice := [name for name, times in Counter(names).items() if times > 1]:
                raise InputError(f"{path}:1: has the column {twice[0][:40]} twice")
            line = reader.line_num + 1
            for row in reader:
                if row and len(row) != len(names):
                    raise InputError(f"{path}:{line}: has {len(row)} values for {len(names)} columns")
                if row:
                    rows.append(row)
                    lines.append(line)
                line = reader.line_num + 1
        except csv.Error as error:
            raise InputError(f"{path}:{line}: {error}") from error
    return pd.DataFrame(rows, columns=names, dtype="str"), f"{path}:1", lambda row: f"{path}:{lines[row]}"


ASKED, NAMES = ("procs", "requested_s"), ("user", "group", "executable")
"""Columns that must be present, and names, which may be: an empty cell is unknown."""
KNOWN = "user_known"
LARGEST = {"procs": limits.PROCESSORS, "requested_s": limits.SECONDS}
_ZONE = r"[T ][\d:.,]*\s*(?:[Zz]|[+-]\d\d(?::?\d\d)?)\s*$"
"""Pattern of an ISO 8601 time of day that ends with an offset from UTC."""


def read_submissions(path: Path) -> pd.DataFrame:
    """Read submissions from a CSV or Parquet file; convert the columns that models read.

    ``submit_time`` is ISO 8601, the wall clock at the site. Raises InputError with the cause and its place: the line of a CSV
    file, or the row of a Parquet file, counted from 1.
    """
    from models.packed.methods import LEVELS, PREDICTED

    table, head, place = read_table(path, ASKED)
    answered = [name for name in (PREDICTED, *LEVELS, "snapshot_age_s", KNOWN) if name in table.columns]
    if answered:
        raise InputError(f"{head}: already has {' and '.join(answered)}, which the prediction adds: rename or remove it")

    for name in NAMES:
        if name in table:
            text = table[name].astype("str")
            table[name] = text.mask(text == "")
    for name, largest in LARGEST.items():
        numbers = pd.to_numeric(table[name], errors="coerce")
        refuse(place, table[name], numbers.isna() | (numbers < 1) | (numbers % 1 != 0), "is not a whole number of at least 1")
        refuse(place, table[name], numbers > largest, f"is more than {largest:,}")
        table[name] = numbers.astype("int64")
    if "submit_time" in table:
        table["submit_time"] = _times(place, table["submit_time"])
    return table


def _times(place: Place, column: pd.Series) -> pd.Series:
    # as text: numbers are no times, and rows may differ in their precision or have a zone
    text = column.astype("str")
    zoned = text.str.contains(_ZONE, na=False)
    refuse(place, column, zoned, "has a time zone: submit_time is the wall clock at the site, without one")
    times = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None)
    # pandas parses the words now and today as times
    wrong = times.isna() | ~text.str.match(r"\s*\d", na=False)
    refuse(place, column, wrong, "is not a time such as 2026-03-01 09:00:00")
    refuse(place, column, ~times.dt.year.between(1970, 2261), "is not of the years 1970 to 2261")
    return times.astype("datetime64[ns]")
