"""The inspection of a trace as tables on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from features.clock import DAY_S
from pipelines.report.terminal import print_table
from pipelines.workflows.inspection import QUANTILES, YEAR_S, Inspection


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
