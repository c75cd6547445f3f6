"""Who hears of progress: stages say how far they are, and whoever started them decides what to show. Nobody listens by default."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]
"""Called with the stage, how much is done and how much there is."""

_listener: ContextVar[Listener | None] = ContextVar("progress listener", default=None)


def report_progress(stage: str, done: int, total: int) -> None:
    """``done`` of ``total`` steps of ``stage`` are behind us."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


def progress_reporter(stage: str) -> Callable[[int, int], None]:
    """A ``progress(done, total)`` callback for pure functions."""
    return lambda done, total: report_progress(stage, done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have ``listener`` hear of what happens in the body."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
