"""Do the same work under other hash seeds, numbers of threads and workers: results are the same to the byte.

Simulations, a campaign of policies and an evaluation of predictions on a random trace, and of every tenth trace a whole run. What is left out
of the comparison is what measures time, and ids of versions.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from features.clock import WEEK_S
from tests.campaigns.counts import Counts
from tests.support.command import queuecast
from tests.support.patience import FOREVER_S
from tests.support.workloads import crowd

ATTEMPTS = 30
_HOUSE = Path(__file__).parents[2]
TIMES = ("simulate_s", "retrain_s", "microseconds", "retraining_share", "took")
"""Columns that measure time."""
VARIED = ({"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}, {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "2"})
WORKERS = (1, 2)
TABLES = ("jobs", "rejected_jobs", "user_history", "schedules", "prediction_quality", "comparison")
"""Tables of a run."""
_TIMES_AND_IDS = re.compile(
    r"\d[\d.,]* (s|ms|µs)\b|\b\d{4}-\d\d-\d\d[ T][\d:]+|\bv?\d{8}T?\d*\w*|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
)


def campaign(attempts: int, seed: int, folder: Path) -> Counts:
    """Compare ``attempts`` traces, each done twice."""
    counts = Counts()
    for number in range(attempts):
        place = folder / str(number)
        write_trace(place / "trace.swf", seed * 1000 + number)
        first, second = (elsewhere(place, which, whole=number % 10 == 0) for which in range(len(VARIED)))
        for what in sorted({*first, *second}):
            differs = first.get(what) != second.get(what)
            counts.add(
                "another result" if differs else "the same", f"seed {seed * 1000 + number}: {what} differs" if differs else None
            )
    return counts


def write_trace(path: Path, seed: int, weeks: int = 3, jobs: int = 120) -> None:
    """Write a crowd in each of some weeks as an SWF file."""
    rng, lines = np.random.default_rng(seed), ["; MaxProcs: 64"]
    for week in range(weeks):
        load = crowd(rng, jobs, longest_s=30_000, origin_s=week * WEEK_S)
        for submit, runtime, procs, requested, user in zip(
            load.submit, load.runtime, load.procs, load.requested, load.user, strict=True
        ):
            fields = f"{submit} -1 {runtime} {procs} -1 -1 {procs} {requested} -1 1 {str(user)[1:]} 1 -1 -1 -1 -1 -1"
            lines.append(f"{len(lines)} {fields}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def elsewhere(place: Path, which: int, whole: bool = False) -> dict[str, str]:
    """Return :func:`results` of a process with the environment ``VARIED[which]``."""
    code = "import sys, json; from pathlib import Path; from tests.campaigns.determinism import results; "
    code += "print(json.dumps(results(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == 'True')))"
    home = place / f"{which}"
    home.mkdir(parents=True, exist_ok=True)
    (home / "trace.swf").write_bytes((place / "trace.swf").read_bytes())
    asked = [sys.executable, "-c", code, str(home), str(WORKERS[which]), str(whole)]  # not forked: a process has one hash seed
    done = subprocess.run(
        asked,
        env={**os.environ, "PYTHONPATH": str(_HOUSE), **VARIED[which]},
        capture_output=True,
        text=True,
        timeout=FOREVER_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def results(folder: Path, workers: int, whole: bool = False) -> dict[str, str]:
    """Return the digest of each result of the commands on ``trace.swf`` in ``folder``, by name."""
    learned = ("--predictor", "last2", "--predictor", "lightgbm", "--predictor", "quantile")
    schedulers = ("--scheduler", "EASY-SJBF", "--scheduler", "JustBF", "--scheduler", "SAF-EASY")
    rows = _rows(folder, "simulate", *schedulers, *learned, "--shake", "60", "--seed", "3", "--schedule-out", "schedules.parquet")
    policies = ("--scheduler", "EASY", "--scheduler", "EASY-SJBF", "--predictor", "requested", "--predictor", "nag")
    policies += ("--windows", "weeks", "--workers", str(workers), "--out", "campaign.parquet")
    _rows(folder, "campaign", *policies, json_lines=False)
    rows += _rows(folder, "evaluate", *learned, "--repeat", "0", "--out", "evaluation.parquet", "--report", "evaluation.html")
    texts = {"metrics": rows, "page of predictions": (folder / "evaluation.html").read_text(encoding="utf-8")}
    for table in ("schedules", "campaign", "evaluation"):
        texts[table] = _plain(pd.read_parquet(folder / f"{table}.parquet"))
    if whole:
        texts |= _run(folder)
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}


def _rows(folder: Path, command: str, *arguments: str, json_lines: bool = True) -> str:
    """Run a command in ``folder``; return what it says in JSON, without times."""
    done = queuecast(command, "trace.swf", *arguments, *(["--json"] if json_lines else []), home=folder / "home", cwd=folder)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr[-1000:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines()] if json_lines else []
    return json.dumps([{name: value for name, value in row.items() if name not in TIMES} for row in rows])


def _run(folder: Path) -> dict[str, str]:
    """Return the tables and the page of a run of the trace, without times and ids."""
    from pipelines.storage.lake import Lake

    done = queuecast("run", "--trace", "trace.swf", home=folder / "home", cwd=folder)
    if done.returncode:
        raise RuntimeError(f"run: {done.stderr[-1000:]}")
    lake = Lake(folder / "home" / "lake")
    texts = {f"run: {table}": _plain(lake.read(table, "trace")[0]) for table in TABLES}
    page = (folder / "home" / "reports" / "trace.html").read_text(encoding="utf-8").replace(str(folder), "")
    return texts | {"run: page": _TIMES_AND_IDS.sub("", page)}


def _plain(table: pd.DataFrame) -> str:
    return table.drop(columns=[name for name in TIMES if name in table]).to_csv(index=False)
