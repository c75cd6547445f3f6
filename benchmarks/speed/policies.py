"""Measure searches of mixed policies: the whole grid, and many policies of one week.

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

import pandas as pd

from benchmarks.common.pages import SHARED
from benchmarks.papers.legrand.mixed import grid
from benchmarks.papers.legrand.mixed_policies import SOURCES
from benchmarks.papers.legrand.optimisers import Search, optimise_week
from sim import split_windows
from sim.campaigns.learned_order import PreparedSweep, random_weights

LAST = {"kth-sp2": 45, "sdsc-sp2": 100}
"""The last week that the paper takes of each trace."""


def weeks_of(shared: Path) -> tuple[list[PreparedSweep], pd.DataFrame]:
    """Return the weeks of each trace, ready, and a busy week.

    The busy one is that of KTH-SP2 with 743 jobs, crossing ones among them.
    """
    traces = {name: SOURCES[name].read(shared) for name in LAST}
    weeks = []
    for name, trace in traces.items():
        windows = split_windows(trace.jobs, "weeks").windows
        weeks += [PreparedSweep(each.jobs, procs=trace.procs) for each in windows if each.number <= LAST[name]]
    every = split_windows(traces["kth-sp2"].jobs, "weeks", skip_first=False, drop="none").windows
    return weeks, next(each.jobs for each in every if len(each.jobs) == 743)


def timed(what: str, work: Callable[[], object]) -> None:
    """Print how long ``work`` took."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    print(f"{what}: {time.perf_counter() - wall:.2f} s, {time.process_time() - cpu:.2f} s CPU", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", type=int, default=1000, help="simulations of an xNES search")
    options = parser.parse_args()
    weeks, busy = weeks_of(options.shared)
    directions, search = grid(), Search(budget=options.budget)

    def each(work: Callable[[int], object]) -> None:
        with ThreadPoolExecutor(options.workers) as pool:
            list(pool.map(work, range(len(weeks))))

    timed("compiled or loaded", lambda: weeks[0].measure(directions[:1]))
    print(f"{len(weeks)} weeks, {sum(len(week.jobs) for week in weeks):,} jobs, {options.workers} threads")
    timed(f"{len(directions):,} directions of the surface", lambda: each(lambda at: weeks[at].measure(directions)))
    timed(f"xNES, 6 weights, {options.budget:,} policies a week", lambda: each(lambda at: optimise_week(weeks[at], at, 6, search)))
    weights = random_weights(20_000)
    timed("20,000 policies of the week of 743 jobs", lambda: PreparedSweep(busy, procs=100).measure(weights))


if __name__ == "__main__":
    main()
