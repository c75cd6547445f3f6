"""Run a campaign in a process of its own, which it may change: homes, patched commands, forks."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

from tests.campaigns.counts import Counts
from tests.support.process import python

_HOUSE = Path(__file__).parents[2]


def apart(name: str, attempts: int, seed: int, folder: Path, *more: str) -> Counts:
    """Return the counts of a campaign, run in a process of its own, forked from one that has imported the libraries."""
    environment = {**os.environ, "PYTHONPATH": str(_HOUSE), "OMP_NUM_THREADS": "1"}  # a process with threads cannot be forked
    for variable in ("DAGSTER_HOME", "MLFLOW_TRACKING_URI"):
        environment.pop(variable, None)
    file = folder / "counts.json"
    asked = ["-m", "tests.campaigns.apart", name, str(attempts), str(seed), str(folder), *more]
    done = python(asked, cwd=_HOUSE, env=environment, timeout=None)
    if done.returncode or not file.exists():
        raise RuntimeError(f"{name} ended with {done.returncode}: {(done.stdout + done.stderr)[-4000:]}")
    fields = json.loads(file.read_text(encoding="utf-8"))
    return Counts(fields["attempts"], Counter(fields["outcomes"]), fields["findings"])


def campaign(name: str) -> ModuleType:
    """Return the module of a campaign."""
    return importlib.import_module(f"tests.campaigns.{name}")


if __name__ == "__main__":
    _, asked, *numbers, place = sys.argv[:5]
    counts = campaign(asked).campaign(*map(int, numbers), Path(place), *sys.argv[5:])
    (Path(place) / "counts.json").write_text(json.dumps(vars(counts)), encoding="utf-8")
