"""The benchmark of kills, on a few: a run and a night that are killed leave the version before, or the new one whole."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.end_to_end
def test_runs_and_nights_that_are_killed_lose_nothing() -> None:
    house = Path(__file__).parents[2]
    command = [sys.executable, "-m", "benchmarks.studies.kills", "--kills", "3", "--seed", "3"]
    environment = {**os.environ, "PYTHONPATH": str(house)}
    done = subprocess.run(command, cwd=house, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("3 kills, 0 with anything lost")
    assert "publishing" in done.stdout
