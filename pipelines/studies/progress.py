"""Progress reports: stages report to a listener, if one is set by the caller."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]
"""Called with the stage, the steps done and the total."""

_listener: ContextVar[Listener | None] = ContextVar("progress listener", default=None)


def report_progress(stage: str, done: int, total: int) -> None:
    """Report ``done`` of ``total`` steps of ``stage``."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


def progress_reporter(stage: str) -> Callable[[int, int], None]:
    """Return a ``progress(done, total)`` callback for pure functions."""
    return lambda done, total: report_progress(stage, done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send reports made in the body to ``listener``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
