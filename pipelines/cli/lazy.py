"""A click group whose commands are imported only when used."""

import gc
import importlib
from collections.abc import Mapping
from typing import Any

import click

from features.errors import unknown


class LazyGroup(click.Group):
    """The commands named by ``summaries``, each of which is ``<package>.<name>.command``."""

    def __init__(self, *given: Any, package: str, summaries: Mapping[str, str], **more: Any) -> None:
        super().__init__(*given, **more)
        self._package, self._summaries = package, summaries

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._summaries)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._summaries:
            context.fail(str(unknown("command", name, self._summaries)))
        command: click.Command = importlib.import_module(f"{self._package}.{name}").command
        command.name = name
        if gc.get_freeze_count() == 0:
            gc.freeze()  # imported objects stay: the first collection need not visit them
        gc.enable()  # the command line disabled it for the imports
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))
