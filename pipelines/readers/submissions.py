"""Submissions whose runtimes a registered model predicts, from CSV or Parquet."""

from pathlib import Path

import pandas as pd

from features import limits
from features.errors import InputError
from models.packed.methods import LEVELS, PREDICTED
from pipelines.readers.people_tables import Place, read_table, refuse

ASKED, NAMES = ("procs", "requested_s"), ("user", "group", "executable")
"""Columns that must be present, and names, which may be: an empty cell is unknown."""
KNOWN = "user_known"
ANSWERED = (PREDICTED, *LEVELS, "snapshot_age_s", KNOWN)
LARGEST = {"procs": limits.PROCESSORS, "requested_s": limits.SECONDS}
_ZONE = r"[T ][\d:.,]*\s*(?:[Zz]|[+-]\d\d(?::?\d\d)?)\s*$"
"""Pattern of an ISO 8601 time of day that ends with an offset from UTC."""


def read_submissions(path: Path) -> pd.DataFrame:
    """Read submissions from a CSV or Parquet file; convert the columns that models read.

    ``submit_time`` is ISO 8601, the wall clock at the site. Raises InputError with the cause and its place: the line of a CSV
    file, or the row of a Parquet file, counted from 1.
    """
    table, head, place = read_table(path, ASKED)
    answered = [name for name in ANSWERED if name in table.columns]
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
