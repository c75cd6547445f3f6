"""Measure the simulation alone, on one core: jobs a second of each algorithm.

Each workload runs in a process of its own, so that its peak of memory is its own. Workloads are generated (two of them so that
thousands of jobs wait) or given traces. Run with ``python -m benchmarks.speed.simulator [TRACE]... [--repeat N] [--out FILE.json]``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from features.jobs.cleaning import CleanTrace, clean
from pipelines import code_version, software
from pipelines.lake import places
from pipelines.readers.read import find_entry, read_trace
from pipelines.readers.text import trace_name
from pipelines.report.table import Table
from sim.schedule import Schedule
from sim.simulation import simulate
from sim.workloads.workload import Workload, generate

SCHEDULERS = ("EASY", "EASY-SJBF", "EASY(reservations=4)", "JustBF", "SAF-JustBF", "Conservative", "WFP3-EASY", "List", "Strict")
LASTING = ("EASY", "EASY-SJBF", "List")
"""Algorithms for long workloads and long queues. With others, a pass grows with the queue, or the queue grows without end."""
PLANNING = ("JustBF", "SAF-JustBF", "Conservative")
PROCS = 256
FULL = 1.02
"""Offered load of the workload with a long queue. Of 300,000 jobs on 256 processors under EASY, 2,900 wait on average, and more
than 1,000 for nine tenths of the time. At 0.98, more than 1,000 wait for half of the time; at 1.1, up to 13,000 wait."""
DEEP = 2.0
"""Offered load of the long queue for planning algorithms. Of 40,000 jobs on 256 processors, some 5,000 wait under JustBF."""

PATIENCE_S = 60.0
"""Seconds of simulation after which a scheduler does not repeat a workload."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A workload, generated or a TRACE, and the schedulers to measure on it."""

    name: str
    source: Workload | str
    schedulers: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", help="traces to measure besides the generated workloads")
    parser.add_argument("--repeat", type=int, default=5, help="simulations; the median is reported")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures, the machine and the software")
    options = parser.parse_args()
    rows = [row for case in plan(options.traces) for row in apart(measure, case, options.repeat)]
    table(rows).show()
    if options.out is not None:
        document = {"queuecast": code_version(), **machine(), "repeat": options.repeat, "figures": rows}
        places.write(options.out, json.dumps(document, indent=1) + "\n")


def plan(traces: Sequence[str]) -> list[Case]:
    """Return the cases to measure."""
    return [
        Case("generated-28k", Workload(28_481, 100, generator=1), SCHEDULERS),
        *(Case(trace_name(trace), trace, SCHEDULERS) for trace in traces),
        Case("generated-300k", Workload(300_000, PROCS, generator=1), LASTING),
        Case("generated-300k-full", Workload(300_000, PROCS, load=FULL, generator=1), LASTING),
        Case("generated-40k-deep", Workload(40_000, PROCS, load=DEEP, generator=1), PLANNING),
    ]


def table(rows: Sequence[Row]) -> Table:
    """Return the figures as a table."""
    columns = {
        "trace": "{trace}",
        "scheduler": "{scheduler}",
        "jobs": "{jobs:,}",
        "waiting, mean": "{waiting_mean:,.0f}",
        "waiting, max": "{waiting_max:,}",
        "seconds": "{median_s:.4f}",
        "fastest": "{fastest_s:.4f}",
        "slowest": "{slowest_s:.4f}",
        "jobs/s": "{jobs_per_s:,.0f}",
        "peak GiB": "{peak_gib:.2f}",
    }
    return Table.of("Simulation alone, one core, median", columns, rows, keys=2)


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call ``function(*arguments)`` in a new process; raise its exceptions here."""
    unheard = (signal.SIGINT, signal.SIG_DFL)  # the parent reports an interrupt
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=signal.signal, initargs=unheard) as pool:
        return pool.submit(function, *arguments).result()


def measure(case: Case, repeat: int) -> list[Row]:
    """Return a row for each scheduler of ``case``.

    Call it in a process of its own: see ``peak_gib``.
    """
    workload = prepared(case)
    rows = [_row(case.name, workload, scheduler, repeat) for scheduler in case.schedulers]
    peak = peak_bytes() / 2**30  # generating or reading, cleaning and simulating, interpreter and libraries included
    return [{**row, "peak_gib": peak} for row in rows]


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


if __name__ == "__main__":
    main()
