"""A click group whose commands are imported only when used."""

import gc
import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from features.errors import unknown


@contextmanager
def importing() -> Iterator[None]:
    """Collect no garbage during imports.

    That would take a tenth of a second.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # the first collection need not visit it
        gc.enable()


class LazyGroup(click.Group):
    """The commands named by ``summaries``, each of which is ``<package>.<name>.command``."""

    def __init__(self, *arguments: Any, package: str, summaries: Mapping[str, str], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._package, self._summaries = package, summaries

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._summaries)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._summaries:
            context.fail(str(unknown("command", name, self._summaries)))
        with importing():
            command: click.Command = importlib.import_module(f"{self._package}.{name}").command
        command.name = name
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))
