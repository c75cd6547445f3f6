"""``queuecast lake``: list the lake, remove files that nothing names, copy its pages."""

import sys
from pathlib import Path

import click

from pipelines.cli.notes import note
from pipelines.cli.options import Duration


@click.group(invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List the subjects in the lake, and what readers may still hold of each."""
    if context.invoked_subcommand is not None:
        return
    from pipelines.report.terminal import print_table
    from pipelines.storage.collecting import contents
    from pipelines.storage.home import home

    subjects = contents(home())
    rows = [
        [each.name, each.version, each.made_by, _size(each.bytes), str(each.held), _size(each.held_bytes), _size(each.loose_bytes)]
        for each in subjects
    ]
    headings = ["subject", "version", "made by", "size", "held besides", "their size", "named by nothing"]
    if rows:
        print_table(headings, rows, left=("version", "made by"))
    total = sum(each.bytes + each.held_bytes + each.loose_bytes for each in subjects)
    note(f"{home() / 'lake'}: {len(subjects):,} subjects, {_size(total)}")
    sys.stdout.flush()


@command.command()
@click.option(
    "--older-than", "older_s", type=Duration(), default="0s", help="Only what was written so long ago, such as 7d or 12h."
)
@click.option("--dry-run", "dry", is_flag=True, help="Say what would be removed, and remove nothing.")
def collect(older_s: float, dry: bool) -> None:
    """Remove files that no version or draft names any more.

    Replaced versions stay for $QUEUECAST_LAKE_KEEP_H hours, by default a day at an object store, and none in a directory.
    """
    from pipelines.storage.collecting import collected
    from pipelines.storage.home import home

    files = size = 0
    for subject, gone in collected(home(), older_s, dry):
        if gone:
            click.echo(f"{subject}: {len(gone):,} files, {_size(sum(each.bytes for each in gone))}")
        files, size = files + len(gone), size + sum(each.bytes for each in gone)
    note(
        f"{home() / 'lake'}: {files:,} files, {_size(size)} ({size:,} bytes) {'would be' if dry else ''} removed".replace("  ", " ")
    )
    sys.stdout.flush()


@command.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def pages(directory: Path) -> None:
    """Copy the published pages into DIRECTORY, to read them without the lake."""
    from pipelines.storage.collecting import copy_pages
    from pipelines.storage.home import home

    note(f"{directory.absolute()}: {copy_pages(home(), directory.absolute()):,} pages")


def _size(count: int) -> str:
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if count >= 10**power:
            return f"{count / 10**power:.1f} {unit}"
    return f"{count} B"
