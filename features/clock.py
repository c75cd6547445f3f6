"""Wall-clock time of a trace's seconds: people submit by the clock on their wall, daylight saving included."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd

from features.errors import InputError

DAY_S = 86_400
WEEK_S = 7 * DAY_S
_MONDAY_S = 4 * DAY_S  # 1970-01-05, the first Monday of Unix time


def local_clock_s(submit_s: np.ndarray, origin_unix_s: int | None, timezone: str | None) -> np.ndarray:
    """Seconds of the local wall clock since 1970-01-01 00:00 (int64, same shape as ``submit_s``).

    Without a time zone the clock is UTC's; without an origin, second 0 is taken as that midnight. Unknown zones raise InputError.
    """
    unix = np.asarray(submit_s, np.int64) + np.int64(origin_unix_s or 0)
    if timezone is None or origin_unix_s is None or timezone in ("UTC", "Etc/UTC"):
        return unix
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InputError(f"unknown time zone {timezone!r}: use a name such as Europe/Stockholm") from error
    local = pd.DatetimeIndex(unix.astype("datetime64[s]")).tz_localize("UTC").tz_convert(zone).tz_localize(None)
    return local.to_numpy().astype("datetime64[s]").astype(np.int64)


def second_of_week(local_s: np.ndarray) -> np.ndarray:
    """Seconds since Monday 00:00 of the local wall clock, in 0..604799."""
    return (local_s - _MONDAY_S) % WEEK_S
