"""Measure the question what a generated site should change: processor seconds, seconds of two threads, and memory.

30 days of 500 nodes (``benchmarks.speed.slurm``), twelve candidates of the catalogue, eight pairs of replays. Run with
``python -m benchmarks.speed.what_if [--days N] [--candidates N] [--replicates N]``.
"""

from __future__ import annotations

import argparse
import resource
import time

from benchmarks.speed.slurm import jobs, site
from pipelines.ingest.slurm_jobs import SlurmJobs
from pipelines.workflows.what_if import measure, read_candidates
from sim.campaigns.maps import threads
from sim.site_change import change
from sim.site_replay import replay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--replicates", type=int, default=8)
    given = parser.parse_args()
    where, table = site(), jobs(given.days)
    replay(where, jobs(1), 0)  # load the compiled code
    table["start_s"] = table["submit_s"]  # no record: it is compared with nothing
    tried = [each for each in read_candidates() if change(each, where, table) is not None][: given.candidates]
    began, processor = time.perf_counter(), time.process_time()
    found = measure(where, SlurmJobs(table, (), "generated"), tried, given.replicates, 60, 0, threads(2), lambda done, of: None)
    lasted, processor = time.perf_counter() - began, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for name in found.ranked:
        wait = found.effects[name].metrics["mean_wait_s"]
        print(f"{name}: {wait.relative:+.1%}, {found.verdicts[name]}")
    print(f"{len(table):,} jobs, {len(tried)} candidates: {processor:.0f} s of a processor, {lasted:.0f} s, {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
