"""``queuecast inspect``: the content of a trace, before anything runs."""

import json
from dataclasses import asdict

import click

from pipelines.cli.options import json_option, options, read
from sim.settings import TraceSettings


@click.command()
@click.argument("trace")
@options(TraceSettings)
@json_option
def command(settings: TraceSettings, as_json: bool) -> None:
    """Report jobs, users, spans and gaps of TRACE, and the jobs that cleaning would change.

    Each rule that rejects or alters jobs has their number.
    """
    from pipelines.report.inspection import render
    from pipelines.report.terminal import console
    from pipelines.studies.inspection import inspect_trace

    trace, missing_request = read(settings)
    inspection = inspect_trace(trace, settings.procs, missing_request)
    if as_json:
        click.echo(json.dumps(asdict(inspection)))
        return
    render(inspection, console())
