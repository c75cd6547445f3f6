"""``queuecast lake``: print where each table lies."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from pipelines.cli.notes import note


@click.command()
def command() -> None:
    """Print where each published table lies, with its rows and what made it."""
    from pipelines.lake.home import home
    from pipelines.lake.views import write_views

    lake = home() / "lake"
    rows = [*contents(lake)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:  # no frame, and paths last: they are copied
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    note(f"{lake}: {len(rows):,} tables" + (f"; as views for DuckDB: {write_views(lake)}" if rows else ""))
    sys.stdout.flush()


def contents(lake: Path) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield subject, name, rows, maker and path of each table that is published.

    Parts of counters are left out.
    """
    import pyarrow.parquet as pq

    from pipelines.lake.parquet import told_of
    from pipelines.lake.places import inside, opened
    from pipelines.lake.version import COUNTERS_PART, PAGES
    from pipelines.lake.versions import Versions

    for pointer in inside(lake / "current"):
        if pointer.suffix != ".json" or pointer.name.startswith("."):
            continue
        current = Versions(lake, pointer.stem).current()
        for table, file in sorted(current.files.items()):
            if table.startswith(PAGES) or COUNTERS_PART.fullmatch(table):
                continue
            path = lake / file
            with told_of(path), opened(path) as content:
                rows = pq.read_metadata(content).num_rows
            yield pointer.stem, table, f"{rows:,} rows", current.made_by, str(path)
