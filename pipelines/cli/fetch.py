"""``queuecast fetch``: download a trace of the catalogue."""

import click

from pipelines.cli.notes import note


@click.command()
@click.argument("name")
def command(name: str) -> None:
    """Download the trace NAME from its address in the catalogue, and check it.

    If its checksum is unknown, the first download's is recorded, and later downloads are checked against it.
    """
    from pipelines.sources.catalogue import load_catalogue
    from pipelines.sources.fetch import fetch
    from pipelines.storage.home import archive

    click.echo(fetch(name, load_catalogue(), archive(), note))
