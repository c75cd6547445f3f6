"""Measure the search of mixed policies: the whole grid, xNES, many policies of one week.

``python -m benchmarks.speed.policies`` needs the traces under ``--shared``. Weeks are those of Legrand, Trystram & Zrigui
(2018): 45 of KTH-SP2 and 100 of SDSC-SP2. Seconds are wall time with ``--workers`` threads, after compilation; CPU seconds
beside them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pandas as pd

from benchmarks.common.pages import SHARED
from benchmarks.papers.legrand2018 import SOURCES
from sim import split_windows
from sim.campaigns.maps import threads
from sim.campaigns.sweep import PreparedSweep, random_weights, sweep
from sim.search.directions import CUBE, SURFACE, Directions, grid
from sim.search.division import sweep_by_regions
from sim.search.landscape import landscape
from sim.search.optimisers import Search, optimise_weeks

Weeks = list[tuple[int, dict[int, pd.DataFrame]]]
LAST = {"kth-sp2": 45, "sdsc-sp2": 100}
"""The last week that the paper takes of each trace."""
T = TypeVar("T")


def weeks_of(shared: Path) -> tuple[Weeks, pd.DataFrame]:
    """Return processors and weeks of each trace, and a busy week.

    The busy one is that of KTH-SP2 with 743 jobs, crossing ones among them.
    """
    traces = {name: SOURCES[name].read(shared) for name in LAST}
    weeks = []
    for name, trace in traces.items():
        windows = split_windows(trace.jobs, "weeks").windows
        weeks.append((trace.procs, {each.number: each.jobs for each in windows if each.number <= LAST[name]}))
    every = split_windows(traces["kth-sp2"].jobs, "weeks", skip_first=False, drop="none").windows
    return weeks, next(each.jobs for each in every if len(each.jobs) == 743)


def timed(what: str, work: Callable[[], T]) -> T:
    """Print how long ``work`` took; return its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    print(f"{what}: {time.perf_counter() - wall:.2f} s, {time.process_time() - cpu:.2f} s CPU", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", type=int, default=1000, help="simulations of an xNES search")
    options = parser.parse_args()
    weeks, busy = weeks_of(options.shared)
    every = [(procs, jobs) for procs, of_trace in weeks for jobs in of_trace.values()]

    def by_regions(directions: Directions) -> int:
        def one(procs: int, jobs: pd.DataFrame) -> int:
            return landscape(jobs, procs=procs, directions=directions).found.simulations

        with ThreadPoolExecutor(options.workers) as pool:
            return sum(pool.map(one, *zip(*every, strict=True)))

    def by_sweeps(directions: Directions) -> None:
        with ThreadPoolExecutor(options.workers) as pool:
            list(
                pool.map(lambda procs, jobs: PreparedSweep(jobs, procs=procs).measure(directions.whole), *zip(*every, strict=True))
            )

    def by_xnes() -> None:
        for procs, of_trace in weeks:
            optimise_weeks(of_trace, 6, Search(budget=options.budget), procs=procs, map_pieces=threads(options.workers))

    timed("compiled or loaded", lambda: landscape(busy.head(20), procs=100, directions=grid(4)))
    print(f"{len(every)} weeks, {sum(len(jobs) for _, jobs in every):,} jobs, {options.workers} threads")
    surface, cube = grid(reading=SURFACE), grid(reading=CUBE)
    timed(f"{len(surface):,} directions of the surface, each simulated", lambda: by_sweeps(surface))
    for name, directions in (("surface", surface), ("cube", cube)):
        simulations = timed(f"{len(directions):,} directions of the {name}, by regions", lambda: by_regions(directions))  # noqa: B023
        print(f"  {simulations:,} simulations instead of {len(directions) * len(every):,}")
    timed(f"xNES, 6 weights, {options.budget:,} policies a week", by_xnes)
    weights = random_weights(20_000)
    for name, work in (("each simulated", sweep), ("by regions", sweep_by_regions)):
        what = f"20,000 policies of the week of 743 jobs, {name}"
        timed(what, lambda: work(busy, weights, procs=100, map_pieces=threads(options.workers)))  # noqa: B023


if __name__ == "__main__":
    main()
