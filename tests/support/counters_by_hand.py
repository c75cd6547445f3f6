"""Counters as broken as a site's, and their window features in plain Python.

Every pair of run and sample is looked at, times as integers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from features.monitoring.samplers import Sampler

ORIGIN_S = 1_600_000_000
METRICS = ("sent", "received", "level")
SAMPLER = Sampler("net", METRICS, frozenset({"level"}))


class Case(NamedTuple):
    """Samples of one sampler in order of time, runs, and options of ``window_features``."""

    samples: pd.DataFrame
    runs: pd.DataFrame
    options: dict[str, Any]

    def batches(self, rng: np.random.Generator) -> Iterator[Any]:
        """The samples in pieces of any length, empty ones too, in each form that is taken."""
        cuts = np.sort(rng.integers(0, len(self.samples) + 1, 5))
        for begin, end in zip([0, *cuts], [*cuts, len(self.samples)], strict=True):
            piece = self.samples.iloc[begin:end]
            table = pa.Table.from_pandas(piece, preserve_index=False)
            if rng.random() < 0.5:  # as Parquet is read
                table = table.set_column(1, "node", table["node"].dictionary_encode())
            form = rng.integers(3)
            if form == 0:
                yield piece
            elif form == 1:
                yield table
            else:
                yield from table.to_batches()


def random_case(seed: int) -> Case:
    """Return a random case with every kind of fault.

    Gaps, resets, wraps, nulls, impossible values, duplicates, vanished and late nodes, nodes and runs without samples,
    overlapping windows.
    """
    rng = np.random.default_rng(seed)
    interval = rng.choice([0.3, 1.0, 7.0])
    seconds = 60 if interval < 1 else 40 * interval
    nodes = [f"n{number}" for number in range(rng.integers(1, 7))]
    rows = []
    for node in nodes:
        time = ORIGIN_S + rng.uniform(0, seconds / 2) * (rng.random() < 0.3)
        until = ORIGIN_S + seconds * (rng.uniform(0.2, 1) if rng.random() < 0.3 else 1)
        sent, received = float(rng.integers(2**32 - 5_000, 2**32)), float(rng.choice([2.0**64 - 2.0**20, 1e6]))
        while time < until:
            sent = sent + float(rng.integers(0, 3_000)) if rng.random() > 0.05 else float(rng.integers(0, 100))
            sent -= 2**32 if sent >= 2**32 else 0
            received = received + 2.0 ** rng.integers(1, 19) if rng.random() > 0.05 else float(rng.integers(0, 100))
            received -= 2.0**64 if received >= 2.0**64 else 0
            row = [round(time, 6), node, sent, received, float(rng.normal(50))]
            for place in (2, 3, 4):
                if rng.random() < 0.1:
                    row[place] = rng.choice([np.nan, np.nan, -1.0, np.inf])
            rows.append(row)
            if rng.random() < 0.05:
                rows.append([row[0], node, *rng.uniform(0, 1e9, 3)])
            time += interval * rng.choice([1.0, 1.0, rng.uniform(0.5, 1.5), 6.0], p=[0.5, 0.2, 0.25, 0.05])
            time = round(time) if rng.random() < 0.3 else time
    samples = pd.DataFrame(rows, columns=["time_s", "node", *METRICS])
    samples = samples.sort_values(["time_s", "node"], kind="stable", ignore_index=True)
    count = rng.integers(0, 12)
    runs = pd.DataFrame(
        {
            "run_id": [f"run{number}" for number in range(count)],
            "nodes": [list(rng.permutation([*nodes, "never"])[: rng.integers(0, len(nodes) + 2)]) for _ in range(count)],
            "start_s": rng.integers(ORIGIN_S - 5, ORIGIN_S + int(seconds) + 30, count),
        }
    )
    window = float(rng.choice([5, 20, 7.25]))
    options = {
        "window_s": window,
        "lag_s": float(rng.choice([0, 2, 0.5, 1.1])),
        "longest_interval_s": float(rng.choice([2.5, 300]) * interval),
    }
    return Case(samples, runs, options)


class Said(NamedTuple):
    """A sample that is no duplicate: microseconds, node and what its metrics say."""

    micros: int
    node: str
    says: dict[str, float]


def said_by_hand(case: Case) -> tuple[list[Said], Counter[str]]:
    longest = round(case.options["longest_interval_s"] * 10**6)
    last: dict[tuple[str, str], tuple[int, float]] = {}
    sampled: dict[str, int] = {}
    readings: list[Said] = []
    counts: Counter[str] = Counter()
    for row in case.samples.to_dict("records"):
        micros, node = round(row["time_s"] * 10**6), row["node"]
        if sampled.get(node) == micros:
            counts["duplicate"] += 1
            continue
        sampled[node] = micros
        says = {}
        for metric in METRICS:
            value = row[metric]
            if math.isnan(value):
                counts["null"] += 1
            elif math.isinf(value) or (metric != "level" and value < 0):
                counts["invalid"] += 1
            elif metric == "level":
                counts["gauge"] += 1
                says[metric] = value
            else:
                before = last.get((node, metric))
                last[node, metric] = (micros, value)
                if before is None:
                    counts["first"] += 1
                elif micros - before[0] > longest:
                    counts["gap"] += 1
                else:
                    kind, growth = growth_by_hand(int(before[1]), int(value))
                    counts[kind] += 1
                    if growth is not None:
                        says[metric] = growth * 10**6 / (micros - before[0])
        readings.append(Said(micros, node, says))
    counts["samples"], counts["nodes"] = len(readings), len(sampled)
    counts["vanished"] = sum(max(sampled.values()) - each > longest for each in sampled.values())
    return readings, counts


def growth_by_hand(previous: int, value: int) -> tuple[str, int | None]:
    """Return growth in whole numbers, which have no limit.

    The rule is that of a counter as wide as its previous value needs.
    """
    if value >= previous:
        return "difference", value - previous
    width = 32 if previous < 2**32 else 64
    if previous <= 2**64 and 16 * previous >= 15 * 2**width and 16 * value < 2**width:
        return f"wrap_{width}", value + 2**width - previous
    return "reset", None


def features_by_hand(case: Case, scope: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Features, and coverage without what was expected."""
    readings, _ = said_by_hand(case)
    window, lag = (round(case.options[name] * 10**6) for name in ("window_s", "lag_s"))
    rows, coverage = [], []
    for run in case.runs.itertuples():
        start = int(run.start_s) * 10**6
        inside = [
            each
            for each in readings
            if start - window <= each.micros < start - lag and (scope == "all" or each.node in run.nodes) and each.says
        ]
        row = {}
        for metric in METRICS:
            values = [each.says[metric] for each in inside if metric in each.says]
            some = (min(values), max(values), math.fsum(values) / len(values)) if values else (math.nan,) * 3
            row |= {f"net.{metric}.{name}": value for name, value in zip(("min", "max", "mean"), some, strict=True)}
        rows.append(row)
        coverage.append({f"net.{scope}.samples": len(inside), f"net.{scope}.nodes": len({each.node for each in inside})})
    index = pd.Index(case.runs["run_id"], name="run_id")
    columns = [f"net.{metric}.{name}" for metric in METRICS for name in ("min", "max", "mean")]
    named = [f"net.{scope}.samples", f"net.{scope}.nodes"]
    return pd.DataFrame(rows, index=index, columns=columns, dtype=float), pd.DataFrame(coverage, index=index, columns=named)
