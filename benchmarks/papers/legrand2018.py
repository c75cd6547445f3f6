"""Repeat the study of Legrand, Trystram & Zrigui (2018) on KTH-SP2 and SDSC-SP2, beside what they published.

``python -m benchmarks.papers.legrand2018`` prints docs/studies/legrand-2018.md, ``--write`` makes it, its pictures and the data beside
them; ``--keep`` keeps what was simulated, and resumes. ``--speed`` measures the pure policies of all weeks and 20,000 mixed ones of one
busy week instead, and ``--workloads`` writes table 1 alone into the page that is there. Needs the traces and the published numbers
under ``--shared``. The study itself is ``queuecast policies``; the page is in :mod:`benchmarks.papers.legrand2018_page`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import numpy as np

from benchmarks.common.pages import SHARED, code
from features.jobs.cleaning import CleanTrace, clean
from pipelines.ingest.swf import read_swf
from pipelines.workers.where import mapped
from pipelines.workflows.policy_study import Study, asked, read_study, resumable_study
from sim import split_windows
from sim.campaigns.maps import Map, serial, threads
from sim.campaigns.sweep import random_weights, sweep
from sim.search.division import sweep_by_regions
from sim.search.pure import WEIGHTS

UNITS = ("weeks", "months")
Studies: TypeAlias = Mapping[str, Mapping[str, Study]]
"""Studies by trace and unit."""


@dataclass(frozen=True)
class Source:
    """A trace at hand: its file and processors, the paper's table about it, and the weeks whose landscapes are drawn."""

    title: str
    file: str
    procs: int | None
    table: int
    landscapes: tuple[int, ...]

    def read(self, shared: Path) -> CleanTrace:
        """Return the cleaned trace."""
        return clean(read_swf(shared / "traces" / self.file), self.procs)


SOURCES = {
    "kth-sp2": Source("KTH-SP2", "KTH-SP2-1996-2.swf.gz", None, 5, (23, 24)),
    "sdsc-sp2": Source("SDSC-SP2", "SDSC-SP2-filtered.swf.gz", 128, 3, (70, 71, 72, 73)),
}


def studied(source: Source, unit: str, shared: Path, keep: Path, map_steps: Map) -> Study:
    """Return the study of one trace by weeks or months, from the folder ``keep`` if the same code made it before."""
    folder = keep / f"{source.title}-{unit}-{code()[:12]}"
    if (folder / "pure.parquet").exists():
        return read_study(folder)
    trace = source.read(shared)
    windows, settings = asked(trace, unit, landscapes=source.landscapes if unit == "weeks" else ())
    return resumable_study(
        folder, trace, settings, windows, map_steps=map_steps, progress=lambda done, of: _said(source, unit, done, of)
    )


def _said(source: Source, unit: str, done: int, total: int) -> None:
    print(f"\r{source.title} by {unit}: {done} of {total} steps\033[K", end="", file=sys.stderr, flush=True)


def median_s(work: Callable[[], object], repeat: int = 5) -> float:
    """Return the median wall time of ``work``, seconds, after one run that does not count."""
    work()
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def speed(shared: Path) -> None:
    """Measure a sweep over mixed policies, whose vertices the pure ones are.

    It simulates and measures them all in one call a week.
    """
    trace = SOURCES["kth-sp2"].read(shared)
    vertices = np.array(list(WEIGHTS.values()), np.float64)
    weeks = split_windows(trace.jobs, "weeks", skip_first=False, drop="none").windows

    def all_weeks() -> float:
        seconds = 0.0
        for week in weeks:
            seconds += sweep(week.jobs, vertices, procs=trace.procs, map_pieces=serial).attrs["simulate_s"]
        return seconds

    whole = median_s(all_weeks)
    alone = statistics.median(all_weeks() for _ in range(5))
    jobs = 12 * sum(len(week.jobs) for week in weeks)
    print(
        f"twelve pure policies, {len(weeks)} weeks of KTH-SP2, one core: simulation alone {alone:.4f} s, {jobs / alone / 1e6:.2f} million jobs/s "
        f"({whole:.3f} s with everything around it)"
    )
    busy = next(week for week in weeks if len(week.jobs) == 743)
    weights = random_weights(20_000)
    for workers in (1, 2):
        for name, measure in (("each simulated", sweep), ("by regions", sweep_by_regions)):
            seconds = median_s(lambda: measure(busy.jobs, weights, procs=trace.procs, map_pieces=threads(workers)))  # noqa: B023
            rate = len(weights) * len(busy.jobs) / seconds / 1e6
            what = f"20,000 mixed policies, week {busy.number} (743 jobs), {name}, {workers} threads"
            print(f"{what}: {seconds:.2f} s, {rate:.2f} million jobs/s")


def main() -> None:
    """Simulate what is not kept, and print or write the page."""
    from benchmarks.papers.legrand2018_page import page, write, write_workloads

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ and reference/ are")
    parser.add_argument("--keep", type=Path, help="folder of what was simulated, which is used again")
    parser.add_argument("--workers", type=int, help="threads; by default one a core")
    parser.add_argument("--on", default="", help="simulate there instead, as in tcp://HOST:PORT or slurm(jobs=10)")
    parser.add_argument("--write", action="store_true", help="write the page, its pictures and data")
    parser.add_argument("--speed", action="store_true", help="measure instead")
    parser.add_argument("--workloads", action="store_true", help="write table 1 of the page alone")
    options = parser.parse_args()
    if options.workloads:
        write_workloads(options.shared)
        return
    if options.speed:
        speed(options.shared)
        return
    with TemporaryDirectory() as folder, mapped(options.on, options.workers) as map_steps:
        keep = options.keep or Path(folder)
        studies = {
            name: {unit: studied(source, unit, options.shared, keep, map_steps) for unit in UNITS}
            for name, source in SOURCES.items()
        }
    if options.write:
        write(studies, options.shared)
    else:
        print(page(studies, options.shared))


if __name__ == "__main__":
    main()
