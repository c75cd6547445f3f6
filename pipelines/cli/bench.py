"""``queuecast bench``: how many jobs a second each algorithm simulates, on generated workloads and on traces that are at hand."""

from __future__ import annotations

import json
import platform
import resource
import statistics
import sys
from pathlib import Path
from typing import Any

import click

from features.cleaning import CleanTrace, clean
from features.errors import InputError
from pipelines.atomic import replacing
from pipelines.cli.options import console, load, note
from sim import simulate

SCHEDULERS = ("EASY", "EASY-SJBF", "EASY(reservations=4)", "JustBF", "SAF-JustBF", "Conservative", "WFP3-EASY", "List", "Strict")
SIZES = {"generated-28k": (28_481, 100), "generated-300k": (300_000, 256)}
"""Jobs and processors: the size of KTH-SP2, and a long one."""
LARGE = {"generated-10m": (10_000_000, 256)}
QUADRATIC = ("JustBF", "SAF-JustBF", "Conservative", "EASY(reservations=4)", "WFP3-EASY", "Strict")
"""Left out where queues are long: what they do at a pass grows with the queue, or the queue grows without end."""


@click.command()
@click.option("--trace", "traces", multiple=True, help="A trace to measure besides the generated workloads; may be repeated.")
@click.option("--scheduler", "schedulers", multiple=True, help="Instead of one of each algorithm; may be repeated.")
@click.option("--repeat", type=click.IntRange(min=1), default=5, show_default=True, help="Simulations of which the median is told.")
@click.option("--large", is_flag=True, help="Also 10 million generated jobs.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures to this JSON file.")
@click.option("--against", type=click.Path(path_type=Path, dir_okay=False), help="Compare with the figures of an earlier run.")
def command(
    traces: tuple[str, ...], schedulers: tuple[str, ...], repeat: int, large: bool, out: Path | None, against: Path | None
) -> None:
    """Measure the simulator: jobs a second, one core, the simulation alone, median of some repetitions."""
    before = read_figures(against) if against else {}
    figures: list[dict[str, Any]] = []
    for workload in workloads(traces, large):
        for scheduler in schedulers or SCHEDULERS:
            if not schedulers and scheduler in QUADRATIC and len(workload.jobs) > 200_000:
                continue
            note(f"{workload.name} {scheduler}")
            figures.append(measure(workload, scheduler, repeat))
    show(figures, before)
    if out is not None:
        with replacing(out) as temporary:
            temporary.write_text(
                json.dumps({"machine": platform.processor() or platform.machine(), "figures": figures}, indent=1) + "\n"
            )
        note(f"wrote {out}")


def workloads(traces: tuple[str, ...], large: bool) -> list[CleanTrace]:
    """What is measured; generated workloads say so in their names."""
    from dataclasses import replace

    from pipelines.ingest.workload import Workload, generate

    sizes = {**SIZES, **(LARGE if large else {})}
    made = [
        clean(replace(generate(Workload(jobs=jobs, procs=procs)), name=name))  # the default seed and load
        for name, (jobs, procs) in sizes.items()
    ]
    return made + [load(trace, None, None, None) for trace in traces]


def measure(workload: CleanTrace, scheduler: str, repeat: int) -> dict[str, Any]:
    """One row of figures; ``peak_gib`` is the whole process's so far."""
    seconds = [simulate(workload.jobs, procs=workload.procs, scheduler=scheduler).simulate_s for _ in range(repeat)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform != "darwin" else 2**30)
    return {
        "trace": workload.name,
        "generated": workload.generated,
        "scheduler": scheduler,
        "jobs": len(workload.jobs),
        "median_s": statistics.median(seconds),
        "jobs_per_s": len(workload.jobs) / statistics.median(seconds),
        "repeat": repeat,
        "peak_gib": peak,
    }


def read_figures(path: Path) -> dict[tuple[str, str], float]:
    """Jobs a second by (trace, scheduler) from an earlier ``--out``; InputError for anything else."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return {(row["trace"], row["scheduler"]): float(row["jobs_per_s"]) for row in stored["figures"]}
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: holds no figures of `queuecast bench --out`") from error


def show(figures: list[dict[str, Any]], before: dict[tuple[str, str], float]) -> None:
    """The figures as a table, with the ratio to the earlier run where there is one."""
    from rich.table import Table

    table = Table(title="simulation alone, one core, median", title_justify="left")
    table.add_column("trace", no_wrap=True)
    table.add_column("scheduler", no_wrap=True)
    for heading in ("jobs", "seconds", "million jobs/s", "peak GiB", *(("times as fast as before",) if before else ())):
        table.add_column(heading, justify="right")
    for row in figures:
        cells = [f"{row['jobs']:,}", f"{row['median_s']:.4f}", f"{row['jobs_per_s'] / 1e6:.2f}", f"{row['peak_gib']:.2f}"]
        if before:
            earlier = before.get((row["trace"], row["scheduler"]))
            cells.append(f"{row['jobs_per_s'] / earlier:.2f}" if earlier else "")
        table.add_row(row["trace"], row["scheduler"], *cells)
    console().print(table)
