"""The inspection of a trace as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from features.clock import DAY_S
from features.errors import one_line
from features.jobs.schema import ASKED
from features.jobs.usage import occupied_apart
from pipelines.report.table import Table
from pipelines.studies.inspection import QUANTILES, Inspection

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
        _cleanings(inspection),
    ):
        _show(table, console)
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
    cleaning = inspection.cleaning[inspection.missing_request]
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


def _cleanings(inspection: Inspection) -> Table:
    ways, title = inspection.cleaning, f"Cleaning, by --missing-request (now {inspection.missing_request})"
    present = ways[inspection.missing_request]
    if all(cleaning == present for cleaning in ways.values()):  # each job states a request
        ways, title = {"": present}, "Cleaning"
    rows = [["read", *(f"{inspection.jobs + inspection.unreadable_lines:,}" for _ in ways)]]
    for action in ("dropped", "altered"):
        for rule in sorted({rule for cleaning in ways.values() for rule in getattr(cleaning, action)}):
            rows.append([f"{action}: {rule}", *(f"{getattr(cleaning, action).get(rule, 0):,}" for cleaning in ways.values())])
    rows.append(["kept", *("refused" if cleaning.refused else f"{cleaning.kept:,}" for cleaning in ways.values())])
    loads = [cleaning.offered_load for cleaning in ways.values()]
    rows.append(["offered load", *("" if load is None else f"{load:.3f}" for load in loads)])
    return Table(title, ["jobs", *ways], rows)
