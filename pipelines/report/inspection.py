"""Inspection of a trace: jobs, users, times, gaps, effects of cleaning, as tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from features.clock import DAY_S, WEEK_S, local_clock_s
from features.errors import InputError, one_line
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import ASKED, COLUMNS, IDENTITIES, Trace
from features.jobs.usage import advised, occupied, occupied_apart, offered_load, usage
from features.limits import MISSING_REQUEST
from pipelines.report.table import Table

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
LONGEST_GAPS = 5
_LONGEST = 1000
"""Max characters of a note, and of a value of the header."""


class Inspection(NamedTuple):
    """What is in a trace: facts by name, tables, and why it is refused, "" if it is not.

    Facts and the refusal have rich's markup.
    """

    trace: Trace
    facts: list[tuple[str, str]]
    tables: list[Table]
    refused: str


def inspect_trace(trace: Trace, procs: int | None = None, missing_request: str = "drop") -> Inspection:
    """Inspect ``trace`` without changing it; ``procs`` overrides the size its source states.

    If no size is stated, jobs are cleaned for the advised number of processors. A trace that cannot be cleaned is
    inspected, too: its refusal is part of the result. Raises InputError only if there are no jobs, or if
    ``missing_request`` is unknown.
    """
    if missing_request not in MISSING_REQUEST:
        raise InputError(f"unknown way to treat missing requests {missing_request!r}; known: {', '.join(MISSING_REQUEST)}")
    jobs = trace.jobs
    if len(jobs) == 0:
        raise InputError(f"{trace.source or trace.name}: has no jobs")
    size = procs if procs is not None else trace.procs
    advice = advised(jobs, size, usage(jobs).procs)
    cleaned, refused = None, ""
    try:
        cleaned = clean(trace, size if size is not None else advice.procs, missing_request)
    except InputError as error:
        refused = str(error)
    silence = np.diff(np.sort(jobs["submit_s"].to_numpy(np.int64)))
    facts = [
        ("jobs", f"{len(jobs):,}"),
        *_use(trace, size, cleaned),
        *_people_and_times(trace),
        *([("sha256", trace.sha256)] if trace.sha256 else []),
    ]
    tables = [_quantiles(jobs, silence), _missing(jobs), _gaps(trace, silence), _cleaned(trace, cleaned, missing_request)]
    return Inspection(trace, facts, tables, refused)


def _use(trace: Trace, size: int | None, cleaned: CleanTrace | None) -> Iterator[tuple[str, str]]:
    """Yield lines on the use at once, the machine's size, waits, and missing or odd values."""
    jobs = trace.jobs
    use = usage(jobs)
    for what, held in (("processors", use.procs), ("nodes", use.nodes)):
        if held is not None:
            yield f"{what} in use", f"at most {held.high:,} for 99.9 % of the time"
    advice = advised(jobs, size, use.procs)
    if advice.procs == size and size is not None:
        yield "processors", f"{size:,}, {advice.reason}: no --procs needed"
    else:
        yield "processors", f"[red]give --procs {'N' if advice.procs is None else advice.procs}: {advice.reason}[/red]"
    if apart := occupied_apart(occupied(jobs)):
        yield "requests", f"[red]{apart}[/red]"
    share = None if use.waited is None else f"{use.waited:.1%} of {use.jobs:,} jobs with a known start waited over a minute"
    yield "waits", share or "no waits recorded"
    if cleaned is not None:
        read, counts = len(jobs) + len(trace.unread), cleaned.counts()
        dropped, altered = (int(counts.get(action, pd.Series(dtype=int)).sum()) for action in ("dropped", "altered"))
        yield "missing or odd", f"{dropped:,} of {read:,} jobs ({dropped / read:.1%}) are dropped, {altered:,} values altered"


def _people_and_times(trace: Trace) -> Iterator[tuple[str, str]]:
    """Yield lines on users and the like, the span of submissions, and exceeded requests."""
    jobs = trace.jobs
    for name in IDENTITIES:
        number = int(jobs[name].nunique())
        yield f"{name}s", f"{number:,}" if number else "none stated"
    submit = jobs["submit_s"].to_numpy(np.int64)
    zone = trace.timezone or "UTC, as no time zone is known"
    first, last = int(submit.min()), int(submit.max())
    dates = f": {_local(trace, first)} to {_local(trace, last)} ({zone})"
    dates = dates if trace.origin_unix_s is not None else "; dates not known"
    yield "submissions", f"over {(last - first) / DAY_S:,.1f} days{dates}"
    if out_of_order := int((np.diff(submit) < 0).sum()):
        yield "", f"{out_of_order:,} listed after a later one (cleaning sorts them)"
    both = jobs["runtime_s"].notna() & jobs["requested_s"].fillna(0).gt(0)
    if count := int(both.sum()):
        exceeded = int((jobs["runtime_s"] > jobs["requested_s"])[both].sum())
        over = f"{exceeded:,} of {count:,} jobs ({exceeded / count:.1%})"
        yield "request exceeded", f"{over} ran for longer than they had requested"


