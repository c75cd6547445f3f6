"""Divide a trace at a date.

What had ended by the date is learned from; what is submitted from then on is simulated and judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from features.clock import DAY_S, WEEK_S, Clock, local_clock_s
from features.errors import InputError
from features.jobs.cleaning import CleanTrace

LEFT_SHARE, LEFT_WEEKS = 1 / 3, 4
"""By default the last third of the trace's time is left, and at least so many weeks."""


@dataclass(frozen=True)
class Split:
    """A date in a trace.

    ``at_s`` is in seconds from the trace's origin; ``note`` says why it is not the default, else it is empty.
    """

    at_s: int
    note: str = ""

    def before(self, end_s: np.ndarray) -> np.ndarray:
        """Return rows of the jobs that had ended by the date, of those that end at ``end_s``."""
        return np.flatnonzero(end_s <= self.at_s)

    def after(self, submit_s: np.ndarray) -> np.ndarray:
        """Return rows of the jobs submitted from the date on.

        ``submit_s`` are their submissions.
        """
        return np.flatnonzero(submit_s >= self.at_s)


def split(clean: CleanTrace, end_s: np.ndarray, until: str = "") -> Split:
    """Return the date that divides ``clean``, whose jobs ended at ``end_s``.

    It is ``until`` if that is given, else a midnight that leaves :data:`LEFT_SHARE` and :data:`LEFT_WEEKS`. A trace too short for
    that leaves its last third, however little, or what is submitted after the first job has ended. Raises InputError for a date
    at which nothing has ended or after which nothing is submitted.
    """
    submit = clean.jobs["submit_s"].to_numpy(np.int64)
    if until:
        found = Split(_second(clean, until))
        if not len(found.before(end_s)) or not len(found.after(submit)):
            raise InputError(
                f"{clean.name}: by {until} {len(found.before(end_s)):,} jobs have ended and {len(found.after(submit)):,} are submitted from then on: "
                f"give a date between {date_of(clean, int(end_s.min()))} and {date_of(clean, int(submit[-1]))}"
            )
        return found
    first, last = int(submit[0]), int(submit[-1])
    left = max(int((last - first) * LEFT_SHARE), LEFT_WEEKS * WEEK_S)
    note = ""
    if last - first < 2 * left and left > (last - first) * LEFT_SHARE:
        left = int((last - first) * LEFT_SHARE)
        note = f"The trace covers {(last - first) / DAY_S:.1f} days, too few to leave {LEFT_WEEKS} weeks and learn from as many: its last third is left."
    at_s = _midnight_before(clean.clock, last - left)
    chosen = Split(at_s if (end_s <= at_s).any() else last - left, note)
    if not len(chosen.before(end_s)):
        chosen = Split(
            int(end_s.min()),
            "No job has ended by two thirds of the trace's time: everything submitted after the first end is left.",
        )
    if not len(chosen.after(submit)):
        raise InputError(
            f"{clean.name}: nothing is submitted after the first job has ended, so there is nothing to learn from for later: queuecast simulate replays it"
        )
    return chosen


def nights(clean: CleanTrace, at_s: int) -> list[int]:
    """Return when nights take snapshots for what is submitted from ``at_s`` on."""
    found, last = [at_s], int(clean.jobs["submit_s"].iloc[-1])
    while (following := clean.clock.next_midnight(found[-1])) <= last:
        found.append(following)
    return found


def date_of(clean: CleanTrace, at_s: int) -> str:
    """Return a second of the trace as its site's wall clock shows it, if it has a clock."""
    if clean.origin_unix_s is None:
        return f"second {at_s}"
    local = local_clock_s(np.array([at_s]), clean.origin_unix_s, clean.timezone)[0]
    return f"{pd.Timestamp(int(local), unit='s'):%Y-%m-%d %H:%M}".removesuffix(" 00:00")


def _midnight_before(clock: Clock, at_s: int) -> int:
    """Return the last midnight at or before ``at_s``."""
    found = clock.next_midnight(at_s - 2 * DAY_S)
    while (following := clock.next_midnight(found)) <= at_s:
        found = following
    return found


def _second(clean: CleanTrace, until: str) -> int:
    """Return a date of the site's wall clock, or a second of the trace, as a second."""
    if until.strip().isdigit():
        return int(until)
    try:
        moment = datetime.fromisoformat(until)
    except ValueError as error:
        raise InputError(f"{until!r} is neither a date such as 1997-05-01 nor a second of the trace") from error
    if clean.origin_unix_s is None:
        raise InputError(f"{clean.name} does not say on what date it begins: give a second of the trace instead of {until}")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(clean.timezone or "UTC"))
    return int(moment.timestamp()) - clean.origin_unix_s
