"""Progress on standard error: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pipelines.cli.notes import note

EVERY_S = 10.0
"""Seconds between lines of progress where there is no terminal."""


@contextmanager
def shown_progress(what: str = "points", doing: str = "simulating", after_s: float = 0.0) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for steps done and in all; show it from ``after_s`` on."""
    began = time.monotonic()
    if not sys.stderr.isatty():
        told = began + after_s - EVERY_S if after_s else began
        first: int | None = None

        def line(done: int, total: int) -> None:
            nonlocal told, first
            first = done if first is None else first  # resumed points took no time in this run
            now = time.monotonic()
            if now - told >= EVERY_S or (done == total and not after_s):
                told = now
                left = f", about {(now - began) / (done - first) * (total - done):,.0f} s left" if first < done < total else ""
                note(f"{done:,} of {total:,} {what}{left}")

        yield line
        return
    with ExitStack() as stack:
        shown: list[Callable[[int, int], None]] = []

        def bar(done: int, total: int) -> None:
            if not shown and time.monotonic() - began >= after_s:
                shown.append(_bar(doing, stack))
            if shown:
                shown[0](done, total)

        yield bar


def _bar(doing: str, stack: ExitStack) -> Callable[[int, int], None]:
    """Return the callback of a bar that disappears with ``stack``."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    bars = stack.enter_context(Progress(*columns, console=Console(stderr=True)))
    task = bars.add_task("", total=None)
    return lambda done, total: bars.update(task, completed=done, total=total)