def _local(trace: Trace, second: int) -> str:
    """Return a second as the site's clock shows it, "" without dates."""
    if trace.origin_unix_s is None:
        return ""
    clock = local_clock_s(np.array([second]), trace.origin_unix_s, trace.timezone)[0]
    return str(np.datetime64(int(clock), "s")).replace("T", " ")


def _quantiles(jobs: pd.DataFrame, silence: np.ndarray) -> Table:
    levels = ["min" if level == 0 else "max" if level == 1 else f"{level:.0%}" for level in QUANTILES]
    names = ("procs", "allocated_procs", "runtime_s", "requested_s", "wait_s")
    quantities = {name: jobs[name].dropna().to_numpy(np.float64) for name in names}
    rows = []
    for name, values in {**quantities, "interarrival_s": silence.astype(np.float64)}.items():
        if len(values):
            quantiles = np.quantile(values, QUANTILES, method="inverted_cdf")
            rows.append([name, f"{len(values):,}", f"{values.mean():,.1f}", *(f"{value:,.0f}" for value in quantiles)])
    return Table("Distributions, in seconds and processors", ["", "jobs", "mean", *levels], rows)


def _missing(jobs: pd.DataFrame) -> Table:
    counts = {name: int(jobs[name].isna().sum()) for name in COLUMNS}
    rows = [
        [name, f"{count:,}", f"{count / len(jobs):.1%}"]
        for name, count in counts.items()
        if count and not (name in ASKED and count == len(jobs))  # few sources state these at all
    ]
    return Table("Jobs without a value", ["column", "jobs", "share"], rows)


def _gaps(trace: Trace, silence: np.ndarray) -> Table:
    ordered = np.sort(trace.jobs["submit_s"].to_numpy(np.int64))
    longest = [place for place in np.argsort(-silence, kind="stable")[:LONGEST_GAPS] if silence[place]]
    rows = [[_local(trace, int(ordered[at])), f"{ordered[at]:,}", f"{silence[at] / DAY_S:,.1f}"] for at in longest]
    title = f"Longest times without submissions ({int((silence > WEEK_S).sum()):,} of over a week)"
    return Table(title, ["from", "from second", "days"], rows)


def _cleaned(trace: Trace, cleaned: CleanTrace | None, missing_request: str) -> Table:
    rows = [["read", f"{len(trace.jobs) + len(trace.unread):,}"]]
    if cleaned is None:
        rows.append(["kept", "refused"])
    else:
        for action in ("dropped", "altered"):
            counts = cleaned.counts().get(action, pd.Series(dtype=int)).sort_index()
            rows += [[f"{action}: {rule}", f"{count:,}"] for rule, count in counts.items()]
        rows.append(["kept", f"{len(cleaned.jobs):,}"])
        if (load := offered_load(cleaned.jobs, cleaned.procs)) is not None:
            rows.append(["offered load", f"{load:.3f}"])
    return Table(f"Cleaning, with --missing-request {missing_request}", ["", "jobs"], rows)


def render(inspection: Inspection, console: Console) -> None:
    """Print the inspection."""
    trace = inspection.trace
    generated = " [yellow](generated)[/yellow]" if trace.generated else ""
    console.print(f"[bold]{escape(trace.name)}[/bold]{generated} from {escape(trace.source)}", highlight=False)
    grid = Grid.grid(padding=(0, 2))
    for fact in inspection.facts:
        grid.add_row(*fact)
    console.print(grid)
    for table in inspection.tables:
        _show(table, console)
    if inspection.refused:
        console.print(f"[bold red]refused:[/bold red] {escape(inspection.refused)}", highlight=False)
    if trace.notes:
        console.print("\n[bold]Notes of the reader[/bold]")
    for note in trace.notes:
        console.print(escape(one_line(note, _LONGEST)), highlight=False)
    header = [
        [one_line(key), value if len(value) <= _LONGEST else one_line(value, _LONGEST)] for key, value in trace.header.items()
    ]
    _show(Table("Header", ["name", "value"], header, left=["value"]), console)


def _show(table: Table, console: Console) -> None:
    if table.rows:
        console.print(f"\n[bold]{table.title}[/bold]", highlight=False)
        replace(table, title="").show(console)
