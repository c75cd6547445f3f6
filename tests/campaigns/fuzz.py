"""Mutate files of every kind: each is refused in one line, or read as a second reader reads it."""

from __future__ import annotations

import os
import random
import resource
import signal
import traceback
import warnings
from pathlib import Path

from tests.campaigns.counts import Counts

ATTEMPTS = 20_000
CASE_S = 20
"""Seconds of a processor after which a case is a finding."""
MEMORY = 1 << 30
"""Bytes of address space that the process may take beyond what it has once warm."""
CORPUS = Path(__file__).with_name("corpus")


def corpus() -> list[tuple[str, str, Path]]:
    """List what was ever found: kind, what must become of it, and file."""
    return [(path.parent.name, path.name.partition("-")[0], path) for path in sorted(CORPUS.glob("*/*-*"))]


def case(seed: int, number: int) -> tuple[str, bytes]:
    """Return kind and content of a case; it depends on the two numbers alone."""
    from tests.campaigns.readings import READINGS, WEIGHTS, drawn

    r = random.Random(f"{seed} {number}")
    kind = r.choices(list(READINGS), [WEIGHTS.get(name, 1) for name in READINGS])[0]
    return kind, drawn(kind, r)


def campaign(attempts: int, seed: int, folder: Path) -> Counts:
    """Read ``attempts`` mutated files; ``folder/at`` names the one at which a process died."""
    warm(folder)
    statm = Path("/proc/self/statm")
    if statm.exists():
        most = int(statm.read_text().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    counts = Counts()
    for number in range(attempts):
        kind, content = case(seed, number)
        (folder / "at").write_text(f"seed {seed}, case {number}: {kind}")
        outcome, finding = judge(kind, content, folder)
        counts.add(f"{kind} {outcome}", finding and f"seed {seed}, case {number}: {kind}: {finding}")
    return counts


class _TooLongError(BaseException):
    """A case takes too long."""


def warm(folder: Path) -> None:
    """Read every seed in ``folder`` once, so that kernels are compiled; from then on numbers that wrap are errors."""
    os.environ |= {"QUEUECAST_HOME": str(folder / "home")}
    os.chdir(folder)
    import pyarrow as pa

    from tests.campaigns.readings import READINGS, judged

    pa.set_memory_pool(pa.system_memory_pool())
    pa.set_cpu_count(1)
    for kind, reading in READINGS.items():
        for content in reading.seeds():
            judged(kind, content, folder)
    warnings.simplefilter("error", RuntimeWarning)


def _limited() -> None:
    """Raise _TooLongError in some seconds, unless the timer is stopped before."""

    def stop(*_: object) -> None:
        raise _TooLongError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, CASE_S)


def judge(kind: str, content: bytes, folder: Path) -> tuple[str, str | None]:
    """Return what becomes of a file, and what is wrong with that: whatever escapes is a finding."""
    from tests.campaigns.readings import judged

    _limited()
    try:
        return judged(kind, content, folder)
    except _TooLongError:
        return "slow", f"takes more than {CASE_S} s"
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in last if "/site-packages/" not in frame.filename][-1]
        return "escaped", f"{type(error).__name__}: {str(error)[:160]} ({Path(ours.filename).name}:{ours.lineno})"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
