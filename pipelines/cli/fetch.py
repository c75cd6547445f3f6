"""``queuecast fetch``: download a trace of the catalogue."""

import click

from pipelines.cli.notes import note


@click.command()
@click.argument("name")
def command(name: str) -> None:
    """Download the trace NAME from its address in the catalogue, and check it.

    If its checksum is unknown, the first download's is recorded, and later downloads are checked against it.
    """
    from pipelines.lake.home import archive
    from pipelines.readers.catalogue import load_catalogue
    from pipelines.readers.fetch import fetch

    click.echo(fetch(name, load_catalogue(), archive(), note))
