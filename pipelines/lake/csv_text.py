"""CSV text in which no cell is a formula for a spreadsheet that opens it."""

import re

import numpy as np
import pandas as pd

_FORMULA = re.compile(r"\s*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)

_DIGITS = 12
"""Significant digits of a figure. Processors that add up in another order differ in the last of the sixteen that a float has."""


def figures_text(table: pd.DataFrame) -> str:
    """Return a table of figures as :func:`csv_text` does, the same on every processor."""
    return csv_text(table.apply(_rounded))


def _rounded(column: pd.Series) -> pd.Series:
    """Round a column of fractions to significant digits; leave any other column as it is."""
    if not isinstance(column.dtype, np.dtype) or column.dtype.kind != "f":
        return column
    return pd.Series([float(f"{value:.{_DIGITS}g}") for value in column], column.index, column.dtype)


def csv_text(table: pd.DataFrame) -> str:
    """Return ``table`` without its index as CSV.

    A text that a spreadsheet would evaluate (``=HYPERLINK(...)``) gets an apostrophe in front; numbers stay unchanged.
    """
    safe = table.copy()
    safe.columns = [_cell(name) for name in table.columns]
    for place, kind in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_datetime64_any_dtype(kind):
            safe.isetitem(place, table.iloc[:, place].astype(object).map(_cell, na_action="ignore").array)
    return safe.to_csv(index=False, lineterminator="\n")


def _cell(value: object) -> object:
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
