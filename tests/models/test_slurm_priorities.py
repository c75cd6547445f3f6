"""The example for Slurm orders waiting jobs as the simulator's score does, and leaves held ones alone."""

from __future__ import annotations

import runpy
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from pipelines.lake.registry import read_policy
from tests.sim.schedulers.test_scores import Written, formulas

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SCRIPT, LEARNED = EXAMPLES / "slurm_priorities.py", EXAMPLES / "learned-kth-sp2.json"
EXAMPLE = runpy.run_path(str(SCRIPT), run_name="example")
NOW = time.mktime((2024, 5, 1, 18, 30, 0, 0, 0, -1))
WAITING = [
    "7|4|1-00:00:00|2024-05-01T10:00:00|500",
    "8|1|30:00|2024-05-01T12:00:00|1",
    "9|1|1:30:00|2024-05-01T11:00:00|0",
    "12|1|30:00|2024-05-01T09:00:00|3",
    "13|8|UNLIMITED|2024-05-01T09:00:00|3",
]
COLUMNS = {
    "n": [4, 1, 1, 8],
    "r": [86400, 1800, 1800, 365 * 86400],
    "wait": [30600, 23400, 34200, 34200],
    "free": [5] * 4,
    "queue": [4] * 4,
    "procs": [16] * 4,
    "hour": [18.5] * 4,
}
JOBS = ["7", "8", "12", "13"]


def order(formula: str, parameters: dict[str, float] | None = None) -> list[str]:
    ranked = EXAMPLE["priorities"]({"formula": formula, "parameters": parameters or {}}, WAITING, 16, 5, NOW)
    values = [priority for _, priority in ranked]
    assert values == sorted(set(values), reverse=True)
    assert 0 < min(values) <= max(values) < 2**32
    return [job for job, _ in ranked]


def test_a_policy_of_predictions_is_refused() -> None:
    done = subprocess.run([sys.executable, SCRIPT, LEARNED], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{LEARNED}: its r is not the requested time: index of the job's expected weight")
    policy = read_policy(LEARNED)
    assert policy.behind == "-EASY(plans=requested)-SPF"
    assert policy.evidence is not None
    assert not policy.evidence.clear


def test_a_command_of_slurm_that_fails_is_told_in_its_own_line(tmp_path: Path) -> None:
    policy, sinfo = tmp_path / "policy.json", tmp_path / "sinfo"
    policy.write_text('{"features": {"n": {}}, "predictor": "requested", "formula": "n", "parameters": {}}', encoding="utf-8")
    sinfo.write_text("#!/bin/sh\necho 'slurm_load_partitions: Unable to contact slurm controller' >&2\nexit 1\n", encoding="utf-8")
    sinfo.chmod(0o755)
    done = subprocess.run([sys.executable, SCRIPT, policy], capture_output=True, text=True, env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "sinfo: slurm_load_partitions: Unable to contact slurm controller\n"


def test_the_smallest_score_goes_first_and_ties_by_submission() -> None:
    assert order("r**a*n", {"a": 2.0}) == ["12", "8", "7", "13"]


@settings(max_examples=15)
@given(formulas.filter(lambda formula: "submit" not in formula[0]))
def test_scores_are_those_of_the_simulator(formula: Written) -> None:
    text, value = formula
    demand = sum(n * r for n, r in zip(COLUMNS["n"], COLUMNS["r"], strict=True))
    inputs = {**COLUMNS, "requested": COLUMNS["r"], "demand": [demand] * 4}
    scores = [value({name: float(column[row]) for name, column in inputs.items()}) for row in range(4)]
    first = sorted(range(4), key=lambda row: (np.clip(scores[row], -1e300, 1e300), -COLUMNS["wait"][row], int(JOBS[row])))
    assert order(text) == [JOBS[row] for row in first]


@pytest.mark.parametrize(("text", "seconds"), [("5:00", 300), ("1-2:03:04", 93784), ("0:10", 10), ("UNLIMITED", 31_536_000)])
def test_limits_are_read_as_slurm_writes_them(text: str, seconds: float) -> None:
    assert EXAMPLE["seconds"](text) == seconds
