"""The benchmark measures what it says it measures: the right workloads, each with its own peak."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from features.errors import InputError
from features.jobs.cleaning import clean
from pipelines.cli import bench as cli
from pipelines.ingest.workload import Workload, generate
from pipelines.workflows import bench
from pipelines.workflows.bench import Case
from sim import simulate
from sim.metrics.timeline import queue_length

SWF = """; MaxProcs: 4
1 0 -1 100 2 -1 -1 2 200 -1 1 1 1 -1 -1 -1 -1 -1
2 10 -1 100 4 -1 -1 4 100 -1 1 2 1 -1 -1 -1 -1 -1
3 20 -1 50 2 -1 -1 2 60 -1 1 1 1 -1 -1 -1 -1 -1
4 30 -1 -1 2 -1 -1 2 60 -1 1 1 1 -1 -1 -1 -1 -1
"""


def tiny(jobs: int, *schedulers: str) -> Case:
    return Case(f"generated-{jobs}", Workload(jobs=jobs, procs=16, load=0.6), schedulers)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "small.swf"
    path.write_text(SWF)
    return path


@pytest.fixture(scope="module")
def notes() -> list[str]:
    return []


@pytest.fixture(scope="module")
def document(trace: Path, notes: list[str]) -> dict[str, Any]:
    """What a run on tiny workloads measured."""
    return bench.run([tiny(60, "EASY", "JustBF"), Case("small", str(trace), ("Strict",))], 3, notes.append)


def test_every_workload_has_a_row_for_each_scheduler(document: dict[str, Any]) -> None:
    assert [(row["trace"], row["scheduler"], row["jobs"]) for row in document["figures"]] == [
        ("generated-60", "EASY", 60),
        ("generated-60", "JustBF", 60),
        ("small", "Strict", 3),
    ]
    for row in document["figures"]:
        assert row["jobs_per_s"] == pytest.approx(row["jobs"] / row["median_s"])
        assert 0 < row["fastest_s"] <= row["median_s"] <= row["slowest_s"]
        assert row["repeat"] == 3
        assert row["generated"] == row["trace"].startswith("generated")


def test_the_document_says_what_it_was_measured_with_and_survives_json(document: dict[str, Any]) -> None:
    assert {"processor", "cores", "memory_gib", "system"} <= document["machine"].keys()
    assert "numba" in document["software"]
    assert re.match(r"\d+\.\d+", document["queuecast"])
    assert "jobs 60, procs 16" in document["figures"][0]["source"]
    assert json.loads(json.dumps(document)) == document


def test_what_cleaning_dropped_is_said(document: dict[str, Any], notes: list[str]) -> None:
    assert "small: 4 jobs read, 3 kept (no-runtime dropped 1)" in notes


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
    *_, case, deep = cli.plan([])
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
    own = bench.apart("nothing", bench.peak_bytes)
    assert 2**24 < own < held.nbytes


def test_a_process_that_is_ended_from_outside_is_named() -> None:
    with pytest.raises(InputError, match=r"generated-60: .* ended from outside"):
        bench.apart("generated-60", os._exit, 1)


def test_simulating_for_long_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "PATIENCE_S", 0.0)
    rows, _ = bench.measure(tiny(60, "EASY"), 5)
    assert [row["repeat"] for row in rows] == [1]
    assert rows[0]["fastest_s"] == rows[0]["slowest_s"]


# What is measured by default


def test_given_traces_are_measured_beside_generated_workloads(trace: Path) -> None:
    names = [case.name for case in cli.plan([str(trace)])]
    assert names == ["generated-28k", "small", "generated-300k", "generated-300k-full", "generated-40k-deep"]


def test_two_workloads_of_one_name_are_refused(tmp_path: Path, trace: Path) -> None:
    other = tmp_path / "small.swf"
    other.write_text(SWF)
    with pytest.raises(InputError, match="would both be called small"):
        cli.plan([str(trace), str(other)])


def test_a_trace_that_is_unknown_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(InputError, match=r"no-such\.swf"):
        cli.plan(["no-such.swf"])


# The command


def queuecast_bench(monkeypatch: pytest.MonkeyPatch, document: dict[str, Any], *arguments: str) -> Result:
    """The command with figures that were measured already."""
    monkeypatch.setattr(cli, "run", lambda *_: document)
    return CliRunner().invoke(cli.command, list(arguments), env={"COLUMNS": "200"})


def test_the_command_prints_every_figure_and_writes_them(
    monkeypatch: pytest.MonkeyPatch, document: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "figures.json"
    done = queuecast_bench(monkeypatch, document, "--out", str(out))
    assert done.exit_code == 0, done.output
    assert json.loads(out.read_text()) == document
    printed = " ".join(done.stdout.split())
    for row in document["figures"]:
        assert f" {row['median_s']:.4f} " in printed


def test_a_file_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, document: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = queuecast_bench(monkeypatch, document, "--out", str(tmp_path / "file" / "figures.json"))
    assert isinstance(done.exception, InputError)
    assert "cannot be written" in str(done.exception)
