"""``queuecast traces``: list the catalogue; forget a trace that was run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from features.errors import one_line
from pipelines.cli.notes import note

if TYPE_CHECKING:
    pass


@click.command()
@click.option(
    "--forget", metavar="NAME", help="Forget that a trace was run: no night runs it; its tables, reports and models stay."
)
def command(forget: str | None) -> None:
    """List every trace known by name: what it is, where it is, and whether it is available."""
    if forget is not None:
        from pipelines.readers.traces import forget as forget_trace

        note(f"{forget}: forgotten: {'; '.join(forget_trace(forget))}. Its tables, reports and models stay.")
        return
    _list()


def _list() -> None:
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
