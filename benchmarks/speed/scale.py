"""Measure how processor time and memory grow with a trace's jobs, stage by stage, and extrapolate to more.

Each size is a generated trace in an SWF file, taken by a process of its own through read, features, training, simulation and
comparison, as a run does. The peak of memory is that of a stage, with what the stages before it left. Slopes are between the two
largest sizes. Run with ``python -m benchmarks.speed.scale [--jobs N]... [--to N]``. Counters: :mod:`benchmarks.speed.counters`
and :mod:`benchmarks.speed.variability_features`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.speed.simulator import apart, peak_bytes
from features.jobs.cleaning import clean
from models.registry import candidates as of_jobs
from models.registry.candidates import fit
from pipelines.readers.read import read_trace
from pipelines.report.page import encode, figure
from pipelines.report.table import Table
from sim.metrics.comparison import compare
from sim.simulation import simulate

PROCS = 4096
MEAN_S = 2400.0
"""Mean runtime; with 16 processors a job on average, the offered load is 0.85."""
STAGES = ("read", "features", "training", "simulation", "comparison")
_ROUND = 200_000


def write_trace(path: Path, jobs: int) -> None:
    """Write an SWF file of ``jobs`` jobs of ``jobs / 1000`` users, as unequal as those of archive traces."""
    rng = np.random.default_rng(jobs)
    users = max(10, jobs // 1000)
    weights = 1 / np.arange(1, users + 1)
    submit = 0
    with path.open("w") as file:
        file.write(f"; MaxProcs: {PROCS}\n; UnixStartTime: 1000000000\n; TimeZoneString: UTC\n")
        for first in range(1, jobs + 1, _ROUND):
            count = min(_ROUND, jobs + 1 - first)
            procs = 2 ** rng.integers(0, 7, count)
            runtime = np.maximum(1, rng.exponential(MEAN_S, count)).astype(np.int64)
            requested = runtime * rng.integers(1, 10, count)
            user = rng.choice(users, count, p=weights / weights.sum()) + 1
            times = submit + np.cumsum(rng.exponential(procs.mean() * MEAN_S / PROCS / 0.85, count)).astype(np.int64)
            submit = int(times[-1])
            unknown = np.full(count, -1)
            columns = [np.arange(first, first + count), times, np.zeros(count, np.int64), runtime, procs, unknown, unknown, procs]
            columns += [requested, unknown, np.ones(count, np.int64), user, unknown, unknown, unknown, unknown, unknown, unknown]
            np.savetxt(file, np.column_stack(columns), fmt="%d")


def measured(path: Path) -> dict[str, tuple[float, float]]:
    """Return processor seconds and peak GiB of each stage."""
    figures: dict[str, tuple[float, float]] = {}

    def stage(name: str, work: Callable[[], Any]) -> Any:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        began = time.process_time()
        result = work()
        figures[name] = time.process_time() - began, peak_bytes() / 2**30
        return result

    workload = stage("read", lambda: clean(read_trace(path)))
    jobs = workload.jobs
    simulate(jobs.head(1000), procs=workload.procs, scheduler="EASY")  # compiles
    start_s = jobs["submit_s"].to_numpy(np.int64)
    table = stage("features", lambda: of_jobs.accounting(jobs, start_s, workload.origin_unix_s, workload.timezone))
    stage("training", partial(fit, "lightgbm", table, table.until_s, 0))
    del table
    schedules = [stage("simulation", lambda: simulate(jobs, procs=workload.procs, scheduler="EASY"))]
    schedules.append(simulate(jobs, procs=workload.procs, scheduler="EASY-SJBF"))
    stage("comparison", lambda: compare(schedules))
    return figures


def draw(figures: pd.DataFrame) -> bytes:
    """Draw processor seconds and peak memory of each stage by jobs, both axes logarithmic."""
    with figure(8.6, 3.4, generated=True) as canvas:
        for axes, column, label in zip(canvas.subplots(1, 2), ("cpu_s", "peak_gib"), ("CPU s", "peak GiB"), strict=True):
            for name in STAGES:
                rows = figures[figures["stage"] == name]
                axes.loglog(rows["jobs"] / 1e6, rows[column], marker="o", label=name)
            axes.set(xlabel="million jobs", ylabel=label)
            axes.set_xticks([0.5, 1, 2, 4, 10], ["0.5", "1", "2", "4", "10"], minor=False)
            axes.minorticks_off()
            axes.yaxis.set_major_formatter("{x:g}")
        canvas.axes[0].legend(fontsize=7, loc="lower right")
        return encode(canvas, "png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--jobs", type=int, action="append", help="jobs of a trace; may be repeated (default: 250,000 and 1 million)"
    )
    parser.add_argument("--draw", nargs=2, type=Path, metavar=("CSV", "PNG"), help="only draw the figures of a file")
    parser.add_argument("--to", type=int, action="append", help="extrapolate to these (default: 10 and 44 million)")
    options = parser.parse_args()
    if options.draw:
        options.draw[1].write_bytes(draw(pd.read_csv(options.draw[0], comment="#")))
        return
    sizes = sorted(options.jobs or [250_000, 1_000_000])
    results = {}
    with tempfile.TemporaryDirectory() as directory:
        for jobs in sizes:
            path = Path(directory) / f"jobs{jobs}.swf"
            write_trace(path, jobs)
            results[jobs] = apart(measured, path)
            path.unlink()
    small, large = sizes[0] if len(sizes) == 1 else sizes[-2], sizes[-1]
    rows = []
    for name in STAGES:
        slope = (np.subtract(results[large][name], results[small][name]) / max(1, large - small)).tolist()
        reached = [cell for jobs in sizes for cell in _cells(*results[jobs][name])]
        further = [
            cell
            for jobs in options.to or [10_000_000, 44_000_000]
            for cell in _cells(*_line(results[large][name], slope, jobs - large))
        ]
        rows.append([name, *reached, f"{slope[0] * 1e6:.1f}", f"{slope[1] * 2**30:,.0f}", *further])
    named = (
        [f"{jobs / 1e6:g} M" for jobs in sizes],
        [f"{jobs / 1e6:g} M, extrapolated" for jobs in options.to or [10_000_000, 44_000_000]],
    )
    measured_heads, further_heads = ([f"{size}: {unit}" for size in part for unit in ("CPU s", "GiB")] for part in named)
    headings = ["stage", *measured_heads, "CPU s a million", "bytes a job", *further_heads]
    Table("Stages of a run by jobs of the trace", headings, rows).show()


def _cells(seconds: float, gib: float) -> list[str]:
    return [f"{seconds:.1f}", f"{gib:.2f}"]


def _line(last: tuple[float, float], slope: list[float], more: int) -> tuple[float, float]:
    return last[0] + slope[0] * more, last[1] + slope[1] * more


if __name__ == "__main__":
    main()
