"""``queuecast bench``: jobs a second of each algorithm, on generated workloads and traces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from features.errors import InputError
from pipelines.cli.notes import note
from pipelines.cli.options import check_outputs, out_option, without_policies
from pipelines.ingest.read import find_entry
from pipelines.ingest.source import trace_name
from pipelines.ingest.workload import Workload
from pipelines.report.bench import listings
from pipelines.sources.catalogue import load_catalogue
from pipelines.storage import atomic
from pipelines.workflows.bench import Case, Plan, merged, run
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


@click.command()
@click.option("--trace", "traces", multiple=True, help="A trace to measure besides the generated workloads; may be repeated.")
@click.option("--scheduler", "schedulers", multiple=True, help="Instead of one of each algorithm; may be repeated.")
@click.option(
    "--repeat", type=click.IntRange(min=1), default=5, show_default=True, help="Number of simulations; the median is reported."
)
@click.option("--quick", is_flag=True, help="Small workloads only, in under a minute.")
@out_option("Write the figures to this JSON file.")
def command(traces: tuple[str, ...], schedulers: tuple[str, ...], repeat: int, quick: bool, out: Path | None) -> None:
    """Measure the simulator: jobs a second on one core, the simulation alone, the median."""
    check_outputs({"--out": out}, traces)
    document = run(plan(traces, without_policies(schedulers), quick=quick), repeat, note)
    for listing in listings(document):
        listing.show()
    if out is not None:
        try:
            atomic.write(out, json.dumps(document, indent=1) + "\n")
        except OSError as error:
            raise InputError(f"{out}: cannot be written: {error.strerror}") from error
        note(f"wrote {out}")


def plan(traces: Sequence[str], schedulers: Sequence[str], *, quick: bool) -> Plan:
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
    long = () if quick else (generated(300_000, LASTING),)
    full = generated(300_000, LASTING, load=FULL, suffix="-full"), lasting if named else LASTING
    deep = generated(40_000, PLANNING, load=DEEP, suffix="-deep"), planning if named else PLANNING
    usual = [kth, *long, *(Case(name, spec, tuple(schedulers) or SCHEDULERS) for name, spec in (*real.items(), *given))]
    return Plan(
        figures=list(merged(usual).values()),
        long_queue=[] if quick else [replace(case, schedulers=own) for case, own in (full, deep) if own],
        oracle=generated(2_000, AGAINST_ORACLE),
    )


def _size(jobs: int) -> str:
    return f"{jobs // 1000}k"
