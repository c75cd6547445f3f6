"""Progress on standard error: bars on a terminal, otherwise a line a minute."""

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

from pipelines.cli import note
from pipelines.studies.progress import Listener

if TYPE_CHECKING:
    from rich.progress import TaskID

EVERY_S = 60.0
"""Seconds between lines of progress where there is no terminal."""


@contextmanager
def shown_progress(what: str = "points", doing: str = "simulating", after_s: float = 0.0) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback (steps done, steps in total); show progress after ``after_s`` seconds."""
    began = time.monotonic()
    with stage_bars() as listener:

        def report(done: int, total: int) -> None:
            if time.monotonic() - began >= after_s:
                listener(f"{doing}: {what}", done, total)

        yield report


@contextmanager
def stage_bars() -> Iterator[Listener]:
    """Yield a listener that shows a bar per stage; without a terminal, a line a minute."""
    if not sys.stderr.isatty():
        with _stage_lines() as lines:
            yield lines
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = defaultdict(lambda: bars.add_task("", total=None))
        yield lambda stage, done, total: bars.update(tasks[stage], description=stage, completed=done, total=total)


@contextmanager
def _stage_lines() -> Iterator[Listener]:
    """Yield a listener, and print the stage reported last once a minute."""
    began, over, latest = time.monotonic(), Event(), ["reading the input, or compiling the simulator for its first use"]

    def listener(stage: str, done: int, total: int) -> None:
        latest[0] = f"{stage}, {done:,} of {total:,}"

    def speak() -> None:
        while not over.wait(EVERY_S):
            note(f"after {(time.monotonic() - began) / 60:.0f} min: {latest[0]}")

    speaker = Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield listener
    finally:
        over.set()
        speaker.join()
