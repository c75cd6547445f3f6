"""``queuecast bench``: jobs a second of each algorithm, on generated workloads and traces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from features.errors import InputError
from pipelines.cli.options import check_outputs, note, without_policies
from pipelines.ingest.read import find_entry
from pipelines.ingest.source import trace_name
from pipelines.ingest.workload import Workload
from pipelines.report.bench import listings, render
from pipelines.sources.catalogue import load_catalogue
from pipelines.storage import atomic
from pipelines.workflows.bench import FORMAT, SECTIONS, Case, Key, Plan, key, merged, run
from sim.names import scheduler as named_scheduler

SCHEDULERS = ("EASY", "EASY-SJBF", "EASY(reservations=4)", "JustBF", "SAF-JustBF", "Conservative", "WFP3-EASY", "List", "Strict")
LASTING = ("EASY", "EASY-SJBF", "List")
"""Algorithms for long workloads and long queues: the others' passes grow with the queue, or their queue grows without end."""
PLANNING = ("JustBF", "SAF-JustBF", "Conservative")
AGAINST_ORACLE = ("EASY", "EASY-SJBF", "List", "JustBF", "Conservative")
PROCS = 256
FULL = 1.02
"""Offered load of the workload whose queue is long. Of 300,000 jobs on 256 processors under EASY 2,900 wait on average, more than 1,000
for nine tenths of the time; at 0.98 that is half of the time, at 1.1 up to 13,000 wait."""
DEEP = 2.0
"""Offered load of the workload whose queue is long for algorithms that plan it: of 40,000 jobs on 256 processors some 5,000 wait under JustBF."""
REAL = ("kth-sp2", "sdsc-sp2")
"""Prefixes of the names of traces that are measured where available."""
GROWTH = (3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
PLANNING_UP_TO = 100_000


@click.command()
@click.option("--trace", "traces", multiple=True, help="A trace to measure besides the generated workloads; may be repeated.")
@click.option("--scheduler", "schedulers", multiple=True, help="Instead of one of each algorithm; may be repeated.")
@click.option(
    "--repeat", type=click.IntRange(min=1), default=5, show_default=True, help="Number of simulations; the median is reported."
)
@click.option("--large", is_flag=True, help="Add a workload of 10 million generated jobs.")
@click.option("--quick", is_flag=True, help="Small workloads only, in under a minute.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures to this JSON file.")
@click.option("--against", type=click.Path(path_type=Path, dir_okay=False), help="Compare with the figures of an earlier run.")
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), help="Write a page; measures cost by number of jobs too."
)
def command(
    traces: tuple[str, ...],
    schedulers: tuple[str, ...],
    repeat: int,
    large: bool,
    quick: bool,
    out: Path | None,
    against: Path | None,
    report: Path | None,
) -> None:
    """Measure the simulator: jobs a second on one core, the simulation alone, the median."""
    if large and quick:
        raise click.UsageError("--large and --quick exclude each other")
    check_outputs({"--out": out, "--report": report}, traces)
    earlier, elsewhere = read_stored(against) if against else ({}, {})
    document = run(plan(traces, without_policies(schedulers), large=large, quick=quick, growth=report is not None), repeat, note)
    if against and elsewhere != document["machine"]:
        note(f"{against}: measured on another machine: {', '.join(map(str, elsewhere.values()))}")
    for listing in listings(document, earlier):
        listing.show()
    if out is not None:
        write(out, json.dumps(document, indent=1) + "\n")
    if report is not None:
        write(report, render(document, earlier, str(against or "")))


def plan(traces: Sequence[str], schedulers: Sequence[str], *, large: bool, quick: bool, growth: bool) -> Plan:
    """Return what to measure; InputError for an unknown trace or scheduler."""
    catalogue = load_catalogue()
    real = {name: name for name, entry in catalogue.items() if name.startswith(REAL) and entry.place and entry.path.exists()}
    given = []
    for trace in traces:
        entry = find_entry(trace, catalogue)
        listed = entry is not None and catalogue[entry.name] is entry
        given.append((entry.name, entry.name) if entry and listed else (trace_name(trace), trace))
    named = [named_scheduler(name) for name in schedulers]
    lasting = tuple(one.name for one in named if one.algorithm in ("EASY", "List") and one.reservations == 1)
    planning = tuple(one.name for one in named if one.algorithm in ("JustBF", "Conservative"))

    def generated(jobs: int, default: Sequence[str], procs: int = PROCS, load: float = Workload.load, suffix: str = "") -> Case:
        return Case(f"generated-{_size(jobs)}{suffix}", Workload(jobs, procs, load=load, generator=1), tuple(schedulers or default))

    kth = generated(28_481, SCHEDULERS, procs=100)
    long = () if quick else (generated(300_000, LASTING), *((generated(10_000_000, LASTING),) if large else ()))
    full = generated(300_000, LASTING, load=FULL, suffix="-full"), lasting if named else LASTING
    deep = generated(40_000, PLANNING, load=DEEP, suffix="-deep"), planning if named else PLANNING
    sizes = [jobs for jobs in GROWTH if not quick or jobs <= 30_000] + ([10_000_000] if large else [])
    usual = [kth, *long, *(Case(name, spec, tuple(schedulers) or SCHEDULERS) for name, spec in (*real.items(), *given))]
    return Plan(
        figures=list(merged(usual).values()),
        long_queue=[] if quick else [replace(case, schedulers=own) for case, own in (full, deep) if own],
        growth=[generated(jobs, (*LASTING, *(PLANNING if jobs <= PLANNING_UP_TO else ()))) for jobs in sizes] if growth else [],
        oracle=generated(2_000, AGAINST_ORACLE),
    )


def _size(jobs: int) -> str:
    return f"{jobs // 1_000_000}m" if jobs >= 1_000_000 else f"{jobs // 1000}k"


def read_stored(path: Path) -> tuple[dict[Key, float], dict[str, Any]]:
    """Return jobs a second of an earlier ``--out`` and its machine; InputError otherwise.

    Keys are those of :func:`pipelines.workflows.bench.key`.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["format"] != FORMAT:
            raise InputError(f"{path}: is of format {stored['format']}, not {FORMAT}: measure anew with this version of queuecast")
        speeds = {key(row): float(row["jobs_per_s"]) for section in SECTIONS for row in stored[section]}
        if not all(0 < speed < float("inf") for speed in speeds.values()):
            raise ValueError("not a speed")
        return speeds, dict(stored["machine"])
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except InputError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: holds no figures of `queuecast bench --out`") from error


def write(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically; InputError if it cannot be written."""
    try:
        atomic.write(path, text)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
    note(f"wrote {path}")
