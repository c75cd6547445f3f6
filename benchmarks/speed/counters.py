"""Measure LDMS CSV into Parquet: values a second and peak memory, on generated counters.

By default 300 million values (random walks, no real machine's): 512 nodes, the 90 metrics of the three
samplers of RUSH, a sample every ten seconds, files rotated hourly as LDMS rotates them. Files are written a
round at a time, ingested by a process of its own, whose peak memory is reported, and removed. Then the first
sampler is read back in time order. Run with ``python -m benchmarks.speed.counters [--values N] [--gzip]``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from features.monitoring.samplers import SAMPLERS
from pipelines.lake.counters import CountersStore
from pipelines.report.table import Table

EPOCH_S = 1_507_680_000
PERIOD_S = 10
HOUR_S = 3600
LEAST_RATE = 5e6
MOST_MEMORY_MIB = 1024
_ROUND = 6  # hours written before they are ingested


def write_hour(
    place: Path, sampler: str, hour: int, nodes: int, seconds: int, rng: np.random.Generator, packed: bool
) -> tuple[int, int]:
    """Write a rotated file of ``seconds`` of one sampler; return rows and bytes.

    Half the counters grow by millions a sample, as traffic does, others are idle.
    """
    import pandas as pd

    metrics = SAMPLERS[sampler].metrics
    samples = seconds // PERIOD_S
    rows = samples * nodes
    start_s = EPOCH_S + HOUR_S * hour
    offset_us = rng.integers(0, 5_000, rows)
    frame: dict[str, object] = {
        "#Time": [f"{start_s + PERIOD_S * (row // nodes)}.{micro:06d}" for row, micro in enumerate(offset_us)],
        "Time_usec": offset_us,
        "ProducerName": np.tile([f"node{node:04d}" for node in range(nodes)], samples),
        "component_id": np.tile(np.arange(nodes), samples),
        "job_id": 0,
    }
    for place_, metric in enumerate(metrics):
        scale = (10_000_000, 50_000, 2, 0)[place_ % 4]
        steps = rng.integers(0, scale + 1, (samples, nodes)) * (rng.random((samples, nodes)) < 0.5)
        frame[metric] = (rng.integers(0, 1 << 40, nodes) * (scale > 2) + np.cumsum(steps, axis=0)).ravel()
    path = place / f"{sampler}.{start_s}"
    text = pd.DataFrame(frame)
    if packed:
        path = path.with_name(path.name + ".gz")
        with gzip.open(path, "wt", compresslevel=1) as file:
            text.to_csv(file, index=False)
    else:
        text.to_csv(path, index=False)
    return rows, path.stat().st_size


def ingest(lake: Path, logs: Path) -> None:
    """What the child process does: ingest, and say seconds, values and peak memory."""
    from pipelines.readers.ldms.ingest import ingest_counters

    store = CountersStore(lake, "generated")
    began, began_cpu = time.perf_counter(), time.process_time()
    report = ingest_counters(store, [logs])
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    assert not report.quarantined, report.quarantined
    values = sum(tally.values + tally.nulls for tally in report.samplers.values())
    print(json.dumps({"seconds": seconds, "cpu_s": time.process_time() - began_cpu, "values": values, "peak_mib": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=float, default=300e6)
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--gzip", action="store_true", help="pack the files")
    parser.add_argument("--directory", type=Path, help="where files and lake go for the time being")
    parser.add_argument("--child", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        ingest(*options.child)
        return
    rng = np.random.default_rng(0)
    metrics = sum(len(sampler.metrics) for sampler in SAMPLERS.values())
    total_s = int(np.ceil(options.values / metrics / options.nodes)) * PERIOD_S
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        logs, lake = Path(directory) / "logs", Path(directory) / "lake"
        need = 12 * _ROUND * HOUR_S / PERIOD_S * options.nodes * metrics + 4 * options.values
        if (free := shutil.disk_usage(directory).free) < need:
            raise SystemExit(f"{directory}: {free / 1e9:.1f} GB are free, {need / 1e9:.1f} are needed")
        seconds, cpu_s, values, peak, size, files = 0.0, 0.0, 0, 0.0, 0, 0
        hours = [(hour, min(HOUR_S, total_s - HOUR_S * hour)) for hour in range(-(-total_s // HOUR_S))]
        for first in range(0, len(hours), _ROUND):
            logs.mkdir()
            for hour, length in hours[first : first + _ROUND]:
                for sampler in SAMPLERS:
                    size += write_hour(logs, sampler, hour, options.nodes, length, rng, options.gzip)[1]
                    files += 1
            command = [sys.executable, "-m", "benchmarks.speed.counters", "--child", str(lake), str(logs)]
            ingested = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            seconds, cpu_s, values, peak = (
                seconds + ingested["seconds"],
                cpu_s + ingested["cpu_s"],
                values + ingested["values"],
                max(peak, ingested["peak_mib"]),
            )
            print(
                f"{files} files, {values / 1e6:.0f} million values, {ingested['values'] / ingested['seconds'] / 1e6:.1f} million/s",
                file=sys.stderr,
            )
            shutil.rmtree(logs)
        stored = sum(path.stat().st_size for path in lake.rglob("*.parquet"))
        sampler = next(iter(SAMPLERS))
        began = time.perf_counter()
        read = sum(batch.num_rows for batch in CountersStore(lake, "generated").batches(sampler)) * len(SAMPLERS[sampler].metrics)
        reading = time.perf_counter() - began
    title = f"generated counters of {options.nodes} nodes, {metrics} metrics in {len(SAMPLERS)} samplers, {files} files"
    rate = values / seconds
    figures = {
        "million values": f"{values / 1e6:.0f}",
        "CSV GB": f"{size / 1e9:.2f}",
        "Parquet GB": f"{stored / 1e9:.2f}",
        "s": f"{seconds:.1f}",
        "CPU s": f"{cpu_s:.1f}",
        "million values/s": f"{rate / 1e6:.1f}",
        "peak MiB": f"{peak:.0f}",
        "million values/s read back": f"{read / reading / 1e6:.0f}",
    }
    Table(title, list(figures), [list(figures.values())], keys=0).show()
    if rate < LEAST_RATE or peak > MOST_MEMORY_MIB:
        raise SystemExit(f"less than {LEAST_RATE / 1e6:.0f} million values/s or more than {MOST_MEMORY_MIB} MiB")


if __name__ == "__main__":
    main()
