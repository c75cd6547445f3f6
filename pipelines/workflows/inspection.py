"""Inspection of a trace: jobs, users, times, gaps, and the effects of cleaning.

``inspect_trace`` is a pure function of the trace; ``render`` prints the result, ``Inspection.to_json`` gives it to a program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from features.clock import DAY_S, WEEK_S, local_clock_s
from features.errors import InputError
from features.jobs.cleaning import MISSING_REQUEST, clean
from features.jobs.schema import COLUMNS, IDENTITIES, Trace
from pipelines.report.terminal import print_table

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
LONGEST_GAPS = 5
YEAR_S = 365 * DAY_S
"""Waits, runtimes and requests beyond this are reported."""


@dataclass(frozen=True)
class Gap:
    """A time without submissions: from second ``from_s``, ``length_s`` seconds long.

    ``from_local`` is its local date, if known.
    """

    from_s: int
    length_s: int
    from_local: str | None


@dataclass(frozen=True)
class Outlier:
    """Implausible times of one column: ``jobs`` have one of over a year.

    The longest is ``longest_s`` of job ``job_id``.
    """

    jobs: int
    longest_s: int
    job_id: int


@dataclass(frozen=True)
class Cleaning:
    """The effect of one way to treat missing requests: jobs kept, and changes by rule.

    Or why it is ``refused``.
    """

    kept: int
    dropped: Mapping[str, int]
    altered: Mapping[str, int]
    offered_load: float | None = None
    refused: str | None = None


@dataclass(frozen=True)
class Inspection:
    """Facts about a trace as recorded; seconds from its origin unless a name says otherwise.

    ``distributions`` has, for each quantity, its count, mean and :data:`QUANTILES`; ``missing`` the number of jobs without a
    value, by column; ``requests_exceeded`` the number of jobs that ran for longer than they had requested, ``requests_stated``
    those with both values; ``over_a_year`` by column implausible times; ``cleaning`` one entry for each way to treat missing
    requests, ``missing_request`` the chosen one.
    """

    name: str
    source: str
    sha256: str
    generated: bool
    jobs: int
    unreadable_lines: int
    procs: int | None
    origin_unix_s: int | None
    timezone: str | None
    first_submit_s: int
    last_submit_s: int
    first_local: str | None
    last_local: str | None
    out_of_order: int
    distinct: Mapping[str, int]
    gaps: tuple[Gap, ...]
    gaps_over_a_week: int
    distributions: Mapping[str, Mapping[str, float]]
    missing: Mapping[str, int]
    requests_stated: int
    requests_exceeded: int
    over_a_year: Mapping[str, Outlier]
    missing_request: str
    cleaning: Mapping[str, Cleaning]
    notes: tuple[str, ...]
    header: Mapping[str, str]

    @property
    def refused(self) -> str | None:
        """Return why this trace cannot be cleaned as asked, if so."""
        return self.cleaning[self.missing_request].refused

    def to_json(self) -> dict[str, Any]:
        """Return the inspection as an object that JSON can hold."""
        return asdict(self)


def inspect_trace(trace: Trace, procs: int | None = None, missing_request: str = "drop") -> Inspection:
    """Inspect ``trace`` without changing it; ``procs`` overrides the size its source states.

    A trace that cannot be cleaned is inspected too: its refusal is part of the result. Raises InputError only where there are no
    jobs, or where ``missing_request`` is unknown.
    """
    if missing_request not in MISSING_REQUEST:
        raise InputError(f"unknown way to treat missing requests {missing_request!r}; known: {', '.join(MISSING_REQUEST)}")
    jobs = trace.jobs
    if len(jobs) == 0:
        raise InputError(f"{trace.source or trace.name}: has no jobs")
    submit = jobs["submit_s"].to_numpy(np.int64)
    ordered = np.sort(submit)
    silence = np.diff(ordered)
    longest = np.argsort(-silence, kind="stable")[:LONGEST_GAPS]
    both = jobs["runtime_s"].notna() & jobs["requested_s"].fillna(0).gt(0)
    return Inspection(
        name=trace.name,
        source=trace.source,
        sha256=trace.sha256,
        generated=trace.generated,
        jobs=len(jobs),
        unreadable_lines=len(trace.unread),
        procs=procs if procs is not None else trace.procs,
        origin_unix_s=trace.origin_unix_s,
        timezone=trace.timezone,
        first_submit_s=int(ordered[0]),
        last_submit_s=int(ordered[-1]),
        first_local=_local(trace, int(ordered[0])),
        last_local=_local(trace, int(ordered[-1])),
        out_of_order=int((np.diff(submit) < 0).sum()),
        distinct={name: int(jobs[name].nunique()) for name in IDENTITIES},
        gaps=tuple(
            Gap(int(ordered[place]), int(silence[place]), _local(trace, int(ordered[place]))) for place in longest if silence[place]
        ),
        gaps_over_a_week=int((silence > WEEK_S).sum()),
        distributions=_distributions(jobs, silence),
        missing={name: int(jobs[name].isna().sum()) for name in COLUMNS},
        requests_stated=int(both.sum()),
        requests_exceeded=int((jobs["runtime_s"] > jobs["requested_s"])[both].sum()),
        over_a_year=_over_a_year(jobs),
        missing_request=missing_request,
        cleaning={way: _cleaning(trace, procs, way) for way in MISSING_REQUEST},
        notes=trace.notes,
        header=dict(trace.header),
    )


def _over_a_year(jobs: pd.DataFrame) -> dict[str, Outlier]:
    found = {}
    for name in ("wait_s", "runtime_s", "requested_s", "think_s"):
        values = jobs[name].fillna(0).to_numpy(np.int64)
        if count := int((values > YEAR_S).sum()):
            longest = int(np.argmax(values))
            found[name] = Outlier(count, int(values[longest]), int(jobs["job_id"].iloc[longest]))
    return found


def _local(trace: Trace, second: int) -> str | None:
    if trace.origin_unix_s is None:
        return None
    clock = local_clock_s(np.array([second]), trace.origin_unix_s, trace.timezone)[0]
    return str(np.datetime64(int(clock), "s")).replace("T", " ")


def _distributions(jobs: pd.DataFrame, silence: np.ndarray) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    quantities = {
        name: jobs[name].dropna().to_numpy(np.float64)
        for name in ("procs", "allocated_procs", "runtime_s", "requested_s", "wait_s")
    }
    for name, values in {**quantities, "interarrival_s": silence.astype(np.float64)}.items():
        if len(values):
            quantiles = np.quantile(values, QUANTILES, method="inverted_cdf")
            found[name] = {
                "count": len(values),
                "mean": float(values.mean()),
                **{f"q{100 * level:.0f}": float(value) for level, value in zip(QUANTILES, quantiles, strict=True)},
            }
    return found


def _cleaning(trace: Trace, procs: int | None, missing_request: str) -> Cleaning:
    try:
        cleaned = clean(trace, procs, missing_request)
    except InputError as error:
        return Cleaning(0, {}, {}, refused=str(error))
    counts: dict[str, dict[str, int]] = {"dropped": {}, "altered": {}}
    for action, kinds in counts.items():
        rules = cleaned.rejected_jobs.loc[cleaned.rejected_jobs["action"] == action, "rule"]
        kinds.update({str(rule): int(number) for rule, number in rules.value_counts(sort=False).items()})
    jobs = cleaned.jobs
    span = float(np.ptp(jobs["submit_s"].to_numpy()))
    work = float(jobs["procs"].to_numpy(np.float64) @ jobs["runtime_s"].to_numpy(np.float64))
    load = work / (cleaned.procs * span) if span else None
    return Cleaning(len(jobs), counts["dropped"], counts["altered"], load)


def render(inspection: Inspection, console: Console) -> None:
    """Print the inspection as tables."""
    generated = " [yellow](generated)[/yellow]" if inspection.generated else ""
    console.print(f"[bold]{escape(inspection.name)}[/bold]{generated} from {escape(inspection.source)}", highlight=False)
    console.print(_facts(inspection))
    _section(console, "Distributions, in seconds and processors", *_quantiles(inspection))
    if any(inspection.missing.values()):
        _section(console, "Jobs without a value", *_missing(inspection))
    if inspection.gaps:
        _section(console, f"Longest times without submissions ({inspection.gaps_over_a_week:,} of over a week)", *_gaps(inspection))
    _section(console, f"Cleaning, by --missing-request (now {inspection.missing_request})", *_cleanings(inspection))
    refusals: dict[str, list[str]] = {}
    for way, cleaning in inspection.cleaning.items():
        if cleaning.refused:
            refusals.setdefault(cleaning.refused, []).append(way)
    for refusal, ways in refusals.items():
        style = "bold red" if inspection.missing_request in ways else "yellow"
        console.print(f"[{style}]refused with {', '.join(ways)}:[/{style}] {escape(refusal)}", highlight=False)
    if inspection.notes:
        console.print("\n[bold]Notes of the reader[/bold]")
    for note in inspection.notes:
        console.print(escape(note), highlight=False)
    if inspection.header:
        console.print("\n[bold]Header[/bold]", highlight=False)
        console.print(_header(inspection))


def _section(console: Console, title: str, headings: list[str], rows: list[list[str]]) -> None:
    console.print(f"\n[bold]{title}[/bold]", highlight=False)
    print_table(headings, rows, to=console)


def _facts(inspection: Inspection) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    days = (inspection.last_submit_s - inspection.first_submit_s) / DAY_S
    table.add_row("jobs", f"{inspection.jobs:,}")
    table.add_row("processors", "[red]not stated: give --procs N[/red]" if inspection.procs is None else f"{inspection.procs:,}")
    for name, number in inspection.distinct.items():
        table.add_row(f"{name}s", f"{number:,}" if number else "none stated")
    zone = inspection.timezone or "UTC, for want of a time zone"
    dates = f": {inspection.first_local} to {inspection.last_local} ({zone})" if inspection.first_local else "; dates not known"
    table.add_row("submissions", f"over {days:,.1f} days{dates}")
    if inspection.out_of_order:
        table.add_row("", f"{inspection.out_of_order:,} listed after a later one (cleaning sorts them)")
    if inspection.requests_stated:
        share = inspection.requests_exceeded / inspection.requests_stated
        over = f"{inspection.requests_exceeded:,} of {inspection.requests_stated:,} jobs ({share:.1%})"
        table.add_row("request exceeded", f"{over} ran for longer than they had requested")
    for name, outlier in inspection.over_a_year.items():
        longest = f"{outlier.longest_s:,} s ({outlier.longest_s / YEAR_S:,.1f} years) of job {outlier.job_id}"
        jobs = f"{outlier.jobs:,} job{'s' * (outlier.jobs > 1)} of over a year, the longest {longest}: is it a mistake?"
        table.add_row(f"[yellow]{name}[/yellow]", f"[yellow]{jobs}[/yellow]")
    if inspection.sha256:
        table.add_row("sha256", inspection.sha256)
    return table


def _quantiles(inspection: Inspection) -> tuple[list[str], list[list[str]]]:
    levels = ["min" if level == 0 else "max" if level == 1 else f"{level:.0%}" for level in QUANTILES]
    return ["", "jobs", "mean", *levels], [
        [name, *(f"{value:,.1f}" if key == "mean" else f"{value:,.0f}" for key, value in values.items())]
        for name, values in inspection.distributions.items()
    ]


def _missing(inspection: Inspection) -> tuple[list[str], list[list[str]]]:
    return ["column", "jobs", "share"], [
        [name, f"{number:,}", f"{number / inspection.jobs:.1%}"] for name, number in inspection.missing.items() if number
    ]


def _gaps(inspection: Inspection) -> tuple[list[str], list[list[str]]]:
    return ["from", "from second", "days"], [
        [gap.from_local or "", f"{gap.from_s:,}", f"{gap.length_s / DAY_S:,.1f}"] for gap in inspection.gaps
    ]


def _cleanings(inspection: Inspection) -> tuple[list[str], list[list[str]]]:
    ways = inspection.cleaning
    rows = [["read", *(f"{inspection.jobs + inspection.unreadable_lines:,}" for _ in ways)]]
    for action in ("dropped", "altered"):
        for rule in sorted({rule for cleaning in ways.values() for rule in getattr(cleaning, action)}):
            rows.append([f"{action}: {rule}", *(f"{getattr(cleaning, action).get(rule, 0):,}" for cleaning in ways.values())])
    rows.append(["kept", *("refused" if cleaning.refused else f"{cleaning.kept:,}" for cleaning in ways.values())])
    loads = [cleaning.offered_load for cleaning in ways.values()]
    rows.append(["offered load", *("" if load is None else f"{load:.3f}" for load in loads)])
    return ["jobs", *ways], rows


def _header(inspection: Inspection) -> Table:
    table = Table(show_header=False)
    for key, value in inspection.header.items():
        table.add_row(escape(key), escape(value))
    return table
