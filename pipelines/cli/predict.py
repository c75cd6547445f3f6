"""``queuecast predict``: runtimes for submissions in a file, by a registered model."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pandas as pd

from features.errors import InputError

ASKED = ("user", "procs", "requested_s", "submit_time")
ANSWERED = ("predicted_s", "snapshot_age_s")
LARGEST = {"procs": 10**9, "requested_s": 10**10}
"""Beyond any machine and any job (300 years), and far from where whole numbers overflow."""
_ZONE = r"[T ][\d:.,]*\s*(?:[Zz]|[+-]\d\d(?::?\d\d)?)\s*$"
"""A time of day with an offset from UTC behind it, in ISO 8601."""

Place = Callable[[int], str]
"""Where a row of the table, counted from 0, stands in its file."""


@click.command()
@click.option("--model", "spec", required=True, help="NAME[@ALIAS] of the registry; champion by default.")
@click.argument("jobs", type=click.Path(path_type=Path))
def command(spec: str, jobs: Path) -> None:
    """Predict the jobs in JOBS (.csv or .parquet with user, procs, requested_s, submit_time) and print them as CSV with predicted_s."""
    table = read_submissions(jobs)
    from pipelines.registry import predict_registered

    answers = predict_registered(spec, table[list(ASKED)])
    click.echo(pd.concat([table, answers], axis=1).to_csv(index=False), nl=False)


def read_submissions(path: Path) -> pd.DataFrame:
    """The submissions in a CSV or Parquet file with the types a model wants, other columns as they are.

    ``submit_time`` is ISO 8601, the wall clock at the site. Raises InputError with the cause and where it is: the line of a CSV file, the
    row, counted from 1, of a Parquet file.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file")
    try:
        table, head, place = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    except (ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    missing = [name for name in ASKED if name not in table.columns]
    if missing:
        raise InputError(f"{head}: lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}")
    answered = [name for name in ANSWERED if name in table.columns]
    if answered:
        raise InputError(f"{head}: already has {' and '.join(answered)}, which the prediction adds: rename or remove it")

    _refuse(place, table["user"], table["user"].isna(), "is missing")
    table["user"] = table["user"].astype("str")
    for name, largest in LARGEST.items():
        numbers = pd.to_numeric(table[name], errors="coerce")
        _refuse(place, table[name], numbers.isna() | (numbers < 1) | (numbers % 1 != 0), "is not a whole number of at least 1")
        _refuse(place, table[name], numbers > largest, f"is more than {largest:,}")
        table[name] = numbers.astype("int64")
    table["submit_time"] = _times(place, table["submit_time"])
    return table


def _read_csv(path: Path) -> tuple[pd.DataFrame, str, Place]:
    """The cells as text. Read without pandas, which skips blank lines and does not tell on which line a row began."""
    rows, lines, line = [], [], 1
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        try:
            names = next(reader, [])
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise InputError(f"{path}:1: has the column {twice[0]} twice")
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


def _read_parquet(path: Path) -> tuple[pd.DataFrame, str, Place]:
    return pd.read_parquet(path).reset_index(drop=True), str(path), lambda row: f"{path}: row {row + 1}"


def _times(place: Place, column: pd.Series) -> pd.Series:
    # As text, whatever it came as: numbers are no times, and rows may differ in their precision or have a zone.
    text = column.astype("str")
    zoned = text.str.contains(_ZONE, na=False)
    _refuse(place, column, zoned, "has a time zone: submit_time is the wall clock at the site, without one")
    times = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None)
    # pandas takes the words now and today for times, which no file means
    wrong = times.isna() | ~text.str.match(r"\s*\d", na=False)
    _refuse(place, column, wrong, "is not a time such as 2026-03-01 09:00:00")
    _refuse(place, column, ~times.dt.year.between(1970, 2261), "is not of the years 1970 to 2261")
    return times.astype("datetime64[ns]")


def _refuse(place: Place, column: pd.Series, wrong: pd.Series, what: str) -> None:
    count = int(wrong.sum())
    if count:
        first = int(np.argmax(wrong.to_numpy(bool)))
        raise InputError(f"{place(first)}: {column.name} {str(column.iloc[first])!r} {what} ({count} such row{'s' * (count > 1)})")
