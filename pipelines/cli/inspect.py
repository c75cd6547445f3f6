"""``queuecast inspect``: what is in a trace, before anything runs."""

from __future__ import annotations

import json

import click

from pipelines.cli.options import counted, trace_options


@click.command()
@click.argument("trace")
@trace_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(trace: str, procs: int | None, timezone: str | None, missing_request: str | None, as_json: bool) -> None:
    """Say what is in TRACE: jobs, users, spans, gaps, and what would be rejected or altered and why."""
    from pipelines.ingest.read import find_entry, read_trace
    from pipelines.report.terminal import console
    from pipelines.workflows.inspection import inspect_trace, render

    entry = find_entry(trace)
    found = inspect_trace(
        read_trace(trace, procs=procs, timezone=timezone, **counted()),
        procs,
        missing_request or (entry.missing_request if entry else "drop"),
    )
    if as_json:
        click.echo(json.dumps(found.to_json()))
        return
    render(found, console())
