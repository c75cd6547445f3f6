"""``queuecast evaluate`` as a user meets it: JSON lines, a table and a Parquet file that agree, and one line for what cannot be."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.jobs.cleaning import clean
from pipelines.readers.read import read_trace
from sim import simulate
from tests.support.command import queuecast
from tests.support.workloads import weekly_crowds

WEEKS, JOBS = 8, 50
LEFT_OUT = 20


def swf(path: Path, users: bool = True, requests: str = "all") -> Path:
    """A crowd in each of eight weeks; without users, or with ``some`` or ``no`` requests."""
    lines = ["; MaxProcs: 64"]
    for number, submit, runtime, procs, requested, user in weekly_crowds(WEEKS, JOBS):
        asked = -1 if requests == "no" or (requests == "some" and number % (WEEKS * JOBS // LEFT_OUT) == 0) else requested
        of_user = user if users else -1
        lines.append(f"{number} {submit} -1 {runtime} {procs} -1 -1 {procs} {asked} -1 1 {of_user} 1 -1 -1 -1 -1 -1")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return swf(tmp_path_factory.mktemp("traces") / "crowd.swf")


ASKED = ("--predictor", "requested", "--predictor", "last2", "--predictor", "hierarchy(alpha=0.5)")


def accuracies(jobs: pd.DataFrame) -> pd.Series:
    """Return how near each prediction of a schedule is to the runtime, from 0 to 1."""
    ratio = jobs["runtime_s"] / jobs["predicted_s"]
    return np.minimum(ratio, 1 / ratio)


def evaluated(trace: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = queuecast("evaluate", str(trace), *ASKED, *arguments, home=home)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_json_and_the_simulation_itself_say_the_same(trace: Path, tmp_path: Path) -> None:
    done = evaluated(trace, tmp_path, "--json", "--level", "0.2")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    names = ["requested", "last2", "hierarchy(alpha=0.5)"]
    assert [record["predictor"] for record in records] == names
    workload = clean(read_trace(str(trace)))
    for record in records:
        jobs = simulate(workload.jobs, procs=64, predictor=record["predictor"]).jobs
        short = jobs["runtime_s"] - jobs["predicted_s"]
        expected = {
            "jobs": len(jobs),
            "accuracy": accuracies(jobs).mean(),
            "underprediction_rate": (short > 0).mean(),
            "mae_s": short.abs().mean(),
            "pinball_0.2_s": np.maximum(0.2 * short, -0.8 * short).mean(),
        }
        assert {name: record[name] for name in expected} == pytest.approx(expected)
        assert (record["trace"], record["scheduler"], record["baseline"], record["procs"]) == ("crowd", "EASY", "last2", 64)
        assert record["weeks"] == 8
        assert record["accuracy_low"] <= record["accuracy"] <= record["accuracy_high"]


@pytest.mark.slow
def test_the_table_names_every_predictor_and_its_accuracy(trace: Path, tmp_path: Path) -> None:
    done = evaluated(trace, tmp_path)
    workload = clean(read_trace(str(trace)))
    for name in ("requested", "last2", "hierarchy(alpha=0.5)"):
        accuracy = accuracies(simulate(workload.jobs, procs=64, predictor=name).jobs).mean()
        [line] = [line for line in done.stdout.splitlines() if line.startswith(f"{name} ")]
        assert f"{accuracy:.2%} [" in line


@pytest.mark.slow
def test_jobs_without_a_request_are_not_judged_by_their_own_runtime(tmp_path: Path) -> None:
    some = swf(tmp_path / "some.swf", requests="some")
    done = evaluated(some, tmp_path, "--missing-request", "runtime", "--json")
    record = json.loads(done.stdout.splitlines()[0])
    assert (record["jobs"], record["left_out_jobs"]) == (WEEKS * JOBS - LEFT_OUT, LEFT_OUT)
    assert f"some: {LEFT_OUT} jobs, whose request was taken from their runtime, are simulated and not judged" in done.stderr
    nothing = queuecast("evaluate", str(swf(tmp_path / "no.swf", requests="no")), "--missing-request", "runtime", home=tmp_path)
    assert nothing.returncode == 2
    assert nothing.stderr.splitlines()[-1].startswith("queuecast: no: every request was taken from the job's runtime")
