"""``queuecast variability``: performance variability, from monitoring counters to a scheduler that waits; one file a subcommand."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "ingest": "read counters, control runs and probe results",
    "train": "train classifiers, register them, promote the best by the rule",
    "evaluate": "cross-validate classifiers on the control runs",
    "experiment": "paper 004's experiments on a simulated cluster",
    "emit": "write what monitoring would record of a simulated cluster",
}


class _Lazy(click.Group):
    """A group whose commands live in ``pipelines.cli.variability.<name>`` as ``command``, imported when asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        return importlib.import_module(f"pipelines.cli.variability.{name}").command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group("variability", cls=_Lazy)
def command() -> None:
    """Performance variability: what the machine's counters say about how long a job started now would run."""
