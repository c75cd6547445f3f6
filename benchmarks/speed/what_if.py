"""Measure the question what a generated site should change: processor seconds, seconds on two cores, and memory.

30 days of 500 nodes (``benchmarks.speed.slurm``), the first twelve candidates of the catalogue, eight pairs of replays. Run with
``python -m benchmarks.speed.what_if [--days N] [--candidates N] [--replicates N] [--dask]``.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from contextlib import ExitStack

from benchmarks.speed.slurm import jobs, site
from pipelines.readers.slurm.jobs import SlurmJobs
from pipelines.studies.what_if import measure, read_candidates
from pipelines.workers import mapped
from sim.site.replay import replay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--replicates", type=int, default=8)
    parser.add_argument("--dask", action="store_true", help="on two worker processes of a Dask cluster, in place of two threads")
    given = parser.parse_args()
    where, table = site(), jobs(given.days)
    replay(where, jobs(1), 0)  # load the compiled code
    table["start_s"] = table["submit_s"]  # no record: it is compared with nothing
    tried, before = read_candidates()[: given.candidates], sum(os.times()[:4])
    with ExitStack() as stack:
        on = ""
        if given.dask:
            from distributed import LocalCluster

            local = LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, protocol="tcp://")
            on = stack.enter_context(local).scheduler_address
        spread = stack.enter_context(mapped(on, 2, print))
        began = time.perf_counter()
        comparison = measure(where, SlurmJobs(table, (), "generated"), tried, given.replicates, 60, 0, spread, lambda *_: None)
        lasted = time.perf_counter() - began
    processor = sum(os.times()[:4]) - before  # with that of worker processes, which have ended
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for name in comparison.ranked:
        wait = comparison.effects[name].metrics["mean_wait_s"]
        print(f"{name}: {wait.relative:+.1%}, {comparison.verdicts[name]}")
    print(f"{len(table):,} jobs, {len(tried)} candidates: {processor:.0f} s of a processor, {lasted:.0f} s, {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
