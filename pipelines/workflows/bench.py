"""The measurements of ``queuecast bench``: the simulation alone, on one core.

Each workload runs in a process of its own, so that its peak of memory is its own. Workloads are generated (two of them so that
thousands of jobs wait) or available real traces.
"""

import os
import platform
import re
import signal
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from features.errors import InputError
from features.jobs.cleaning import CleanTrace, clean
from pipelines.ingest.read import find_entry, read_trace
from pipelines.ingest.workload import Workload, generate
from pipelines.storage.provenance import code_version, software
from sim.schedule import Schedule
from sim.simulate import simulate

PATIENCE_S = 60.0
"""Seconds of simulation after which a scheduler does not repeat a workload."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A workload, generated or a TRACE, and the schedulers to measure on it."""

    name: str
    source: Workload | str
    schedulers: tuple[str, ...]


def run(cases: Sequence[Case], repeat: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure ``cases``; return the machine, the software and ``figures``.

    Each figure is of ``repeat`` simulations; they are in the order of ``cases``. Raises InputError for unreadable traces.
    """
    rows: dict[str, list[Row]] = {}
    before = machine()
    for case in sorted(cases, key=lambda case: isinstance(case.source, Workload)):  # traces, which may be unreadable, come first
        say(f"{case.name}: {', '.join(case.schedulers)}")
        rows[case.name], notes = apart(case.name, measure, case, repeat)
        for text in notes:
            say(f"{case.name}: {text}")
    figures = [row for case in cases for row in rows[case.name]]
    return {"queuecast": code_version(), **before, "repeat": repeat, "figures": figures}


def apart(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call ``function(*arguments)`` in a new process; raise its exceptions here."""
    unheard = (signal.SIGINT, signal.SIG_DFL)  # the parent reports an interrupt
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=signal.signal, initargs=unheard) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool as error:
            raise InputError(f"{name}: the process that measured it was ended from outside: is there enough memory?") from error


def measure(case: Case, repeat: int) -> tuple[list[Row], list[str]]:
    """Return a row for each scheduler of ``case``, and notes about the workload.

    Call it in a process of its own: see ``peak_gib``.
    """
    workload = prepared(case)
    rows = [_row(case.name, workload, scheduler, repeat) for scheduler in case.schedulers]
    peak = peak_bytes() / 2**30  # generating or reading, cleaning and simulating, interpreter and libraries included
    touched = ", ".join(f"{words} {count:,}" for words, count in workload.touched().items())
    notes = [f"{workload.jobs_read:,} jobs read, {len(workload.jobs):,} kept ({touched})"] if touched else []
    notes += [] if workload.generated else workload.notes
    return [{**row, "peak_gib": peak} for row in rows], notes


def prepared(case: Case) -> CleanTrace:
    """Return the cleaned workload of ``case``; raise InputError if it cannot be read."""
    if isinstance(case.source, Workload):
        return clean(generate(case.source))
    entry = find_entry(case.source)
    return clean(read_trace(case.source), missing_request=entry.missing_request if entry else "drop")


def _row(name: str, workload: CleanTrace, scheduler: str, repeat: int) -> Row:
    simulate(workload.jobs.head(100), procs=workload.procs, scheduler=scheduler)  # compile or load first
    schedule = _simulated(workload, scheduler)
    waiting_mean, waiting_max = waiting(schedule)
    seconds = [schedule.simulate_s]
    del schedule  # else it counts in the peak of the next one
    while len(seconds) < repeat and sum(seconds) < PATIENCE_S:
        seconds.append(_simulated(workload, scheduler).simulate_s)
    return {
        "trace": name,
        "generated": workload.generated,
        "source": workload.source,
        "procs": workload.procs,
        "jobs": len(workload.jobs),
        "scheduler": scheduler,
        "waiting_mean": waiting_mean,
        "waiting_max": waiting_max,
        "median_s": statistics.median(seconds),
        "fastest_s": min(seconds),
        "slowest_s": max(seconds),
        "repeat": len(seconds),
        "jobs_per_s": len(workload.jobs) / statistics.median(seconds),
    }


def _simulated(workload: CleanTrace, scheduler: str) -> Schedule:
    return simulate(workload.jobs, procs=workload.procs, scheduler=scheduler)


def waiting(schedule: Schedule) -> tuple[float, int]:
    """Return the mean and max number of jobs submitted and not started.

    The mean is over the time from the first submission to the last start.
    """
    submit = schedule.jobs["submit_s"].to_numpy(np.int64)
    start = np.sort(schedule.jobs["start_s"].to_numpy(np.int64))
    longest = np.searchsorted(submit, submit, "right") - np.searchsorted(start, submit, "right")
    return float((start.sum() - submit.sum()) / max(start[-1] - submit[0], 1)), int(longest.max())


def peak_bytes() -> int:
    """Return the max memory of this process.

    Linux's getrusage would include the parent's memory when it started this process.
    """
    try:
        match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        match = None
    if match:
        return int(match[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine() -> dict[str, Any]:
    """Return the machine and software of the figures, and the date.

    ``load_average`` is that of the minute before the call.
    """
    cpus = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", cpus.read_text()) if cpus.is_file() else None
    return {
        "machine": {
            "processor": named[1] if named else platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "system": platform.platform(),
        },
        "software": software(),
        "load_average": round(os.getloadavg()[0], 2),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
