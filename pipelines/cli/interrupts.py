"""End a command within two seconds of Ctrl-C, also in libraries and compiled code."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

GRACE_S = 1.0
"""Seconds for a command to end by itself, and then for its clean-up, before the process is ended."""
INTERRUPTED = 130
"""The shell's exit code for a process that SIGINT ended."""


@contextmanager
def prompt_interrupt(clean_up: Callable[[], object] = lambda: None, grace_s: float = GRACE_S) -> Iterator[None]:
    """End the process soon after SIGINT if the body does not end.

    The body gets KeyboardInterrupt as usual. If that is held back (Dagster captures the signal while a step runs), ``clean_up``
    runs after ``grace_s`` seconds in its own thread, has as long again, and the process exits with :data:`INTERRUPTED`. What is
    published is written in one step, so nothing is left half done.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    over = threading.Event()

    def watch() -> None:
        while numbers := reader.recv(64):
            if signal.SIGINT in numbers:
                break
        else:
            return
        if over.wait(grace_s):
            return
        cleaning = threading.Thread(target=_quietly, args=(clean_up,), daemon=True)
        cleaning.start()
        cleaning.join(grace_s)
        if not over.is_set():
            print("\nqueuecast: interrupted", file=sys.stderr, flush=True)
            os._exit(INTERRUPTED)

    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=watch, name="interrupts", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        writer.close()


def _quietly(clean_up: Callable[[], object]) -> None:
    with suppress(Exception):  # the process ends in any case, in the state that a kill would leave
        clean_up()
