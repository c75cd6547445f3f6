"""``queuecast when``: when the jobs of a queue start, and changes for an earlier start."""

import click

from pipelines.cli import importing
from pipelines.cli.options import json_option, options
from pipelines.readers.slurm import COMMAND
from pipelines.studies.questions import WhenSettings


@click.command(epilog=f"A Slurm site makes the snapshot with:\n\n\b\n{COMMAND}")
@click.argument("trace")
@options(WhenSettings)
@json_option
def when(settings: WhenSettings, as_json: bool) -> None:
    """Predict when jobs of the queue of TRACE start.

    For a Slurm site, whose files the catalogue or --machine names, its own scheduler runs ahead for up to a day; TRACE
    may be its accounting. Otherwise TRACE was run before, and the registered model start-TRACE answers. An answer has
    the median, intervals, chances, the quality of such answers in the last 30 days and, for one job, changes for an
    earlier start. It is logged like those of queuecast serve, and judged once the job has started.
    """
    with importing():  # a wrong option is refused before pandas is imported
        from pipelines.cli.when_answers import tell

    tell(settings, as_json)
