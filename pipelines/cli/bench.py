"""``queuecast bench``: jobs per second by algorithm, on generated workloads and traces."""

import json
from collections.abc import Sequence
from pathlib import Path

import click

from features.errors import InputError
from pipelines.cli.notes import note
from pipelines.cli.options import check_outputs, out_option
from pipelines.ingest.read import find_entry
from pipelines.ingest.source import trace_name
from pipelines.ingest.workload import Workload
from pipelines.report.table import Table
from pipelines.sources.catalogue import load_catalogue
from pipelines.storage import places
from pipelines.workflows.bench import Case, Row, run

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


@click.command()
@click.option("--trace", "traces", multiple=True, help="A trace to measure besides the generated workloads; may be repeated.")
@click.option(
    "--repeat", type=click.IntRange(min=1), default=5, show_default=True, help="Number of simulations; the median is reported."
)
@out_option("Write the figures to this JSON file.")
def command(traces: tuple[str, ...], repeat: int, out: Path | None) -> None:
    """Measure the median speed of the simulation alone, in jobs per second on one core."""
    check_outputs({"--out": out}, traces)
    document = run(plan(traces), repeat, note)
    table(document["figures"]).show()
    if out is not None:
        with places.writing(out):
            places.write(out, json.dumps(document, indent=1) + "\n")
        note(f"wrote {out}")


def plan(traces: Sequence[str]) -> list[Case]:
    """Return the cases to measure; raise InputError for unknown traces or equal names."""
    catalogue = load_catalogue()
    places: dict[str, str] = {}
    for trace in traces:
        entry = find_entry(trace, catalogue)
        listed = entry is not None and catalogue[entry.name] is entry
        name, place = (entry.name, entry.name) if entry and listed else (trace_name(trace), trace)
        if places.setdefault(name, place) != place:
            raise InputError(f"{places[name]} and {place} would both be called {name}: rename one of the files")
    return [
        Case("generated-28k", Workload(28_481, 100, generator=1), SCHEDULERS),
        *(Case(name, place, SCHEDULERS) for name, place in places.items()),
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
        "spread": "{spread}",
        "million jobs/s": "{million_per_s:.2f}",
        "peak GiB": "{peak_gib:.2f}",
    }

    def record(row: Row) -> Row:
        spread = f"{100 * (row['slowest_s'] - row['fastest_s']) / row['median_s']:.0f} %" if row["repeat"] > 1 else "-"
        return {**row, "spread": spread, "million_per_s": row["jobs_per_s"] / 1e6}

    return Table.of("Simulation alone, one core, median", columns, map(record, rows), keys=2)
