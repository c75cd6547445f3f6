"""Measure time and memory of the window features: 10,000 runs, 300 million values.

The data set is random counters of a cluster in the layout of the lake, the three samplers of RUSH
(``<sampler>/day=YYYY-MM-DD/part-*.parquet``), written to a temporary directory and removed afterwards. A process
of its own computes the features of runs of 16 nodes over own and all nodes, samplers side by side on as many
threads as asked for; its peak memory is told apart from what its imports took. Kernels are compiled before.
Run with ``python -m benchmarks.speed.variability_features [--values N] [--interval S]``; the shorter the
interval, the more windows hold each sample.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from features.monitoring.samplers import SAMPLERS, WINDOW_S, counter_features
from features.monitoring.windows import WindowFeatures, side_by_side, window_features

ORIGIN_S = 1_600_000_000
TARGET_S = 120.0
RUN_NODES = 16
GROUP_BYTES = 8 << 20
"""Size of a row group in memory."""


def steps_of(values: int, nodes: int) -> int:
    return max(1, values // (nodes * sum(len(sampler.metrics) for sampler in SAMPLERS.values())))


def write_counters(root: Path, steps: int, nodes: int, interval_s: float, rng: np.random.Generator) -> None:
    """Counters of ``nodes`` nodes, sampled ``steps`` times by each sampler.

    Each node a little later than the one before.
    """
    names = pa.array([f"node{number:05}" for number in range(nodes)])
    delay = np.sort(rng.integers(0, 2_000, nodes)) / 1e6
    for sampler in SAMPLERS.values():
        metrics = len(sampler.metrics)
        rows = GROUP_BYTES // (8 * metrics)
        total = rng.integers(0, 2**40, (nodes, metrics)).astype(float)
        usual = 10.0 ** rng.uniform(0, 8, metrics)
        writer, day = None, ""
        for begin in range(0, steps, max(1, rows // nodes)):
            step = np.arange(begin, min(steps, begin + max(1, rows // nodes)))
            growth = np.rint(rng.standard_gamma(2, (len(step), nodes, metrics), dtype=np.float32) * (usual * interval_s))
            growth[0] += total
            total = (values := growth.cumsum(0))[-1]
            time_s = ORIGIN_S + (step[:, None] * interval_s + delay).reshape(-1)
            node = pa.DictionaryArray.from_arrays(np.tile(np.arange(nodes, dtype=np.int32), len(step)), names)
            columns = np.ascontiguousarray(values.reshape(-1, metrics).T)
            table = pa.table({"time_s": time_s, "node": node, **dict(zip(sampler.metrics, columns, strict=True))})
            for today in np.unique(time_s // 86_400):
                if (name := str(np.datetime64(int(today), "D"))) != day:
                    if writer is not None:
                        writer.close()
                    day, folder = name, root / sampler.name / f"day={name}"
                    folder.mkdir(parents=True)
                    options = {"compression": "zstd", "compression_level": 1, "use_dictionary": ["node"]}
                    split = ["time_s", *sampler.metrics]
                    writer = pq.ParquetWriter(folder / "part-0.parquet", table.schema, use_byte_stream_split=split, **options)
                assert writer is not None
                writer.write_table(table.filter(pa.array(time_s // 86_400 == today)))
        if writer is not None:
            writer.close()


def control_runs(runs: int, span_s: float, nodes: int, rng: np.random.Generator) -> pd.DataFrame:
    start = ORIGIN_S + rng.integers(WINDOW_S, max(WINDOW_S + 1, int(span_s)), runs)
    chosen = rng.permuted(np.tile(np.arange(nodes), (runs, 1)), axis=1)[:, :RUN_NODES]
    named = [[f"node{number:05}" for number in row] for row in chosen]
    return pd.DataFrame({"run_id": [f"run{number}" for number in range(runs)], "nodes": named, "start_s": start})


def batches(root: Path, sampler: str) -> Iterator[pa.Table]:
    for path in sorted((root / sampler).glob("day=*/part-*.parquet")):
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, use_threads=False)


def features(root: Path, runs: pd.DataFrame, threads: int) -> WindowFeatures:
    with ThreadPoolExecutor(threads) as pool:
        return side_by_side(list(pool.map(lambda name: window_features(batches(root, name), runs, name), SAMPLERS)))


def measured(root: Path, runs: pd.DataFrame, threads: int, repeats: int) -> dict[str, float]:
    """Runs in a process of its own.

    Median seconds, seconds of reading alone, and memory in MiB before and at the peak.
    """
    tiny = Path(root / "tiny")
    write_counters(tiny, 10, 4, 1.0, np.random.default_rng(0))
    features(tiny, runs.iloc[:2], 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        joined = features(root, runs, threads)
        seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert joined.own is not None
    assert joined.all is not None
    assert tuple(joined.own.columns) == tuple(joined.all.columns) == counter_features()
    assert joined.own.notna().all().all()
    kinds = joined.counts[[name for name in joined.counts.index if name.endswith((".difference", ".first", ".gauge"))]]
    begin = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda name: sum(table.num_rows for table in batches(root, name)), SAMPLERS))
    reading = time.perf_counter() - begin
    held = joined.coverage.filter(like=".own.samples")
    windows = sum(held[f"{name}.own.samples"].sum() * len(SAMPLERS[name].metrics) for name in SAMPLERS)
    figures = {"seconds": float(np.median(seconds)), "reading_s": reading, "before_mib": before, "peak_mib": peak}
    return figures | {"values": float(kinds.sum()), "own_values": float(windows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=300_000_000)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between samples of a node")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="where to write the generated data set for the time being")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    steps = steps_of(options.values, options.nodes)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        free = shutil.disk_usage(directory).free
        if free < 12 * options.values:
            raise SystemExit(
                f"{options.values:,} values may take {12 * options.values / 2**30:.1f} GiB; {directory} has {free / 2**30:.1f} GiB left"
            )
        root = Path(directory)
        write_counters(root, steps, options.nodes, options.interval, rng)
        size = sum(path.stat().st_size for path in root.rglob("*.parquet"))
        runs = control_runs(options.runs, steps * options.interval, options.nodes, rng)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            figures = pool.apply(measured, (root, runs, options.threads, options.repeats))
    print(
        f"generated: {figures['values']:,.0f} values ({options.nodes} nodes, {steps:,} samples, one every {options.interval:g} s), {size / 1e9:.2f} GB"
    )
    print(
        f"{options.runs:,} runs, both scopes, {options.threads} threads: {figures['seconds']:.1f} s (median of {options.repeats}), ",
        end="",
    )
    print(f"{figures['values'] / figures['seconds'] / 1e6:.1f} million values a second")
    print(f"reading alone: {figures['reading_s']:.1f} s; values in windows of own nodes: {figures['own_values']:,.0f}")
    print(f"peak memory: {figures['peak_mib']:.0f} MiB, of which {figures['before_mib']:.0f} MiB before the first batch")
    if figures["seconds"] > TARGET_S:
        raise SystemExit(f"slower than {TARGET_S:.0f} s")


if __name__ == "__main__":
    main()
