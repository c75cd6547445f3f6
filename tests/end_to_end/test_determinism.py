"""The same inputs and seed give the same bytes, under any hash seed and number of threads and workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from features.jobs.schema import Trace
from pipelines.readers.canonical import write_canonical
from sim.workloads.workload import Workload, generate

HOUSE = Path(__file__).parents[2]
TIMES = ["simulate_s", "predict_s", "microseconds_per_job"]
"""Measured times, which differ."""
LEARNED = ("--predictor", "last2", "--predictor", "lightgbm", "--predictor", "quantile")


def results(place: Path, trace: Path, hash_seed: str, threads: str) -> list[str]:
    """Return what commands print and write, without times; each in a process of its own, which has one hash seed."""
    place.mkdir()
    env = {**os.environ, "PYTHONPATH": str(HOUSE), "QUEUECAST_HOME": str(place), "PYTHONHASHSEED": hash_seed}
    env |= {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
    simulate = ["simulate", str(trace), "--scheduler", "EASY-SJBF", "--scheduler", "JustBF", *LEARNED, "--shake", "60"]
    simulate += ["--json", "--schedule-out", "schedules.parquet"]
    campaign = ["campaign", str(trace), "--scheduler", "EASY", "--predictor", "requested", "--predictor", "nag"]
    campaign += ["--windows", "weeks", "--workers", threads, "--out", "campaign.parquet"]
    printed = ""
    for words in (simulate, campaign):
        done = subprocess.run([sys.executable, "-m", "pipelines", *words], env=env, cwd=place, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        printed += done.stdout if "--json" in words else ""
    rows = [json.loads(line) for line in printed.splitlines()]
    texts = [json.dumps({name: value for name, value in row.items() if name not in TIMES}) for row in rows]
    tables = [pd.read_parquet(place / f"{name}.parquet") for name in ("schedules", "campaign")]
    return texts + [table.drop(columns=TIMES, errors="ignore").to_csv() for table in tables]


@pytest.mark.thorough
def test_results_are_the_same_under_any_hash_seed_threads_and_workers(tmp_path: Path) -> None:
    trace = generate(Workload(jobs=400, procs=16, users=8, load=0.9, seed=3))
    write_canonical(Trace("trace", trace.jobs, trace.procs), tmp_path / "trace.parquet")
    first, second = (
        results(tmp_path / hash_seed, tmp_path / "trace.parquet", hash_seed, threads)
        for hash_seed, threads in (("0", "1"), ("7", "2"))
    )
    assert len(first) == 8
    assert first == second
