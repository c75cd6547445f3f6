"""Wait for other processes. Times are so long that a busy machine is no failure."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")

FOREVER_S = 3600.0
"""Max seconds of a program with processes of its own."""
GIVEN_S = 1800.0
"""Max seconds for one thing that is waited for."""


def wait_until(over: Callable[[], _T], report: Callable[[], object] = str, *, seconds: float = GIVEN_S, every_s: float = 0.1) -> _T:
    """Return what ``over`` returns once that is true; AssertionError, with what ``report`` tells, after ``seconds``."""
    last = time.monotonic() + seconds
    while not (answer := over()):
        if time.monotonic() > last:
            raise AssertionError(f"what is waited for hangs: {report()}")
        time.sleep(every_s)
    return answer


def run(
    command: Sequence[str | Path], place: Path, *, cwd: Path | None = None, env: Mapping[str, str] | None = None, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` to its end, by default in ``place``; ``given`` is what it reads. It is killed where it hangs."""
    return subprocess.run(
        command, cwd=cwd or place, env=env, input=given, capture_output=True, text=True, check=False, timeout=FOREVER_S
    )
