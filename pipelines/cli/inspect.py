"""``queuecast inspect``: the content of a trace, before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pipelines.cli.options import counted, load_machine, machine_option, trace_options


@click.command()
@click.argument("trace")
@trace_options
@machine_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    trace: str,
    procs: int | None,
    timezone: str | None,
    missing_request: str | None,
    machine_file: Path | None,
    as_json: bool,
) -> None:
    """Report jobs, users, spans and gaps of TRACE, and the jobs that cleaning would change.

    For each rule that rejects or alters jobs it says how many and why, and with a machine of clusters what the jobs ask of it.
    """
    from pipelines.ingest.read import find_entry, read_trace
    from pipelines.report.inspection import render
    from pipelines.report.terminal import console
    from pipelines.workflows.inspection import inspect_trace

    entry = find_entry(trace)
    machine = load_machine(machine_file, procs)
    found = inspect_trace(
        read_trace(trace, procs=procs, timezone=timezone, **counted()),
        procs,
        missing_request or (entry.missing_request if entry else "drop"),
        machine,
    )
    if as_json:
        click.echo(json.dumps(found.to_json()))
        return
    render(found, console())
