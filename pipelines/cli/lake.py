"""``queuecast lake``: print where each table lies, copy the pages."""

import sys
from pathlib import Path

import click

from pipelines.cli.notes import note


@click.group(invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Print where each published table lies, with its rows and what made it."""
    if context.invoked_subcommand is not None:
        return
    from pipelines.storage.contents import contents
    from pipelines.storage.home import home
    from pipelines.storage.views import write_views

    rows = [(each.subject, each.table, f"{each.rows:,} rows", each.made_by, str(each.path)) for each in contents(home())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:  # no frame, and paths last: they are copied
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    lake = home() / "lake"
    note(f"{lake}: {len(rows):,} tables" + (f"; as views for DuckDB: {write_views(lake)}" if rows else ""))
    sys.stdout.flush()


@command.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def pages(directory: Path) -> None:
    """Copy the published pages into DIRECTORY, to read them without the lake."""
    from pipelines.storage.contents import copy_pages
    from pipelines.storage.home import home

    note(f"{directory.absolute()}: {copy_pages(home(), directory.absolute()):,} pages")
