"""Measure the table ``runtime_features`` on random traces: seconds and jobs a second.

Seconds are the median of five, after compilation. Users are as many and as unequal as in archive traces: one
for every 300 jobs, activity by Zipf's law (SDSC-SP2 has 428 users for 54,006 jobs, LANL-CM5 213 for 122,060).
Runtimes are lognormal, waits exponential. Run with ``python -m benchmarks.speed.features [--jobs N]...``.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import pandas as pd

from features.jobs.runtime_features import runtime_features

JOBS_PER_USER = 300
REPEATS = 5


def random_trace(jobs: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a cleaned canonical table of ``jobs`` rows, and its start times in seconds.

    It has the columns that features read.
    """
    users = max(1, jobs // JOBS_PER_USER)
    activity = 1 / np.arange(1, users + 1)
    submit = np.sort(rng.integers(0, 300 * jobs, jobs))
    runtime = np.maximum(1, rng.lognormal(6.5, 2.0, jobs)).astype(np.int64).clip(max=5 * 86_400)
    procs = 2 ** rng.integers(0, 8, jobs)
    table = pd.DataFrame(
        {
            "job_id": np.arange(1, jobs + 1),
            "submit_s": submit,
            "runtime_s": runtime,
            "procs": procs,
            "allocated_procs": pd.array(procs, dtype="Int64"),
            "requested_s": runtime * rng.integers(1, 10, jobs),
            "group": pd.Categorical([None] * jobs),
            "executable": pd.Categorical([None] * jobs),
            "user": pd.Categorical.from_codes(
                rng.choice(users, jobs, p=activity / activity.sum()), categories=[str(number) for number in range(users)]
            ),
        }
    )
    return table, submit + rng.exponential(7_000, jobs).astype(np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, action="append", help="size of the trace; may be repeated (default: 10^4 to 10^6)")
    sizes = parser.parse_args().jobs or [10_000, 100_000, 1_000_000]
    runtime_features(*_arguments(100))
    print(f"{'jobs':>10} {'seconds':>10} {'jobs/s':>12}")
    for jobs in sizes:
        arguments, taken = _arguments(jobs), []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            table = runtime_features(*arguments)
            taken.append(time.perf_counter() - begin)
            del table
        seconds = statistics.median(taken)
        print(f"{jobs:>10,} {seconds:>10.4f} {jobs / seconds:>12,.0f}")


def _arguments(jobs: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    table, start = random_trace(jobs, np.random.default_rng(jobs))
    return table, start, table["submit_s"].to_numpy()


if __name__ == "__main__":
    main()
