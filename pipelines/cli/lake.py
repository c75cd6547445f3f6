"""``queuecast lake``: print where each table lies."""

import sys

import click

from pipelines.cli.notes import note


@click.command()
def command() -> None:
    """Print where each published table lies, with its rows and what made it."""
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
