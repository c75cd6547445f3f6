"""Read a consumer's raw submissions into the arrays that methods take.

``user`` and, if the method reads them, ``group`` and ``executable`` are text or whole numbers, null if unknown. ``procs`` and
``requested_s`` are whole numbers from 1, as integers or floats. ``submit_time`` is a timestamp or its ISO text, the site's wall
clock or with a time zone. ``elapsed_s``, which is optional, is the seconds that the job has run, at most its request. Packed
unchanged into registered models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def columns(table: pd.DataFrame, optional: Sequence[str], zone: str) -> dict[str, Any]:
    """Return checked submissions as arrays by name: the module's columns, with ``optional``.

    ``submit_time`` becomes ``local_s``: the wall clock in ``zone``, seconds since 1970-01-01 00:00. ValueError names row, column.
    """
    for name in ("user", "procs", "requested_s", "submit_time"):
        if name not in table:
            raise ValueError(f"column {name} is missing")
    given: dict[str, Any] = {name: _texts(table, name) for name in ("user", *optional) if name in table}
    given |= {name: _numbers(table, name) for name in ("procs", "requested_s")}
    for name in ("procs", "requested_s"):
        refuse(given[name] < 1, table, name, "is below 1")
    given["local_s"] = _wall_clock(table, zone)
    given["elapsed_s"] = elapsed = np.zeros(len(table))
    if "elapsed_s" in table:
        there = table["elapsed_s"].notna().to_numpy()
        elapsed[there] = _numbers(table[there], "elapsed_s")
        refuse((elapsed < 0) | (elapsed > given["requested_s"]), table, "elapsed_s", "is not in 0..requested_s")
    return given


def _texts(table: pd.DataFrame, name: str) -> np.ndarray:
    texts = np.array([None if pd.isna(each) else _text(each) for each in table[name].tolist()], object)
    refuse(np.array([each is False for each in texts], bool), table, name, "is not text, nor a whole number")
    return texts


def _text(value: Any) -> str | bool:
    """Return a name, or the digits of a number; False for anything else."""
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if _is_number(value) and float(value) == round(float(value)) else False


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool) and bool(np.isfinite(value))


def _numbers(table: pd.DataFrame, name: str) -> np.ndarray:
    refuse(table[name].isna().to_numpy(), table, name, "is missing")
    numbers = np.array([each if _is_number(each) else np.nan for each in table[name].tolist()], np.float64)
    refuse(numbers != np.floor(numbers), table, name, "is not a whole number")
    return numbers


def _wall_clock(table: pd.DataFrame, zone: str) -> np.ndarray:
    times = table["submit_time"]
    refuse(times.isna().to_numpy(), table, "submit_time", "is missing")
    if times.dtype.kind != "M" or getattr(times.dtype, "tz", None) is not None:
        clocks = [_clock(each, zone) for each in times.tolist()]
        refuse(np.array([each is None for each in clocks], bool), table, "submit_time", "is no time such as 2026-03-01 09:00:00")
        times = pd.Series(clocks, dtype="datetime64[s]")
    return times.to_numpy("datetime64[s]").astype(np.int64)


def _clock(value: object, zone: str) -> pd.Timestamp | None:
    """Return the wall clock of a time, in ``zone`` if it has its own zone; None if not a time."""
    if not (isinstance(value, datetime) or (isinstance(value, str) and _DATE.match(value))):
        return None
    try:
        time = pd.Timestamp(value)
    except ValueError:
        return None
    return (time if time.tz is None else time.tz_convert(zone).tz_localize(None)).floor("s")


def refuse(wrong: np.ndarray, table: pd.DataFrame, column: str, why: str) -> None:
    """Raise ValueError for the first row of ``table`` that is ``wrong`` [rows], if any."""
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"row {row} (counted from 0), column {column}: {table[column].iloc[row]} {why} ({int(wrong.sum())} such rows)"
        )
