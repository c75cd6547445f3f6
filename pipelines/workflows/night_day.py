"""The night of a day: which jobs it may see, and whether a later night has taken its place."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from pipelines.storage.lake import Lake
from pipelines.workflows.night_replay import replay

BEGINS = timedelta(hours=2)
"""When the night of a day begins, after midnight (UTC)."""


def accounting_of(clean: CleanTrace, day: str) -> CleanTrace:
    """Cut accounting to what had ended when the night of ``day`` (2026-03-01) began, however late that night is done.

    InputError where nothing had ended by then, and for a day gone by of a trace that does not know its dates.
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


def later_night(lake: Lake, trace: str, day: str) -> str:
    """The last night done of ``trace``, where it is later than ``day``; empty otherwise.

    A champion does not move back in time: what learned from less would take the place of what learned from more.
    """
    if not lake.has("nights", trace):
        return ""
    last = str(lake.read("nights", trace)[0]["night"].iloc[-1])
    return last if last > day else ""
