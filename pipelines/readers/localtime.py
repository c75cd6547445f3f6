"""Conversion of a log's local times to Unix time, around changes of the clock."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from features.deferred import pd
from features.errors import InputError, shown

MISSING_TIME = np.iinfo(np.int64).min
"""The Unix time of a missing time (numpy's NaT as an integer)."""


@dataclass(frozen=True)
class UnixTimes:
    """``unix_s`` int64 [n], MISSING_TIME where missing, and the ambiguous local times.

    ``repeated`` and ``skipped`` bool [n]: the local time occurred twice or never. ``earlier`` and ``later`` are the two
    instants of a repeated time; for any other time both equal ``unix_s``.
    """

    unix_s: np.ndarray
    repeated: np.ndarray
    skipped: np.ndarray
    earlier: np.ndarray
    later: np.ndarray


def zone(name: str) -> ZoneInfo:
    """Return the IANA time zone called ``name``; raise InputError if there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(f"unknown time zone {shown(name)}: use a name such as Europe/Stockholm") from error


def to_unix(local: np.ndarray, place: ZoneInfo, not_before_s: np.ndarray | None = None) -> UnixTimes:
    """Return Unix seconds of the wall-clock times ``local`` in the zone ``place``.

    ``local`` is datetime64[s] [n], NaT if missing. A repeated time gives the earlier instant, or the later one if the
    earlier is before ``not_before_s`` (Unix seconds [n]). A skipped time gives the instant of the jump.
    """
    index = pd.DatetimeIndex(local)
    first, second = (
        index.tz_localize(place, ambiguous=np.full(len(index), summer), nonexistent="shift_forward") for summer in (True, False)
    )
    skipped = np.asarray(first.tz_localize(None) != index) & ~np.isnat(local)
    earlier, later = np.minimum(_unix(first), _unix(second)), np.maximum(_unix(first), _unix(second))
    repeated = earlier != later
    chosen = earlier if not_before_s is None else np.where(repeated & (earlier < not_before_s), later, earlier)
    return UnixTimes(chosen, repeated, skipped, earlier, later)


def _unix(index: pd.DatetimeIndex) -> np.ndarray:
    return index.tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[s]").astype(np.int64)
