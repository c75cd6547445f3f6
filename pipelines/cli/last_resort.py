"""Print one line for an error that ends a command: its cause, and what to do about it.

A full disk, a locked or damaged database and too little memory are no defects of Queuecast. An error that is unknown here is one.
"""

import os
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import click

from features.errors import InputError, masked, one_line
from pipelines.cli.interrupts import INTERRUPTED
from pipelines.storage.remote import is_outage

BAD_INPUT, FAILED = 2, 1
"""Exit codes: for bad input, and for any other error except Ctrl-C."""
SHOW = "QUEUECAST_TRACEBACK"
"""Environment variable that shows the traceback of a defect."""
_CAUSES = {
    r"No space left|\[Errno 28\]|database or disk is full|Disk quota exceeded": (
        "no room is left on the disk: free some and run it again; what was published before is unchanged"
    ),
    r"database (table )?is locked|database schema is locked": (
        "a database of the site is locked by another program: wait until that ends, or end it, and run it again"
    ),
    r"disk image is malformed|file is not a database|malformed database schema|disk I/O error": (
        "a database of the site is damaged: `queuecast doctor` says which and how to mend it"
    ),
    r"readonly database|unable to open database file": (
        "a database of the site cannot be opened for writing: `queuecast doctor` says which and how to mend it"
    ),
    r"MemoryError|malloc of size|Unable to allocate|bad_alloc|Cannot allocate memory": (
        "there is not enough memory: give it more, or a shorter trace"
    ),
    r"Too many open files": "too many files are open: raise the limit with `ulimit -n 4096` and run it again",
    r"\[Errno 5\]|Input/output error": "the disk reports an error of reading or writing: look at the disk before you run it again",
    r"Read-only file system": "the file system is mounted for reading only: nothing can be written there",
}


_SERVER = re.compile(r"API request to (?P<server>https?://[^/\s]+)\S* failed")


def known_cause(message: str) -> str | None:
    """Return the line for a failure of the machine or a registry's server; None for a defect."""
    if gone := _SERVER.search(message):
        return (
            f"registry {masked(gone['server'])}: does not answer: run it again when it does; what was published before is unchanged"
        )
    return next((line for pattern, line in _CAUSES.items() if re.search(pattern, message)), None)


def tell(error: BaseException) -> int:
    """Print one line about what ended a command on standard error; return the exit code."""
    code, line = _exit_line(error)
    print(one_line(f"queuecast: {line}"), file=sys.stderr)
    return code


def _exit_line(error: BaseException) -> tuple[int, str]:
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return INTERRUPTED, "interrupted"
    if isinstance(error, InputError):
        return BAD_INPUT, str(error)
    if isinstance(error, click.ClickException):  # click's own words about arguments
        hint = f" (see {error.ctx.command_path} --help)" if isinstance(error, click.UsageError) and error.ctx else ""
        return BAD_INPUT, one_line(error.format_message(), 240) + hint
    for each in _chain(error):
        if cause := known_cause(f"{type(each).__name__}: {each}"):
            where = getattr(each, "filename", None)
            return FAILED, f"{where}: {cause}" if where else cause
        if is_outage(each):
            return FAILED, (
                f"an object store, database or server does not answer as it should: {one_line(masked(str(each)), 200)}; run it again when it "
                "does; what was published before is unchanged"
            )
    if isinstance(error, OSError) and error.filename is not None:
        return BAD_INPUT, f"{error.filename}: {error.strerror}"
    if os.environ.get(SHOW):
        traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1:]
    at = f" ({Path(last[0].filename).name}:{last[0].lineno})" if last else ""
    return FAILED, (
        f"{type(error).__name__}{at}: {one_line(str(error), 120)}; a defect of Queuecast's own, please report it; {SHOW}=1 shows more"
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, including the error of a database driver (``orig``)."""
    met: set[int] = set()
    while error is not None and id(error) not in met:
        met.add(id(error))
        yield error
        error = getattr(error, "orig", None) or error.__cause__ or error.__context__
