"""Measure a campaign on Dask workers beside the same in threads, with workers killed, and what limits a large one.

Weeks of KTH-SP2 under four schedulers, two predictors and shaken submissions; workers are processes of one thread on this machine.
Seconds are medians of rounds in turns. Tables must be the same. Run with ``python -m benchmarks.speed.workers [--shared DIRECTORY]``.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import cloudpickle
import pandas as pd
import psutil
from distributed import LocalCluster

from benchmarks.common.pages import SHARED
from benchmarks.papers.legrand.mixed_policies import SOURCES
from features.jobs.cleaning import CleanTrace
from pipelines.studies.campaigns import Journal
from pipelines.workers import mapped
from sim import Campaign, run_campaign, split_windows
from sim.campaigns.maps import Map, threads

SCHEDULERS = ("EASY", "EASY-SJBF", "SAF-EASY-SPF", "SPF-EASY-SPF")
PREDICTORS = ("requested", "clairvoyant")
TASKS = 2000
"""Empty tasks that tell how many a scheduler gives out."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=SHARED, help="where traces/ is")
    parser.add_argument("--workers", type=int, default=2, help="worker processes, and threads to compare with")
    parser.add_argument("--replicates", type=int, default=27, help="seeds of the shake; 27 make 10,368 simulations")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--killed", type=int, default=8, help="times as many replicates where workers are killed; 0: leave it out")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between kills")
    given = parser.parse_args()
    trace = SOURCES["kth-sp2"].read(given.shared)
    with (
        LocalCluster(
            n_workers=given.workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", protocol="tcp://"
        ) as local,
        mapped(local.scheduler_address, say=print) as on_workers,
    ):
        maps = {"threads": threads(given.workers), "workers": on_workers}
        side_by_side(trace, given.replicates, given.rounds, maps, [each.pid for each in local.workers.values()])
        if given.killed:
            replicates = given.killed * given.replicates
            expected, alone_s = campaign(trace, replicates, threads(given.workers))
            with killing(local, given.every) as kills:
                table, seconds = campaign(trace, replicates, on_workers)
            print(
                f"{len(table):,} simulations, {len(kills)} workers killed, one every {given.every:g} s: {seconds:.1f} s, threads {alone_s:.1f} s"
            )
            pd.testing.assert_frame_equal(table, expected, check_exact=True)
        limits(trace, on_workers)


def campaign(trace: CleanTrace, replicates: int, map_points: Map) -> tuple[pd.DataFrame, float]:
    """Return the table, without measured times, and the seconds it took."""
    asked = Campaign(schedulers=SCHEDULERS, predictors=PREDICTORS, seeds=tuple(range(replicates)), shake_s=600)
    windows, began = split_windows(trace.jobs, "weeks"), time.perf_counter()
    table = run_campaign(
        trace.jobs, asked, procs=trace.procs, windows=windows, trace=trace.name, clock=trace.clock, map_points=map_points
    )
    return table.drop(columns="simulate_s"), time.perf_counter() - began


def side_by_side(trace: CleanTrace, replicates: int, rounds: int, maps: dict[str, Map], pids: list[int]) -> None:
    """Print the seconds of threads and of workers, in turns; the tables must be the same.

    CPU seconds are those of this process and the workers ``pids``.
    """
    _, first_s = campaign(trace, 1, maps["workers"])
    print(f"first campaign of new workers, {len(SCHEDULERS) * len(PREDICTORS)} simulations a week, with loading: {first_s:.2f} s")
    campaign(trace, 1, maps["threads"])
    processes = [psutil.Process(pid) for pid in (os.getpid(), *pids)]
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in maps}
    for _ in range(rounds):
        tables = []
        for name, each in maps.items():
            before = sum(sum(process.cpu_times()[:2]) for process in processes)
            table, took_s = campaign(trace, replicates, each)
            tables.append(table)
            seconds[name].append((took_s, sum(sum(process.cpu_times()[:2]) for process in processes) - before))
        pd.testing.assert_frame_equal(*tables, check_exact=True)
    print(f"{len(table):,} simulations, medians of {rounds}:")
    for which, what in enumerate(("wall", "CPU")):
        middle = {name: statistics.median(each[which] for each in rounds_s) for name, rounds_s in seconds.items()}
        spread = {
            name: (min(each[which] for each in rounds_s), max(each[which] for each in rounds_s))
            for name, rounds_s in seconds.items()
        }
        times = ", ".join(f"{name} {middle[name]:.2f} s ({low:.2f} to {high:.2f})" for name, (low, high) in spread.items())
        print(f"  {what}: {times}; workers / threads {middle['workers'] / middle['threads']:.2f}")


@contextmanager
def killing(local: LocalCluster, every_s: float) -> Iterator[list[int]]:
    """Kill a worker process every so many seconds, in turn; yield the ids of those killed."""
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not over.wait(every_s):
            nannies = list(local.workers.values())
            pid = nannies[len(killed) % len(nannies)].pid
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def limits(trace: CleanTrace, on_workers: Map) -> None:
    """Print bytes that are sent, tasks that a scheduler gives out, and rows that one process takes in."""
    seen: list[tuple[int, list[object], bytes]] = []

    def counted(function, groups):
        results = [function(group) for group in groups]
        seen.append((len(cloudpickle.dumps(function)), list(groups), cloudpickle.dumps(results)))
        return results

    campaign(trace, 5, counted)
    (shared, groups, results) = seen[0]
    points = sum(len(group) for group in groups)
    print(
        f"sent once: {shared:,} bytes; a simulation: {len(cloudpickle.dumps(groups)) / points:.0f} bytes there, {len(results) / points:.0f} back"
    )
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "out", {}) as journal:
        began = time.perf_counter()
        for points_and_rows in cloudpickle.loads(results):
            for point, rows in points_and_rows:
                journal.write(("trace", point), rows)
        print(
            f"rows read and journalled: {points / (time.perf_counter() - began):,.0f} a second, {journal.path.stat().st_size / points:,.0f} bytes each"
        )
    began = time.perf_counter()
    count = sum(1 for _ in on_workers(partial(int), range(TASKS)))
    print(f"empty tasks: {count / (time.perf_counter() - began):,.0f} a second")


if __name__ == "__main__":
    main()
