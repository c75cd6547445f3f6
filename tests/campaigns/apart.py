"""Run a campaign in a process of its own, which it may change: homes, patched commands, forks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.campaigns.counts import Counts
from tests.support.process import python

_HOUSE = Path(__file__).parents[2]


def apart(module: str, attempts: int, seed: int, folder: Path, *more: str, **variables: str) -> Counts:
    """Return the counts of ``module``'s campaign, run by :func:`answer` in a process of its own with these environment variables.

    The process is forked from one that has imported the libraries, unless ``variables`` are given, which libraries read when imported.
    """
    environment = {**os.environ, "PYTHONPATH": str(_HOUSE), "OMP_NUM_THREADS": "1"}  # a process with threads cannot be forked
    environment |= variables
    for name in ("DAGSTER_HOME", "MLFLOW_TRACKING_URI"):
        environment.pop(name, None)
    told = folder / "counts.json"
    asked = ["-m", module, str(attempts), str(seed), str(folder), *more]
    if variables:
        done = subprocess.run([sys.executable, *asked], cwd=_HOUSE, env=environment, capture_output=True, text=True, check=False)
    else:
        done = python(asked, cwd=_HOUSE, env=environment, timeout=None)
    if done.returncode or not told.exists():
        raise RuntimeError(f"{module} ended with {done.returncode}: {(done.stdout + done.stderr)[-4000:]}")
    stated = json.loads(told.read_text(encoding="utf-8"))
    return Counts(stated["attempts"], Counter(stated["outcomes"]), stated["findings"])


def answer(run: Callable[..., Counts]) -> None:
    """Run ``run(attempts, seed, folder, *more)`` as the command line asks, and write its counts."""
    attempts, seed, folder, *more = sys.argv[1:]
    counts = run(int(attempts), int(seed), Path(folder), *more)
    (Path(folder) / "counts.json").write_text(json.dumps(vars(counts)), encoding="utf-8")
