"""Mutate files of every kind: each is refused in one line, or read as a second reader reads it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

from features.limits import MESSAGE
from tests.campaigns.counts import Counts
from tests.support.command import queuecast
from tests.support.patience import FOREVER_S

ATTEMPTS = 20_000
CASE_S, HANG_S, WARM_S = 20, 600, 1800
"""Seconds after which a case is a finding: interrupted in Python, or its process ended where that does not help.

Kernels may have to be compiled first.
"""
MEMORY = 1 << 30
"""Bytes of address space that a worker may take beyond what it has once warm."""
COMMANDS = 40
"""Every so many-th case also goes through the command line, and every fiftieth of those through one of its own."""
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
    """Read ``attempts`` mutated files."""
    counts = Counts()
    first = 0
    while first < attempts:
        for number, outcome, finding in _worker(first, attempts, seed, folder):
            counts.add(outcome, finding and f"seed {seed}, case {number}: {finding}")
            first = number + 1
    return counts


def _worker(first: int, behind: int, seed: int, folder: Path) -> Iterator[tuple[int, str, str | None]]:
    """Judge cases in a process that may die; yield what became of each, the one of its death included."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            _work(first, behind, seed, folder, writer)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    at, kind, held = first, "warming up", b""
    with contextlib.closing(os.fdopen(reader, "rb", 0)) as pipe:
        while True:
            if not select.select([pipe], [], [], WARM_S if kind == "warming up" else HANG_S)[0]:
                os.kill(child, signal.SIGKILL)
                break
            more = pipe.read(1 << 16)
            if not more:
                break
            *lines, held = (held + more).split(b"\n")
            for line in lines:
                number, *report = json.loads(line)
                if len(report) == 1:
                    at, kind = number, report[0]
                else:
                    yield number, report[0], report[1]
                    at = number + 1
    _, status = os.waitpid(child, 0)
    if kind == "warming up":
        raise RuntimeError("no worker gets warm")
    if at < behind:
        ended = os.waitstatus_to_exitcode(status)
        yield at, f"{kind} died", f"{kind}: the process ended by {ended} or took more than {HANG_S} s"


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


def _work(first: int, behind: int, seed: int, folder: Path, writer: int) -> None:
    warm(folder)
    statm = Path("/proc/self/statm")
    if statm.exists():
        most = int(statm.read_text().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for number in range(first, behind):
        kind, content = case(seed, number)
        _tell(writer, number, kind)
        outcome, finding = judge(kind, content, folder)
        if finding is None and number % COMMANDS == 0:
            finding = _command(kind, folder, alone=number % (50 * COMMANDS) == 0)
        _tell(writer, number, f"{kind} {outcome}", finding and f"{kind}: {finding}")


def _tell(writer: int, *what: object) -> None:
    os.write(writer, json.dumps(what).encode() + b"\n")


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


_COMMANDS = {
    "swf": ["inspect", "{file}"],
    "swf-gz": ["simulate", "{file}", "--missing-request", "runtime"],
    "sacct": ["inspect", "{file}", "--time-zone", "UTC", "--procs", "64"],
    "sacct-gz": ["simulate", "{file}", "--time-zone", "America/Denver", "--procs", "64"],
    "canonical": ["simulate", "{file}", "--json"],
    "canonical-remade": ["inspect", "{file}", "--json"],
    "predictions": ["simulate", "generated", "--predictor", "table:{file}"],
    "submissions": ["predict", "--model", "runtime-none", "{file}"],
    "catalogue": ["traces"],
    "policies": ["policies", "{file}"],
    "systems": ["variability", "ask", "--system", "quartz", "--nodes", "n1"],
}


def _command(kind: str, folder: Path, *, alone: bool) -> str | None:
    """Give the last file to the command line; return what is wrong with the answer."""
    from tests.campaigns.readings import READINGS

    if kind not in _COMMANDS:
        return None
    file = folder / f"case{READINGS[kind].suffix}"
    arguments = [each.format(file=file) for each in _COMMANDS[kind]]
    if kind != "catalogue":
        os.environ.pop("QUEUECAST_CATALOGUE", None)
    if alone:
        done = subprocess.run(
            [sys.executable, "-m", "pipelines", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FOREVER_S,
            check=False,
        )
    else:
        _limited()
        try:
            done = queuecast(*arguments, home=folder / "home")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    code, out, err = done.returncode, done.stdout, done.stderr
    last = err.strip().splitlines()[-1:] or [""]
    if code not in (0, 2) or "defect" in err or "Traceback" in err:
        return f"queuecast {arguments[0]} ends with {code}: {last[0][:300]}"
    if code == 2 and (len(last[0]) > MESSAGE or not last[0].startswith("queuecast: ")):
        return f"queuecast {arguments[0]} refuses with {len(last[0])} characters: {last[0][:200]}"
    if not all(each.isprintable() or each in "\n\t\r" for each in out + err):
        return f"queuecast {arguments[0]} prints control characters"
    return None
