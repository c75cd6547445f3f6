"""Read a consumer's raw submissions into the arrays that methods take.

``procs`` and ``requested_s`` are whole numbers from 1. The others are optional: ``user`` and, if the method reads them, ``group``
and ``executable`` are text, null if unknown; ``submit_time`` is a timestamp, the site's wall clock without a zone; ``elapsed_s``
is the seconds that the job has run, at most its request. Packed unchanged into registered models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

EARLY = "is of 1970 or before: give the wall clock as a timestamp, not as Unix seconds"
"""Error for such a time if the snapshot is of a later decade."""
_YEAR_S = 365 * 86_400
_YEARS_10_S = 10 * _YEAR_S


def columns(table: pd.DataFrame, optional: Sequence[str], now: pd.Timestamp) -> dict[str, Any]:
    """Return checked submissions as arrays by name: the module's columns, with ``optional``.

    ``submit_time`` becomes ``local_s``: seconds since 1970-01-01 00:00 of the wall clock; ``now`` is that of jobs without one. ValueError
    names row and column.
    """
    arrays: dict[str, Any] = {name: _texts(table, name) for name in optional if name in table}
    arrays["user"] = _texts(table, "user") if "user" in table else np.full(len(table), None, object)
    for name in ("procs", "requested_s"):
        if name not in table:
            raise ValueError(f"column {name} is missing")
        arrays[name] = _numbers(table, name)
        refuse(arrays[name] < 1, table, name, "is below 1")
    arrays["local_s"] = clock_s(table.assign(**({} if "submit_time" in table else {"submit_time": now})), "submit_time")
    arrays["elapsed_s"] = _numbers(table, "elapsed_s") if "elapsed_s" in table else np.zeros(len(table))
    refuse(
        (arrays["elapsed_s"] < 0) | (arrays["elapsed_s"] > arrays["requested_s"]),
        table,
        "elapsed_s",
        "is not between 0 and requested_s",
    )
    return arrays


def clock_s(table: pd.DataFrame, name: str, nullable: bool = False) -> np.ndarray:
    """Return a column of wall clocks as seconds since 1970-01-01 00:00, int64.

    A null, if ``nullable``, is below all others. ValueError names row and column of what is no timestamp.
    """
    times = table[name]
    wrong = times.dtype.kind != "M" or times.dt.tz is not None
    refuse(np.full(len(table), wrong), table, name, "is not a timestamp without a time zone")
    refuse(times.isna().to_numpy() & ~np.bool_(nullable), table, name, "is missing")
    return times.to_numpy("datetime64[s]").astype(np.int64)


def earliest_clock_s(snapshot_unix_s: int) -> int:
    """Return the earliest plausible wall clock, in seconds since 1970-01-01 00:00."""
    return _YEAR_S if snapshot_unix_s > _YEARS_10_S else -(2**62)


def as_unix_s(local_s: np.ndarray, zone: str | None) -> np.ndarray:
    """Return Unix seconds of wall clocks, int64; without a ``zone`` they are of UTC.

    Of the hour repeated in autumn the first counts; a time in the hour skipped in spring becomes the end of that hour.
    """
    if zone in (None, "UTC", "Etc/UTC"):
        return local_s
    clock = pd.DatetimeIndex(local_s.astype("datetime64[s]"))
    unix = clock.tz_localize(zone, ambiguous=np.ones(len(clock), bool), nonexistent="shift_forward").tz_convert(None)
    return unix.to_numpy("datetime64[s]").astype(np.int64)


def _texts(table: pd.DataFrame, name: str) -> np.ndarray:
    values = table[name].tolist()
    refuse(np.array([not (isinstance(value, str) or pd.isna(value)) for value in values], bool), table, name, "is not text")
    return np.array([value if isinstance(value, str) else None for value in values], object)


def _numbers(table: pd.DataFrame, name: str) -> np.ndarray:
    refuse(table[name].isna().to_numpy(), table, name, "is missing")
    refuse(np.full(len(table), table[name].dtype.kind not in "iuf"), table, name, "is not a whole number")
    numbers = table[name].to_numpy(np.float64)
    refuse(numbers != np.floor(numbers), table, name, "is not a whole number")
    return numbers


def refuse(wrong: np.ndarray, table: pd.DataFrame, column: str, why: str) -> None:
    """Raise ValueError for the first row of ``table`` that is ``wrong`` [rows], if any."""
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"row {row} (counted from 0), column {column}: {table[column].iloc[row]} {why} ({int(wrong.sum())} such rows)"
        )
