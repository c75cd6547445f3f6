"""``queuecast traces``: the catalogue."""

from __future__ import annotations

import click

from pipelines.terminal import console


@click.command()
def command() -> None:
    """List every trace known by name: what it is, where it is, and whether it is at hand."""
    from rich.table import Table

    from pipelines.catalogue import load_catalogue

    table = Table(box=None, pad_edge=False)
    for heading in ("name", "what it is", "processors", "missing requests", "state"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "processors")
    for name, entry in load_catalogue().items():
        if entry.format == "generated":
            state = "generated when read"
        elif entry.path.exists():
            state = str(entry.path)
        else:
            state = f"queuecast fetch {name}" if entry.remote else f"missing: {entry.path}"
        table.add_row(name, entry.title, str(entry.procs or ""), entry.missing_request, state)
    console().print(table)
