"""From the local time that a log states to Unix time, where clocks that are put back or forward make that a question."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd

from features.errors import InputError

NEVER = np.iinfo(np.int64).min
"""Stands for the Unix time of a time that is missing (numpy's NaT as an integer)."""


@dataclass(frozen=True)
class UnixTimes:
    """``unix_s`` int64 [n], NEVER where missing; ``repeated`` and ``skipped`` bool [n], where the local time was met twice or never.

    ``earlier`` and ``later`` are the two instants of a time that was met twice, elsewhere both the one.
    """

    unix_s: np.ndarray
    repeated: np.ndarray
    skipped: np.ndarray
    earlier: np.ndarray
    later: np.ndarray


def zone(name: str) -> ZoneInfo:
    """The zone of the IANA database with that name. Raises InputError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError(f"unknown time zone {name!r}: use a name such as Europe/Stockholm") from error


def to_unix(local: np.ndarray, place: ZoneInfo, not_before_s: np.ndarray | None = None) -> UnixTimes:
    """Unix seconds of the wall-clock times ``local`` (datetime64[s] [n], NaT where missing) in the zone ``place``.

    A time that the clocks showed twice is the earlier instant, or the later one where only that is not before ``not_before_s`` (Unix
    seconds [n]). A time that they jumped over is the instant of the jump.
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
