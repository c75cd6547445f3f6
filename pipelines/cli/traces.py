"""``queuecast traces``: list the catalogue."""

from __future__ import annotations

import click

from features.errors import one_line


@click.command()
def command() -> None:
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
                "stated" if entry.checked else "",
                "Queuecast" if entry.stated_in == PACKAGED else entry.stated_in.name,
                state,
            ]
        )
    headings = ["name", "what it is", "processors", "machine", "missing requests", "checksum", "stated in", "state"]
    Table("", headings, rows, left=["what it is", "machine", "missing requests", "checksum", "stated in", "state"]).show()
