"""CSV text in which no cell is a formula for a spreadsheet that opens it."""

import re

import pandas as pd

_FORMULA = re.compile(r"\s*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


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
