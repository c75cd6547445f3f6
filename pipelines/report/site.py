"""Sentences about a Slurm site: why jobs wait, where they start soonest, shorter limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.report.table import Table, duration
from sim.site.limit_advice import LimitAdvice
from sim.starts.reasons import CLASSES, SURE

_LISTED = 5
"""Max number of jobs that are named."""


def sentences_of(reason: Mapping[str, Any], procs: int) -> list[str]:
    """Return the reason of a job of ``procs`` processors in sentences.

    ``reason`` has the fields of :class:`sim.starts.reasons.Reason`.
    """
    word = f" (Slurm says {reason['by_slurm']})" if reason["by_slurm"] else ""
    sentences = [f"it waits because {CLASSES[reason['why']]}{word}"]
    if reason["why"] == "next":
        sentences = ["nothing keeps it: it starts in one of the next passes of the scheduler"]
    if reason["limit"]:
        sentences.append(f"limit: {reason['limit']}")
    if reason["ahead"]:
        many = "1 job is" if reason["ahead"] == 1 else f"{reason['ahead']:,} jobs are"
        hours = f"{reason['ahead_hours']:,.0f} processor-hours"
        sentences.append(f"{many} ahead of it ({reason['ahead_in_queue']:,} in its own queue), with requests for {hours}")
    if reason["parts"]:
        parts = ", ".join(f"{name} {value:,.0f}" for name, value in reason["parts"].items())
        sentences.append(f"its priority is {sum(reason['parts'].values()):,.0f}: {parts}")
    if reason["first"]:
        first = reason["first"]
        more = f" and {len(first) - _LISTED:,} more" if len(first) > _LISTED else ""
        sentences.append(
            f"it asks for {procs:,} processors and {reason['free']:,} are free: enough are once {', '.join(first[:_LISTED])}{more} "
            f"end{'s' if len(first) == 1 else ''}, by the limits in {duration(reason['first_s'])} at the latest"
        )
    return sentences


def sentence_of_cause(cause: Mapping[str, Any]) -> str:
    """Return a cause that moved an estimate as a sentence.

    ``cause`` has the fields of :class:`sim.site.queue_ahead.Cause`.
    """
    way = "later" if cause["seconds"] > 0 else "sooner"
    make = "makes" if cause["count"] == 1 else "make"
    return f"{cause['count']:,} {cause['what']} {make} it start {duration(abs(cause['seconds']))} {way} on average"


def sentences_of_places(places: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return where a job would start soonest, one sentence for places with equal starts.

    ``places`` have the fields of :class:`sim.site.queue_ahead.Place`, the soonest first.
    """
    groups: list[list[Mapping[str, Any]]] = []
    for place in places:
        if groups and _same_start(groups[-1][-1], place):
            groups[-1].append(place)
        else:
            groups.append([place])
    sentences = []
    for group in groups:
        first, last = group[0], group[-1]
        text = f"in {_named(group)}: expected to start in {duration(first['wait_50_s'])} "
        text += f"(80 %: {duration(first['wait_10_s'])} to {duration(first['wait_90_s'])})"
        if last["sooner"] is not None:
            sure = "surely" if last["sooner"] >= SURE else "not surely"
            text += f"; {sure} sooner than in the next (a chance of {last['sooner']:.0%})"
        sentences.append(text)
    return sentences


def _same_start(place: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether a job has equal waits in two places, and starts sooner in neither."""
    waits = ("wait_10_s", "wait_50_s", "wait_90_s")
    return place["sooner"] == 0.5 and all(place[wait] == after[wait] for wait in waits)


def _named(group: Sequence[Mapping[str, Any]]) -> str:
    """Return the names of places, each partition once with its QOS."""
    every_qos: dict[str, list[str]] = {}
    for place in group:
        every_qos.setdefault(place["queue"], []).append(place["qos"])
    names = [f"{queue} with QOS {' or '.join(qos)}" if any(qos) else queue for queue, qos in every_qos.items()]
    return names[0] if len(group) == 1 else f"any of {', '.join(names)}"


_COLUMNS = {"user": "{user}", "account": "{account}", "processors": "{procs:,}", "jobs": "{jobs:,}", "asked": "{asked}"}
_COLUMNS |= {"used": "{used:.0%}", "limit": "{limit}", "ran longer": "{longer:,}", "sooner": "{sooner}", "95 %": "{low} to {high}"}


def table_of(advice: Sequence[LimitAdvice]) -> Table:
    """Return the advice as a table, a row for each user and kind of job."""
    rows = [
        {**shorter._asdict(), "asked": duration(shorter.requested_s), "limit": duration(shorter.limit_s)}
        | {name: _signed(getattr(shorter, f"{name}_s")) for name in ("sooner", "low", "high")}
        for shorter in advice
    ]
    return Table.of("Time limits that surely start jobs sooner", _COLUMNS, rows, left=("user", "account"))


def letter(user: str, advice: Sequence[LimitAdvice]) -> str:
    """Return the advice for a user as a text, or "" if there is none."""
    own = [shorter for shorter in advice if shorter.user == user]
    if not own:
        return ""
    lines = [f"Your jobs, {user}, could start sooner if they asked for less time. Slurm kills a job at its limit.", ""]
    for shorter in own:
        lines += [
            f"* Jobs of {shorter.procs:,} processors that ask for {duration(shorter.requested_s)}: they used {shorter.used:.0%} of it in the "
            f"median. With a limit of {duration(shorter.limit_s)}, about one in twenty would be killed: of the last {shorter.jobs:,}, "
            f"{shorter.longer:,} ran longer than the limit that was predicted for them. If all users asked so, they would start "
            f"{duration(shorter.sooner_s)} sooner in the mean, by simulation ({duration(shorter.low_s)} to {duration(shorter.high_s)})."
        ]
    return "\n".join(lines)


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else ''}{duration(abs(seconds))}"
