"""Measure schedulers on the machine of the CERIT trace: jobs a second, on its clusters and on one pool of their processors.

As recorded, and at higher loads, where times between submissions are shorter. Seconds are the least of five, of the simulation alone.
Run with ``python -m benchmarks.speed.clusters SHARED [--scheduler NAME]... [--load FACTOR]...``; SHARED is the directory of ``traces``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from features.jobs.cleaning import clean
from pipelines.readers.machine_file import read_machine
from pipelines.readers.swf import read_swf
from sim import simulate

REPEATS = 5
LOADS = (1.0, 1.5, 3.0, 7.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--scheduler", action="append", help="may be repeated (default: EASY, EASY-SJBF, List)")
    parser.add_argument("--load", type=float, action="append", help=f"may be repeated (default: {', '.join(map(str, LOADS))})")
    given = parser.parse_args()
    machine = read_machine(given.shared / "traces" / "CERIT-wagap-2013.machines")
    jobs = clean(read_swf(given.shared / "traces" / "CERIT-wagap-2013.swf.gz"), machine.procs, holds=machine.holds).jobs
    print(
        f"{len(jobs):,} jobs\n{'scheduler':24} {'load':>5} {'clusters, jobs/s':>17} {'mean wait s':>12} {'pool, jobs/s':>14} {'mean wait s':>12}"
    )
    for scheduler in given.scheduler or ("EASY", "EASY-SJBF", "List"):
        for load in given.load or LOADS:
            cells = []
            for on in (machine, None):
                schedules = [
                    simulate(jobs, procs=machine.procs, scheduler=scheduler, load=load, machine=on) for _ in range(REPEATS)
                ]
                wait = (schedules[0].jobs["start_s"] - schedules[0].jobs["submit_s"]).mean()
                cells.append((len(jobs) / min(each.simulate_s for each in schedules), wait))
            (there, wait), (pooled, pooled_wait) = cells
            print(f"{scheduler:24} {load:5} {there:17,.0f} {wait:12,.0f} {pooled:14,.0f} {pooled_wait:12,.0f}", flush=True)


if __name__ == "__main__":
    main()
