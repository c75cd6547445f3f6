"""``queuecast fetch``: download a trace of the catalogue."""

import click

from pipelines.cli.notes import note


@click.command()
@click.argument("name")
def command(name: str) -> None:
    """Download the trace NAME from where the catalogue says it is, and check it.

    Where its checksum is unknown, that of the first download is recorded, and later ones are checked against it.
    """
    from pipelines.sources.catalogue import load_catalogue
    from pipelines.sources.fetch import fetch
    from pipelines.storage.home import archive

    click.echo(fetch(name, load_catalogue(), archive(), note))
