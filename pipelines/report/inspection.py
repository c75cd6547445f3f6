"""Inspection of a trace: jobs, users, times, gaps, effects of cleaning, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from features.clock import DAY_S, WEEK_S, local_clock_s
from features.errors import InputError, one_line
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import ASKED, COLUMNS, IDENTITIES, Trace
from features.jobs.usage import Usage, advised, occupied, occupied_apart, offered_load, usage
from features.limits import MISSING_REQUEST
from pipelines.report.table import Table

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
LONGEST_GAPS = 5


@dataclass(frozen=True)
class Gap:
    """A time without submissions: from second ``from_s``, ``length_s`` seconds long.

    ``from_local`` is its local date, if known.
    """

    from_s: int
    length_s: int
    from_local: str | None


@dataclass(frozen=True)
class Cleaning:
    """What cleaning does: jobs kept, and changes by rule.

    ``refused`` says why the trace is refused, if it is.
    """

    kept: int
    dropped: Mapping[str, int]
    altered: Mapping[str, int]
    offered_load: float | None = None
    refused: str | None = None


@dataclass(frozen=True)
class Inspection:
    """Facts about a trace as recorded; seconds from its origin unless a name says otherwise.

    ``usage`` is the use at once by its records, ``occupied`` the
    allocated over the requested work. ``distributions`` has, for each quantity, its count, mean and :data:`QUANTILES`;
    ``missing`` the number of jobs without a value, by column; ``requests_exceeded`` the number of jobs that ran for longer than
    they had requested, ``requests_stated`` those with both values. ``cleaning`` is by ``missing_request``, the way to treat missing
    requests.
    """

    name: str
    source: str
    sha256: str
    generated: bool
    jobs: int
    unreadable_lines: int
    procs: int | None
    advised_procs: int | None
    procs_reason: str
    origin_unix_s: int | None
    timezone: str | None
    usage: Usage
    occupied: float | None
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
    missing_request: str
    cleaning: Cleaning
    notes: tuple[str, ...]
    header: Mapping[str, str]


def inspect_trace(trace: Trace, procs: int | None = None, missing_request: str = "drop") -> Inspection:
    """Inspect ``trace`` without changing it; ``procs`` overrides the size its source states.

    If no size is stated, jobs are cleaned for the advised number of processors. A trace that cannot be cleaned is inspected, too: its
    refusal is part of the result. Raises InputError only if there are no jobs, or if ``missing_request`` is unknown.
    """
    if missing_request not in MISSING_REQUEST:
        raise InputError(f"unknown way to treat missing requests {missing_request!r}; known: {', '.join(MISSING_REQUEST)}")
    jobs = trace.jobs
    if len(jobs) == 0:
        raise InputError(f"{trace.source or trace.name}: has no jobs")
    used, stated_procs = usage(jobs), procs if procs is not None else trace.procs
    advice = advised(jobs, stated_procs, used.procs)
    procs = stated_procs if stated_procs is not None else advice.procs
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
        procs=stated_procs,
        advised_procs=advice.procs,
        procs_reason=advice.reason,
        origin_unix_s=trace.origin_unix_s,
        timezone=trace.timezone,
        usage=used,
        occupied=occupied(jobs),
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
        missing_request=missing_request,
        cleaning=_cleaning(trace, procs, missing_request),
        notes=trace.notes,
        header=dict(trace.header),
    )


def _local(trace: Trace, second: int) -> str | None:
    if trace.origin_unix_s is None:
        return None
    clock = local_clock_s(np.array([second]), trace.origin_unix_s, trace.timezone)[0]
    return str(np.datetime64(int(clock), "s")).replace("T", " ")


def _distributions(jobs: pd.DataFrame, silence: np.ndarray) -> dict[str, dict[str, float]]:
    distributions: dict[str, dict[str, float]] = {}
    quantities = {
        name: jobs[name].dropna().to_numpy(np.float64)
        for name in ("procs", "allocated_procs", "runtime_s", "requested_s", "wait_s")
    }
    for name, values in {**quantities, "interarrival_s": silence.astype(np.float64)}.items():
        if len(values):
            quantiles = np.quantile(values, QUANTILES, method="inverted_cdf")
            distributions[name] = {
                "count": len(values),
                "mean": float(values.mean()),
                **{f"q{100 * level:.0f}": float(value) for level, value in zip(QUANTILES, quantiles, strict=True)},
            }
    return distributions


def _cleaning(trace: Trace, procs: int | None, missing_request: str) -> Cleaning:
    """Return what cleaning keeps and changes, or why it refuses the trace."""
    try:
        cleaned: CleanTrace = clean(trace, procs, missing_request)
    except InputError as error:
        return Cleaning(0, {}, {}, refused=str(error))
    counts: dict[str, dict[str, int]] = {"dropped": {}, "altered": {}}
    by_rule: dict[Any, Any] = cleaned.counts().to_dict()
    for (action, rule), number in by_rule.items():
        counts[action][rule] = int(number)
    return Cleaning(len(cleaned.jobs), counts["dropped"], counts["altered"], offered_load(cleaned.jobs, cleaned.procs))


_LONGEST = 1000
"""Max characters of a note, and of a value of the header."""


def render(inspection: Inspection, console: Console) -> None:
    """Print the inspection as tables."""
    generated = " [yellow](generated)[/yellow]" if inspection.generated else ""
    console.print(f"[bold]{escape(inspection.name)}[/bold]{generated} from {escape(inspection.source)}", highlight=False)
    console.print(_facts(inspection))
    for table in (
        _quantiles(inspection),
        _missing(inspection),
        _gaps(inspection),
        _cleaned(inspection),
    ):
        _show(table, console)
    if inspection.cleaning.refused:
        console.print(f"[bold red]refused:[/bold red] {escape(inspection.cleaning.refused)}", highlight=False)
    if inspection.notes:
        console.print("\n[bold]Notes of the reader[/bold]")
    for note in inspection.notes:
        console.print(escape(one_line(note, _LONGEST)), highlight=False)
    header = [
        [one_line(key), value if len(value) <= _LONGEST else one_line(value, _LONGEST)] for key, value in inspection.header.items()
    ]
    _show(Table("Header", ["name", "value"], header, left=["value"]), console)


def _show(table: Table, console: Console) -> None:
    if table.rows:
        console.print(f"\n[bold]{table.title}[/bold]", highlight=False)
        replace(table, title="").show(console)


def _facts(inspection: Inspection) -> Grid:
    """Return the lines above the tables: names and their values."""
    grid = Grid.grid(padding=(0, 2))
    days = (inspection.last_submit_s - inspection.first_submit_s) / DAY_S
    grid.add_row("jobs", f"{inspection.jobs:,}")
    for line in _use(inspection):
        grid.add_row(*line)
    for name, number in inspection.distinct.items():
        grid.add_row(f"{name}s", f"{number:,}" if number else "none stated")
    zone = inspection.timezone or "UTC, as no time zone is known"
    dates = f": {inspection.first_local} to {inspection.last_local} ({zone})" if inspection.first_local else "; dates not known"
    grid.add_row("submissions", f"over {days:,.1f} days{dates}")
    if inspection.out_of_order:
        grid.add_row("", f"{inspection.out_of_order:,} listed after a later one (cleaning sorts them)")
    if inspection.requests_stated:
        share = inspection.requests_exceeded / inspection.requests_stated
        over = f"{inspection.requests_exceeded:,} of {inspection.requests_stated:,} jobs ({share:.1%})"
        grid.add_row("request exceeded", f"{over} ran for longer than they had requested")
    if inspection.sha256:
        grid.add_row("sha256", inspection.sha256)
    return grid


def _use(inspection: Inspection) -> Iterator[tuple[str, str]]:
    """Yield lines on the use at once, the machine's size, waits, and missing or odd values."""
    use, size, apart = inspection.usage, inspection.procs, occupied_apart(inspection.occupied)
    for what, held in (("processors", use.procs), ("nodes", use.nodes)):
        if held is not None:
            yield f"{what} in use", f"at most {held.high:,} for 99.9 % of the time"
    advice, reason = inspection.advised_procs, inspection.procs_reason
    if advice == size and size is not None:
        yield "processors", f"{size:,}, {reason}: no --procs needed"
    else:
        yield "processors", f"[red]give --procs {'N' if advice is None else advice}: {reason}[/red]"
    if apart:
        yield "requests", f"[red]{apart}[/red]"
    waited = (
        "no waits recorded"
        if use.waited is None
        else f"{use.waited:.1%} of {use.jobs:,} jobs with a known start waited over a minute"
    )
    yield "waits", waited
    cleaning = inspection.cleaning
    if not cleaning.refused:
        read, dropped = inspection.jobs + inspection.unreadable_lines, sum(cleaning.dropped.values())
        odd = f"{dropped:,} of {read:,} jobs ({dropped / read:.1%}) are dropped, {sum(cleaning.altered.values()):,} values altered"
        yield "missing or odd", odd


