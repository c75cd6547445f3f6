"""Commands about traces: ``queuecast traces``, ``inspect``, ``fetch``."""

from __future__ import annotations

import click

from features.errors import one_line
from pipelines.cli import note
from pipelines.cli.options import options, read
from sim.settings import TraceSettings


@click.command()
def traces() -> None:
    """List every trace known by name: what it is, where it is, and whether it is available."""
    from pipelines.readers.catalogue import MADE, PACKAGED, load_catalogue
    from pipelines.report.table import Table

    rows = []
    for name, entry in load_catalogue().items():
        if entry.format in MADE:
            state = f"{entry.format} when read"
        elif entry.path.exists():
            state = str(entry.path)
        else:
            state = f"queuecast fetch {name}" if entry.remote else f"missing: {entry.path}"
        machine = entry.machine_path.name if entry.machine else ""
        rows.append(
            [
                name,
                one_line(entry.title),
                str(entry.procs or ""),
                machine,
                entry.missing_request,
                "Queuecast" if entry.stated_in == PACKAGED else entry.stated_in.name,
                state,
            ]
        )
    headings = ["name", "what it is", "processors", "machine", "missing requests", "stated in", "state"]
    Table("", headings, rows, left=["what it is", "machine", "missing requests", "stated in", "state"]).show()


@click.command()
@click.argument("trace")
@options(TraceSettings)
def inspect(settings: TraceSettings) -> None:
    """Report jobs, users, spans and gaps of TRACE, and the jobs that cleaning would change.

    Each rule that rejects or alters jobs has their number.
    """
    from pipelines.report.inspection import inspect_trace, render
    from pipelines.report.table import console

    trace, missing_request = read(settings)
    render(inspect_trace(trace, settings.procs, missing_request), console())


@click.command()
@click.argument("name")
def fetch(name: str) -> None:
    """Download the trace NAME from its address in the catalogue, and check it.

    If the catalogue states no checksum, the download is not checked, and its checksum is printed.
    """
    from pipelines.lake.places import archive
    from pipelines.readers.catalogue import load_catalogue
    from pipelines.readers.fetch import fetch

    click.echo(fetch(name, load_catalogue(), archive(), note))
