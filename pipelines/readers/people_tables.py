"""Users' own tables, CSV or Parquet: submissions to predict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from features import limits
from features.deferred import pd
from features.errors import InputError, first_line, shown
from pipelines.readers.text import text_of

ASKED, NAMES = ("procs", "requested_s"), ("user", "group", "executable")
"""Columns that must be present, and names, which may be: an empty cell is unknown."""
KNOWN = "user_known"
LARGEST = {"procs": limits.PROCESSORS, "requested_s": limits.SECONDS}
_ZONE = r"[T ][\d:.,]*\s*(?:[Zz]|[+-]\d\d(?::?\d\d)?)\s*$"
"""Pattern of an ISO 8601 time of day that ends with an offset from UTC."""

Place = Callable[[int], str]
"""Function from a row, counted from 0, to its place in the file, for messages."""


def read_submissions(path: Path) -> pd.DataFrame:
    """Read submissions from a CSV or Parquet file; convert the columns that models read.

    ``submit_time`` is ISO 8601, the wall clock at the site. Raises InputError with the cause and its place: the line of
    a CSV file, or the row of a Parquet file, counted from 1.
    """
    from models.packed.methods import LEVELS, PREDICTED

    table, place = _table(path)
    if missing := [name for name in ASKED if name not in table]:
        raise InputError(f"{path}: lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
    if answered := [name for name in (PREDICTED, *LEVELS, "snapshot_age_s", KNOWN) if name in table]:
        raise InputError(f"{path}: already has {' and '.join(answered)}, which the prediction adds: rename or remove it")

    for name in NAMES:
        if name in table:
            text = table[name].astype("str")
            table[name] = text.mask(text == "")
    for name, largest in LARGEST.items():
        numbers = pd.to_numeric(table[name], errors="coerce")
        _refuse(place, table[name], numbers.isna() | (numbers < 1) | (numbers % 1 != 0), "is not a whole number of at least 1")
        _refuse(place, table[name], numbers > largest, f"is more than {largest:,}")
        table[name] = numbers.astype("int64")
    if "submit_time" in table:
        table["submit_time"] = _times(place, table["submit_time"])
    return table


def _table(path: Path) -> tuple[pd.DataFrame, Place]:
    """Return a table, whose cells are text if it is CSV, and the place of each row."""
    try:
        if path.suffix == ".parquet":
            from pipelines.lake.files import read_foreign

            return read_foreign(path).reset_index(drop=True), lambda row: f"{path}: row {row + 1}"
        with text_of(path) as text:
            table = pd.read_csv(text, dtype="str", keep_default_na=False, encoding="utf-8-sig")
    except (ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read: {first_line(error)}") from error
    if not isinstance(table.index, pd.RangeIndex):
        raise InputError(f"{path}: its rows have more values than its header")
    return table, lambda row: f"{path}:{row + 2}"


def _refuse(place: Place, column: pd.Series, wrong: pd.Series, what: str) -> None:
    """Raise InputError naming the first cell of ``column`` that is ``wrong``, if any, and how many are."""
    count = int(wrong.sum())
    if count:
        first = int(np.argmax(wrong.to_numpy(bool)))
        raise InputError(
            f"{place(first)}: {column.name} {shown(str(column.iloc[first]))} {what} ({count} such row{'s' * (count > 1)})"
        )


def _times(place: Place, column: pd.Series) -> pd.Series:
    # as text: numbers are no times, and rows may differ in their precision or have a zone
    text = column.astype("str")
    zoned = text.str.contains(_ZONE, na=False)
    _refuse(place, column, zoned, "has a time zone: submit_time is the wall clock at the site, without one")
    times = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None)
    # pandas parses the words now and today as times
    wrong = times.isna() | ~text.str.match(r"\s*\d", na=False)
    _refuse(place, column, wrong, "is not a time such as 2026-03-01 09:00:00")
    _refuse(place, column, ~times.dt.year.between(1970, 2261), "is not of the years 1970 to 2261")
    return times.astype("datetime64[ns]")
