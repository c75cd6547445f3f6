"""Options that several commands share, and the one way a TRACE argument becomes a cleaned trace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from features.cleaning import MISSING_REQUEST, CleanTrace, clean
from pipelines.ingest.read import find_entry, read_trace

if TYPE_CHECKING:
    from rich.console import Console

procs_option = click.option(
    "--procs", type=click.IntRange(min=1), help="Processors of the machine, where the trace does not say or says otherwise."
)
timezone_option = click.option(
    "--time-zone", "timezone", help="IANA time zone of local times in Slurm accounting, such as America/Denver."
)
missing_option = click.option(
    "--missing-request",
    type=click.Choice(MISSING_REQUEST),
    help="Jobs that state no requested time: drop them, take their runtime, or the longest request of their queue. "
    "[default: the catalogue's, else drop]",
)


def trace_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options wherever a trace is read: ``procs``, ``timezone``, ``missing_request``."""
    for option in (missing_option, timezone_option, procs_option):
        command = option(command)
    return command


def console() -> Console:
    """Standard output for tables: as wide as the terminal, or as wide as a table may need where it goes into a file or a pipe."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=250)


def note(text: str) -> None:
    """One line about the work to standard error."""
    print(text, file=sys.stderr)


def load(spec: str, procs: int | None, timezone: str | None, missing_request: str | None) -> CleanTrace:
    """Read and clean TRACE; what was dropped or altered is said on standard error."""
    entry = find_entry(spec)
    trace = read_trace(spec, procs=procs, timezone=timezone)
    cleaned = clean(trace, procs, missing_request or (entry.missing_request if entry else "drop"))
    touched = ", ".join(f"{words} {count:,}" for words, count in cleaned.touched().items())
    note(f"{cleaned.name}: {cleaned.jobs_read:,} jobs read, {len(cleaned.jobs):,} kept" + (f" ({touched})" if touched else ""))
    for text in cleaned.notes:
        note(f"{cleaned.name}: {text}")
    return cleaned
