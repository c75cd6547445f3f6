"""Wall-clock time of a trace's seconds, daylight saving included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from features.deferred import pd
from features.errors import InputError

DAY_S = 86_400
WEEK_S = 7 * DAY_S
_MONDAY_S = 4 * DAY_S  # 1970-01-05, the first Monday of Unix time
_FIRST_DATE_S = -62_135_510_400  # the second day of the year 1
_NO_DATE_S = 253_370_764_800  # the year 9999, which a simulation of long jobs may pass; from here on days ignore the time zone


def local_clock_s(submit_s: np.ndarray, origin_unix_s: int | None, timezone: str | None) -> np.ndarray:
    """Return seconds of the local wall clock since 1970-01-01 00:00, int64 like ``submit_s``.

    Without a time zone the clock is UTC. Without an origin, second 0 counts as that midnight. Before the year 1 and
    from 9999 on the zone's offset stays constant. Raises InputError for an unknown zone.
    """
    unix = np.asarray(submit_s, np.int64) + np.int64(origin_unix_s or 0)
    if timezone is None or origin_unix_s is None or timezone in _UTC:
        return unix
    dated = unix.clip(_FIRST_DATE_S, _NO_DATE_S)
    local = pd.DatetimeIndex(dated.astype("datetime64[s]")).tz_localize("UTC").tz_convert(_zone(timezone)).tz_localize(None)
    return local.to_numpy().astype("datetime64[s]").astype(np.int64) + (unix - dated)


class Clock(NamedTuple):
    """The wall clock of a trace: the Unix time of its second 0 and an IANA time zone.

    Without a time zone the clock is UTC. Without an origin, second 0 of the trace counts as midnight.
    """

    origin_unix_s: int | None = None
    timezone: str | None = None

    def next_midnight(self, now_s: int) -> int:
        """Return the trace's second at which the next local day after ``now_s`` begins."""
        unix_s = now_s + (self.origin_unix_s or 0)
        if self.origin_unix_s is None or self.timezone is None or self.timezone in _UTC or unix_s >= _NO_DATE_S:
            return now_s + DAY_S - unix_s % DAY_S
        zone = _zone(self.timezone)
        today = datetime.fromtimestamp(unix_s, UTC).astimezone(zone).date()
        tomorrow = today + timedelta(days=1)
        # if clocks skip midnight itself, the time zone's rule gives the instant at which they do
        return int(datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=zone).timestamp()) - self.origin_unix_s

    def steps(self, first_s: int, last_s: int) -> np.ndarray:
        """Return how far local time is ahead of the trace's seconds, int64 [steps, 2].

        Columns: the first second of a step, and the seconds to add during it. The first step begins at ``first_s``.
        Another step follows for each change of the clock up to ``last_s``.
        """
        return np.array(_steps(self, first_s, last_s), np.int64)


_UTC = ("UTC", "Etc/UTC")


@lru_cache(maxsize=256)
def _steps(clock: Clock, first_s: int, last_s: int) -> tuple[tuple[int, int], ...]:
    def ahead(seconds: np.ndarray) -> np.ndarray:
        return local_clock_s(seconds, clock.origin_unix_s, clock.timezone) - seconds

    days = np.append(np.arange(first_s, last_s, DAY_S), last_s)
    offsets = ahead(days)
    changes = np.flatnonzero(np.diff(offsets))
    before, after = days[changes], days[changes + 1]  # bisect the days down to seconds
    while (after - before > 1).any():
        middle = (before + after) // 2
        same = ahead(middle) == offsets[changes]
        before, after = np.where(same, middle, before), np.where(same, after, middle)
    return ((first_s, int(offsets[0])), *zip(after.tolist(), offsets[changes + 1].tolist(), strict=True))


@lru_cache(maxsize=64)
def _zone(timezone: str) -> ZoneInfo:
    try:
        return ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InputError(f"unknown time zone {timezone!r}: use a name such as Europe/Stockholm") from error


def second_of_week(local_s: np.ndarray) -> np.ndarray:
    """Return seconds since Monday 00:00 of the local wall clock, in 0..604799."""
    return (local_s - _MONDAY_S) % WEEK_S
