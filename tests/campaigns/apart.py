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

_HOUSE = Path(__file__).parents[2]


def apart(module: str, attempts: int, seed: int, folder: Path, *more: str, **variables: str) -> Counts:
    """Return the counts of ``module``'s campaign, run by :func:`answer` in a fresh process with these environment variables."""
    environment = {**os.environ, "PYTHONPATH": str(_HOUSE), "OMP_NUM_THREADS": "1"}  # a process with threads cannot be forked
    environment |= variables
    for name in ("DAGSTER_HOME", "MLFLOW_TRACKING_URI"):
        environment.pop(name, None)
    told = folder / "counts.json"
    asked = [sys.executable, "-m", module, str(attempts), str(seed), str(folder), *more]
    done = subprocess.run(
        asked, cwd=_HOUSE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode or not told.exists():
        raise RuntimeError(f"{module} ended with {done.returncode}: {done.stdout[-4000:]}")
    stated = json.loads(told.read_text(encoding="utf-8"))
    return Counts(stated["attempts"], Counter(stated["outcomes"]), stated["findings"])


def answer(run: Callable[..., Counts]) -> None:
    """Run ``run(attempts, seed, folder, *more)`` as the command line asks, and write its counts."""
    attempts, seed, folder, *more = sys.argv[1:]
    counts = run(int(attempts), int(seed), Path(folder), *more)
    (Path(folder) / "counts.json").write_text(json.dumps(vars(counts)), encoding="utf-8")
