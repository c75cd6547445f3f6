"""The benchmark measures what it says it measures: the right workloads, each with its own peak."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.speed import simulator as bench
from benchmarks.speed.simulator import Case
from features.jobs.cleaning import clean
from sim import simulate
from sim.metrics.timeline import queue_length
from sim.workloads.workload import Workload, generate


def tiny(*schedulers: str) -> Case:
    """Return a workload of sixty jobs."""
    return Case("generated-60", Workload(jobs=60, procs=16, load=0.6), schedulers)


def test_a_workload_has_a_row_for_each_scheduler() -> None:
    rows = bench.apart(bench.measure, tiny("EASY", "JustBF"), 3)
    assert [(row["scheduler"], row["jobs"], row["repeat"]) for row in rows] == [("EASY", 60, 3), ("JustBF", 60, 3)]
    for row in rows:
        assert row["jobs_per_s"] == pytest.approx(row["jobs"] / row["median_s"])
        assert 0 < row["fastest_s"] <= row["median_s"] <= row["slowest_s"]
    assert len(bench.table(rows).rows) == 2


def test_waiting_is_that_of_the_queue_over_time() -> None:
    workload = clean(generate(Workload(jobs=400, procs=16, load=1.2)))
    schedule = simulate(workload.jobs, procs=workload.procs, scheduler="EASY")
    times, values = queue_length(schedule)
    mean, most = bench.waiting(schedule)
    assert most == values.max() > 10
    assert mean == pytest.approx((values[:-1] * np.diff(times)).sum() / (times[-1] - times[0]))
    alone = simulate(workload.jobs.head(1), procs=workload.procs, scheduler="EASY")
    assert bench.waiting(alone) == (0.0, 0)  # a job that starts in the second of its submission has not waited


def test_the_full_workload_has_thousands_waiting() -> None:
    *_, case, deep = bench.plan([])
    workload = bench.prepared(case)
    assert len(workload.jobs) == 300_000
    schedule = simulate(workload.jobs, procs=workload.procs, scheduler="EASY")
    times, values = queue_length(schedule)
    assert bench.waiting(schedule)[0] > 2_000
    assert np.diff(times)[values[:-1] > 1_000].sum() / (times[-1] - times[0]) > 0.85
    workload = bench.prepared(deep)
    assert bench.waiting(simulate(workload.jobs, procs=workload.procs, scheduler="EASY"))[0] > 4_000


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="told by Linux only")
def test_a_peak_is_the_workloads_own_and_not_its_parents() -> None:
    held = np.ones(2**26)  # 512 MiB
    assert bench.peak_bytes() > held.nbytes
    own = bench.apart(bench.peak_bytes)
    assert 2**24 < own < held.nbytes


def test_simulating_for_long_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "PATIENCE_S", 0.0)
    rows = bench.measure(tiny("EASY"), 5)
    assert [row["repeat"] for row in rows] == [1]
    assert rows[0]["fastest_s"] == rows[0]["slowest_s"]
