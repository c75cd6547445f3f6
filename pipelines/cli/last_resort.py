"""Print one line for an error that ends a command.

A full disk, a database or server in trouble and too little memory are no defects of Queuecast; they are known by the classes of
errors. Any other error is one, and its traceback follows.
"""

import sqlite3
import sys
import traceback
from collections.abc import Iterator

import click

from features.errors import InputError, masked, one_line

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
