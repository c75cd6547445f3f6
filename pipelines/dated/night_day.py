"""The night of a day: the jobs it may see, and whether a later night replaced it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from pipelines.dated.replay import replay
from pipelines.storage.lake import Lake

BEGINS = timedelta(hours=2)
"""Time after midnight (UTC) at which the night of a day begins."""


def accounting_of(clean: CleanTrace, day: str) -> CleanTrace:
    """Cut accounting to what had ended when the night of ``day`` (2026-03-01) began.

    However late that night is done. InputError where nothing had ended by then, and for a past day of a trace without dates.
    """
    begins = datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC) + BEGINS
    if clean.origin_unix_s is None:
        if begins < datetime.now(UTC) - timedelta(days=1):
            raise InputError(
                f"{clean.name}: has no dates, so what had ended by {day} is not known: only tonight's night can be done"
            )
        return clean
    source, cut_s = replay(clean), int(begins.timestamp()) - clean.origin_unix_s
    return clean if source.last_end_s <= cut_s else source.accounting(cut_s)


def later_night(lake: Lake, subject: str, day: str) -> str:
    """Return the last night done of ``runtime-<trace>`` if it is later than ``day``; else "".

    A champion does not move back in time: it would be replaced by one with less training data. Counters are not cut at a day, so
    no night of a system is too late.
    """
    kind, _, trace = subject.partition("-")
    if kind != "runtime" or not lake.has("nights", trace):
        return ""
    last = str(lake.read("nights", trace)[0]["night"].iloc[-1])
    return last if last > day else ""