def _quantiles(inspection: Inspection) -> Table:
    levels = ["min" if level == 0 else "max" if level == 1 else f"{level:.0%}" for level in QUANTILES]
    rows = [
        [name, *(f"{value:,.1f}" if key == "mean" else f"{value:,.0f}" for key, value in values.items())]
        for name, values in inspection.distributions.items()
    ]
    return Table("Distributions, in seconds and processors", ["", "jobs", "mean", *levels], rows)


def _missing(inspection: Inspection) -> Table:
    rows = [
        [name, f"{number:,}", f"{number / inspection.jobs:.1%}"]
        for name, number in inspection.missing.items()
        if number and not (name in ASKED and number == inspection.jobs)  # few sources state these at all
    ]
    return Table("Jobs without a value", ["column", "jobs", "share"], rows)


def _gaps(inspection: Inspection) -> Table:
    rows = [[gap.from_local or "", f"{gap.from_s:,}", f"{gap.length_s / DAY_S:,.1f}"] for gap in inspection.gaps]
    title = f"Longest times without submissions ({inspection.gaps_over_a_week:,} of over a week)"
    return Table(title, ["from", "from second", "days"], rows)


def _cleaned(inspection: Inspection) -> Table:
    cleaning, read = inspection.cleaning, inspection.jobs + inspection.unreadable_lines
    rows = [["read", f"{read:,}"]]
    for action, counts in (("dropped", cleaning.dropped), ("altered", cleaning.altered)):
        rows += [[f"{action}: {rule}", f"{count:,}"] for rule, count in sorted(counts.items())]
    rows.append(["kept", "refused" if cleaning.refused else f"{cleaning.kept:,}"])
    if cleaning.offered_load is not None:
        rows.append(["offered load", f"{cleaning.offered_load:.3f}"])
    return Table(f"Cleaning, with --missing-request {inspection.missing_request}", ["", "jobs"], rows)
