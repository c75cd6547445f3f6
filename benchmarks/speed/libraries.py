"""Measure our window join beside DuckDB and Polars.

The same generated counters go through each, in one process and in turns. The libraries are spared what ours also does: counters
that wrap or start anew, gaps, duplicates, coverage and counts by kind. Results are compared. Needs
``pip install 'queuecast[compare]'``. Run with ``python -m benchmarks.speed.libraries [--values N] [--runs N]``.

30 million values of 512 nodes, 1,000 runs, medians of three, at commit dddeedf: a run's own nodes ours 0.35 s, DuckDB 1.19, Polars 1.40;
all nodes ours 0.49 s, DuckDB 7.5, Polars 10.4.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.speed.variability_features import batches, control_runs, steps_of, write_counters
from features.monitoring.samplers import SAMPLERS, WINDOW_S
from features.monitoring.windows import window_features

INTERVAL_S = 10.0
STATISTICS = ("min", "max", "mean")


def ours(root: Path, sampler: str, runs: pd.DataFrame, scope: str) -> pd.DataFrame:
    """Return the features of ``runs`` by the project's own join, float64 [runs, metrics x 3]."""
    joined = window_features(batches(root, sampler), runs, sampler, scope=scope)  # type: ignore[arg-type]
    features = joined.own if scope == "own" else joined.all
    assert features is not None
    return features


def by_duckdb(root: Path, sampler: str, runs: pd.DataFrame, scope: str) -> pd.DataFrame:
    """Return the same by one query: rates by a window function, runs by a range join."""
    import duckdb

    metrics = SAMPLERS[sampler].metrics
    rates = ", ".join(f'("{m}" - lag("{m}") OVER w) / (time_s - lag(time_s) OVER w) AS "{m}"' for m in metrics)
    select = ", ".join(f'min("{m}"), max("{m}"), avg("{m}")' for m in metrics)
    asked = runs.explode("nodes") if scope == "own" else runs.drop(columns="nodes")
    same_node = "s.node = r.nodes AND" if scope == "own" else ""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("asked", asked)
    table = connection.execute(
        f"WITH s AS (SELECT node, time_s, {rates} FROM read_parquet('{root / sampler}/*/*.parquet')"
        f" WINDOW w AS (PARTITION BY node ORDER BY time_s))"
        f" SELECT r.run_id, {select} FROM asked r JOIN s ON {same_node} s.time_s >= r.start_s - {WINDOW_S} AND s.time_s < r.start_s"
        f" GROUP BY r.run_id"
    ).df()
    return _columns(table, sampler, runs)


def by_polars(root: Path, sampler: str, runs: pd.DataFrame, scope: str) -> pd.DataFrame:
    """Return the same by Polars: differences over nodes, then a join by inequalities."""
    import polars as pl

    metrics = SAMPLERS[sampler].metrics
    elapsed = pl.col("time_s").diff().over("node")
    rates = (
        pl.scan_parquet(str(root / sampler / "*" / "*.parquet")).with_columns(pl.col("node").cast(pl.String)).sort("node", "time_s")
    )
    rates = rates.with_columns([(pl.col(m).diff().over("node") / elapsed).alias(m) for m in metrics])
    statistics = [getattr(pl.col(m), s)().alias(f"{m}.{s}") for m in metrics for s in STATISTICS]
    asked = pl.from_pandas(runs.explode("nodes") if scope == "own" else runs.drop(columns="nodes")).lazy()
    asked = asked.with_columns((pl.col("start_s") - WINDOW_S).cast(pl.Float64).alias("begin_s"), pl.col("start_s").cast(pl.Float64))
    within = [pl.col("time_s") >= pl.col("begin_s"), pl.col("time_s") < pl.col("start_s")]
    if scope == "own":
        within.append(pl.col("nodes") == pl.col("node"))
    table = asked.join_where(rates, *within).group_by("run_id").agg(statistics).collect(engine="streaming")
    return _columns(table.to_pandas(), sampler, runs)


def _columns(table: pd.DataFrame, sampler: str, runs: pd.DataFrame) -> pd.DataFrame:
    names = [f"{sampler}.{metric}.{statistic}" for metric in SAMPLERS[sampler].metrics for statistic in STATISTICS]
    return table.set_index("run_id").set_axis(names, axis=1).reindex(runs["run_id"])


def _timed(repeats: int, ways: dict[str, Callable[[], Any]]) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the median seconds of each way, taken in turns, and what each made last."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    tables: dict[str, Any] = {}
    for _ in range(repeats):
        for name, way in ways.items():
            begin = time.perf_counter()
            tables[name] = way()
            seconds[name].append(time.perf_counter() - begin)
    return {name: float(np.median(each)) for name, each in seconds.items()}, tables


def compare_joins(root: Path, runs: pd.DataFrame, repeats: int) -> None:
    """Print seconds of the three joins, scope by scope, and stop where their results differ."""
    sampler = next(iter(SAMPLERS))
    for scope in ("own", "all"):
        ways = {
            "ours": lambda scope=scope: ours(root, sampler, runs, scope),
            "DuckDB": lambda scope=scope: by_duckdb(root, sampler, runs, scope),
            "Polars": lambda scope=scope: by_polars(root, sampler, runs, scope),
        }
        ours(root, sampler, runs.iloc[:2], scope)  # compiled before
        seconds, tables = _timed(repeats, ways)
        for name in ("DuckDB", "Polars"):
            np.testing.assert_allclose(tables[name].to_numpy(), tables["ours"].to_numpy(), rtol=1e-6)
        times = ", ".join(f"{name} {each:.2f} s ({each / seconds['ours']:.1f} x)" for name, each in seconds.items())
        print(f"window join, {sampler}, {scope} nodes, {len(runs):,} runs: {times}")


def main() -> None:
    """Compare the joins."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=30_000_000)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    steps = steps_of(options.values, options.nodes)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        write_counters(root / "counters", steps, options.nodes, INTERVAL_S, rng)
        runs = control_runs(options.runs, steps * INTERVAL_S, options.nodes, rng)
        compare_joins(root / "counters", runs, options.repeats)


if __name__ == "__main__":
    main()
