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
    from pipelines.report.terminal import print_table
    from pipelines.storage.contents import contents
    from pipelines.storage.home import home

    lake = home() / "lake"
    rows = [
        [stored.subject, stored.table, stored.path.relative_to(lake).as_posix(), f"{stored.rows:,}", stored.made_by]
        for stored in contents(home())
    ]
    if rows:
        print_table(["subject", "table", "file", "rows", "made by"], rows, left=("table", "file", "made by"))
    note(f"{lake}: {len(rows):,} tables")
    sys.stdout.flush()


@command.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def pages(directory: Path) -> None:
    """Copy the published pages into DIRECTORY, to read them without the lake."""
    from pipelines.storage.contents import copy_pages
    from pipelines.storage.home import home

    note(f"{directory.absolute()}: {copy_pages(home(), directory.absolute()):,} pages")
