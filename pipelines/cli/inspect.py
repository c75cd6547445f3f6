"""``queuecast inspect``: the content of a trace, before anything runs."""

import json
from dataclasses import asdict

import click

from pipelines.cli.options import json_option, load_machine, options, read
from sim.settings import Campaign, TraceSettings


@click.command()
@click.argument("trace")
@options(Campaign, *(name for name in TraceSettings.model_fields if name != "trace"), "machine")
@json_option
def command(settings: Campaign, as_json: bool) -> None:
    """Report jobs, users, spans and gaps of TRACE, and the jobs that cleaning would change.

    Each rule that rejects or alters jobs has their number and a reason. With a machine of clusters, the jobs' requests are shown.
    """
    from pipelines.report.inspection import render
    from pipelines.report.terminal import console
    from pipelines.studies.inspection import inspect_trace

    trace, missing_request = read(settings)
    inspection = inspect_trace(trace, settings.procs, missing_request, load_machine(settings))
    if as_json:
        click.echo(json.dumps(asdict(inspection)))
        return
    render(inspection, console())
