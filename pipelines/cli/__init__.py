"""The command line, whose commands are imported only when used.

The file of a command declares options, and its function imports what the command needs: a page of help or a wrong
option costs a tenth of a second.

A full disk, a database or server in trouble and too little memory are no defects of Queuecast; they are known by the
classes of errors. Any other error is one, and its traceback follows the one line about it.
"""

import gc
import importlib
import json
import math
import os
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from features.errors import InputError, masked, one_line, printable, unknown


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
    """A group of commands whose modules are imported only when used.

    ``commands`` has the module of this package and the summary of each by its name, which is also the function's.
    """

    def __init__(self, *arguments: Any, commands: Mapping[str, tuple[str, str]], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._commands = commands

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._commands)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._commands:
            context.fail(str(unknown("command", name, self._commands)))
        with importing():
            return getattr(importlib.import_module(f"{__name__}.{self._commands[name][0]}"), name)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self._commands.items()])


def note(text: str) -> None:
    """Print one line about the work to standard error."""
    print(printable(text), file=sys.stderr)


def record(fields: Any) -> None:
    """Print one JSON object as a line to standard output, with null for NaN."""
    click.echo(json.dumps(_plain(fields)))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value


_COMMANDS = {
    "run": ("run", "materialise the whole pipeline"),
    "simulate": ("simulate", "schedule a trace under schedulers and predictors"),
    "evaluate": ("evaluate", "judge the predictions of runtime predictors on a trace"),
    "inspect": ("traces", "say what is in a trace before anything runs"),
    "traces": ("traces", "list the catalogue"),
    "predict": ("registry", "predict runtimes with a registered model"),
    "serve": ("web", "answer over HTTP from registered models, following their aliases"),
    "fetch": ("traces", "download a trace of the catalogue, checked"),
    "campaign": ("campaign", "compare many combinations over the weeks or months of a trace"),
    "parity": ("site", "say how far replays of a Slurm site are from its accounting"),
    "limits": ("site", "say which time limits users could ask for, and how much sooner their jobs would start"),
    "whatif": ("site", "say what a site should change, what it would bring, and at whose cost"),
    "when": ("when", "say when the jobs of a queue start, and what would start sooner"),
    "machine": ("site", "show what the files of a Slurm site say, and how to make them"),
    "policies": ("registry", "learn an order of waiting jobs on a trace, and write it"),
    "nights": ("nights", "replay a trace night by night: retrain, judge, promote or refresh, report"),
    "variability": ("variability", "performance variability: counters, control runs, models"),
    "doctor": ("lake", "say whether what is published and served is whole, or go back"),
    "lake": ("lake", "say where each published table lies"),
    "ui": ("web", "start the web server on what was materialised"),
}
"""The module and the summary of each command."""


def _tell_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version, in a git checkout with its commit, and end."""
    if wanted:
        from pipelines import code_version

        click.echo(f"queuecast {code_version()}")
        context.exit()


@click.group(cls=LazyGroup, commands=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_tell_version, help="Print the version and its commit."
)
def cli() -> None:
    """Learn job runtimes from a cluster's logs; simulate what better predictions change.

    Runtimes are predicted for jobs at submission; simulations measure what the predictions do to the schedule.
    """
    from pipelines.readers import site_file

    site_file.apply()


def main() -> None:
    """Run the command line.

    It prints one line for any error. The exit code is 2 for bad input, and 0 only if everything requested was done.
    """
    os.umask(0o077)  # what is written holds users' names and accounting
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to look for them reads the metadata of all packages
    for ending in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # Dagster gives SIGTERM the handler of SIGINT, which a shell's background job ignores
        signal.signal(ending, signal.default_int_handler)
    gc.disable()  # until the command is imported: collections during imports take a tenth of a second
    try:
        cli(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except (Exception, KeyboardInterrupt) as error:
        code = tell(error)
        # wait until Arrow's threads have released Python objects: a thread that needs the interpreter later aborts the process
        time.sleep(0.02)
        sys.exit(code)
    finally:
        gc.enable()


BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
"""Exit codes: for bad input, for any other error, and the shell's for Ctrl-C."""
_ELSEWHERE = {"aiobotocore", "aiohttp", "botocore", "mlflow", "psycopg2", "requests", "s3fs", "urllib3"}
"""Packages whose errors are those of a database, a registry or an object store."""
_PLACES = (FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError)


def tell(error: BaseException) -> int:
    """Print one line about what ended a command on standard error; return the exit code."""
    code, line = _ordinary(error) or (FAILED, "")
    if not line:
        print(masked("".join(traceback.format_exception(error))), file=sys.stderr)
        line = "a defect of Queuecast's own: please report what is above to the project (see CONTRIBUTING.md)"
    print(one_line(f"queuecast: {line}"), file=sys.stderr)
    return code


def _ordinary(error: BaseException) -> tuple[int, str] | None:
    """Return the exit code and the line of an error that is no defect, else None."""
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return INTERRUPTED, "interrupted"
    error = getattr(error, "user_exception", error)  # Dagster's wrapper of what a resource or an asset raised
    if isinstance(error, InputError):
        return BAD_INPUT, str(error)
    if isinstance(error, click.ClickException):  # click's own words about arguments
        hint = f" (see {error.ctx.command_path} --help)" if isinstance(error, click.UsageError) and error.ctx else ""
        return BAD_INPUT, one_line(error.format_message(), 240) + hint
    for cause in _chain(error):
        if line := _trouble(type(cause), masked(str(cause))):
            return FAILED, line
        if isinstance(cause, OSError) and cause.errno:
            place = "" if cause.filename is None else f"{cause.filename}: "
            return BAD_INPUT if isinstance(cause, _PLACES) else FAILED, f"{place}{cause.strerror}"
    return None


def _trouble(kind: type[BaseException], message: str) -> str | None:
    """Return the line for a class of errors of memory, databases and servers, else None."""
    if issubclass(kind, MemoryError):
        return "there is not enough memory: give it more, or a shorter trace"
    if issubclass(kind, sqlite3.Error):
        return f"a database of the site: {message}; `queuecast doctor` examines it"
    if kind.__module__.partition(".")[0] in _ELSEWHERE:
        return f"a database, a registry or an object store does not answer as it should: {one_line(message, 200)}"
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, innermost last, including that of a database driver (``orig``)."""
    met: set[int] = set()
    while error is not None and id(error) not in met:
        met.add(id(error))
        yield error
        error = getattr(error, "orig", None) or error.__cause__ or error.__context__
