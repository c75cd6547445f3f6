"""``queuecast variability``: from monitoring counters to a scheduler that waits.

Performance variability; one file per subcommand.
"""

import click

from pipelines.cli.lazy import LazyGroup

_COMMANDS = {
    "ingest": "read counters, control runs and probe results",
    "evaluate": "cross-validate classifiers on the control runs",
    "ask": "would a job vary if it started now? The champion's answer",
    "emit": "write what monitoring would record of a simulated cluster",
}


@click.group("variability", cls=LazyGroup, package=__name__, summaries=_COMMANDS)
def command() -> None:
    """Performance variability: predict from counters whether a job would run slow."""
