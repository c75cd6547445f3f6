"""The measurements of ``queuecast bench``: the simulation alone, on one core.

Each workload runs in a process of its own, so that its peak of memory is its own. Workloads are generated (one of them so that
thousands of jobs wait) or available real traces. In a source tree the compiled simulator is also compared with the plain-Python
one of the tests: the same schedule, and how many times as fast.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
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
from sim.names import scheduler as named_scheduler
from sim.schedule import Schedule
from sim.simulate import simulate

SECTIONS = ("figures", "long_queue")
"""Lists of rows: usual workloads, and those with a long queue."""
PATIENCE_S = 60.0
"""Max seconds of simulation after which a scheduler does not repeat a workload."""
ORACLE = Path(__file__).resolve().parents[2] / "tests" / "oracle" / "scheduler.py"
NO_ORACLE = "no oracle here: it comes with the source tree"

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A workload, generated or a TRACE, and the schedulers to measure on it."""

    name: str
    source: Workload | str
    schedulers: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What to measure; cases of the same name are one workload, measured once.

    ``oracle`` must be generated.
    """

    figures: Sequence[Case]
    long_queue: Sequence[Case] = ()
    oracle: Case | None = None


def run(plan: Plan, repeat: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Carry out ``plan`` with ``repeat`` simulations for each figure; return its document.

    ``--out`` writes the document. Raises InputError for what cannot be read, and RuntimeError where simulator and oracle
    disagree.
    """
    document: dict[str, Any] = {"queuecast": code_version(), **machine(), "repeat": repeat}
    cases = merged((*plan.figures, *plan.long_queue))
    if plan.oracle is not None:
        document["oracle"] = {"rows": [], "left_out": [], "note": NO_ORACLE}
        if ORACLE.is_file():
            say(f"{plan.oracle.name}: the same schedules as the oracle's, and how much faster")
            document["oracle"] = apart(plan.oracle.name, compare_with_oracle, plan.oracle, repeat, ORACLE)
    rows: dict[str, list[Row]] = {}
    for case in sorted(
        cases.values(), key=lambda case: isinstance(case.source, Workload)
    ):  # traces, which may be unreadable, come first
        say(f"{case.name}: {', '.join(case.schedulers)}")
        rows[case.name], notes = apart(case.name, measure, case, repeat)
        for text in notes:
            say(f"{case.name}: {text}")
    for section in SECTIONS:
        document[section] = [
            row for case in getattr(plan, section) for row in rows[case.name] if row["scheduler"] in case.schedulers
        ]
    return document


def merged(cases: Iterable[Case]) -> dict[str, Case]:
    """Return cases by name, those of the same workload merged.

    InputError if a name has two workloads.
    """
    table: dict[str, Case] = {}
    for case in cases:
        known = table.setdefault(case.name, case)
        if known.source != case.source:
            raise InputError(f"{known.source} and {case.source} would both be called {case.name}: rename one of the files")
        table[case.name] = replace(case, schedulers=tuple(dict.fromkeys((*known.schedulers, *case.schedulers))))
    return table


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
    """Return the workload of ``case``, cleaned; InputError if it cannot be read."""
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
    """Return mean and max of the jobs submitted and not started.

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
        stated = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        stated = None
    if stated:
        return int(stated[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def compare_with_oracle(case: Case, repeat: int, path: Path) -> dict[str, Any]:
    """Return how many times as fast as the oracle at ``path`` the simulator is, by scheduler.

    The oracle is the plain-Python simulator. Raises RuntimeError if a schedule is not the same. Schedulers unknown to the oracle
    are listed as ``left_out``.
    """
    oracle = _module(path)
    workload = prepared(case)
    columns = [workload.jobs[name].tolist() for name in ("submit_s", "runtime_s", "procs", "requested_s")]
    rows, left_out = [], []
    for scheduler in case.schedulers:
        plan = named_scheduler(scheduler)
        if plan.algorithm not in oracle.ALGORITHMS or not {plan.order.name, plan.backfill.name} <= oracle.ORDERS.keys():
            left_out.append(scheduler)
            continue
        row = _row(case.name, workload, scheduler, repeat)
        policy = {"algorithm": plan.algorithm, "order": plan.order.name, "backfill": plan.backfill.name}
        began = time.perf_counter()
        expected = oracle.simulate(*columns, workload.procs, reservations=plan.reservations, **policy)[0]
        seconds = time.perf_counter() - began
        made = _simulated(workload, scheduler).jobs["start_s"].to_numpy()
        if (different := np.flatnonzero(made != np.array(expected))).size:
            job = workload.jobs["job_id"].iloc[int(different[0])]
            raise RuntimeError(
                f"{scheduler}: {different.size} of {len(made)} jobs do not start when the oracle says, first job {job}"
            )
        rows.append({**row, "oracle_s": seconds, "times": seconds / row["median_s"]})
    return {"rows": rows, "left_out": left_out, "note": ""}


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("_queuecast_oracle", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def machine() -> dict[str, Any]:
    """Return the machine and software of the figures, and the date.

    ``load_average`` is the minute's before the benchmark began.
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
