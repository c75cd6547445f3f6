"""The wall clock in plain Python: seconds since 1970-01-01 00:00 of the place.

For predictors by hand, at a second of a trace.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

Wall = Callable[[int], int]
_EPOCH = datetime(1970, 1, 1)


def own(second: int) -> int:
    """A trace of which nothing is known keeps its own time."""
    return second


def wall(origin_unix_s: int, zone: str | None) -> Wall:
    """By the Unix time of second 0 and the name of the zone."""
    place = ZoneInfo(zone) if zone else UTC

    def at(second: int) -> int:
        local = datetime.fromtimestamp(origin_unix_s + second, place).replace(tzinfo=None)
        return round((local - _EPOCH).total_seconds())

    return at


def next_day(now: int, clock: Wall) -> int:
    """The first second after ``now`` of another day on the wall."""
    today, then = clock(now) // 86_400, now + 1
    while clock(then) // 86_400 == today:
        then += 600
    while clock(then - 1) // 86_400 != today:
        then -= 1
    return then
