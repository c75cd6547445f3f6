"""Record what changes of a site did on a real Slurm, for the tests of what replays say beforehand.

    python -m tests.golden.slurm.changes before
    python -m tests.golden.slurm.changes predict
    python -m tests.golden.slurm.changes after [NAME ...]

The same submissions run twice under today's settings; from the accounting of the first run alone each change is predicted; then each
change runs twice. The predictions were committed before any of the changed runs began.
"""

from __future__ import annotations

import gzip
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from pipelines.workflows.parity import read_site_jobs
from pipelines.workflows.what_if import measure, read_candidates
from sim.campaigns.maps import threads
from sim.site_change import Changed
from sim.what_if import Replays
from tests.golden.slurm.record import ALL, COMMON, RUNS, TIERS, USERS, Job, Workload, _some, record_twice

KEPT = Path(__file__).parent / "changes"
PREDICTED, TODAY = KEPT / "predicted.csv", "before-A"
SEED = "x"
"""Draws the jobs: one of six that were replayed before anything was recorded, in which all six changes matter."""
REPLICATES, DRAWS = 60, 100_000
MODEL = 0.06
"""Standard deviation of the model's relative error.

The root mean square of the errors of its mean waits over twelve recorded runs (docs/slurm.md: those without administrators' holds
and without everything at once).
"""
LEVELS = (0.05, 0.95)


def _jobs(draw: random.Random, limit: int = 2) -> Iterator[Job]:
    """Draw jobs that ask for ``limit`` times what they might.

    Two users bring wide and long ones, and small ones that are urgent or short; the others small ones of a QOS with a limit a user.
    """
    for job in _some(draw, 120, 260):
        kind = draw.random()
        user = draw.choice(("u1", "u5") if kind < 0.57 else ("u2", "u3", "u6", "u7"))
        job |= {"user": user, "account": "physics" if user < "u4" else "biology", "partition": "batch"}
        if kind < 0.22:
            job |= {"tasks": max(job["tasks"], 8), "runtime_s": max(job["runtime_s"], 30)}
        elif kind < 0.57:
            job |= {"partition": draw.choice(("urgent", "short")), "tasks": min(job["tasks"], 8), "nodes": ""}
            job |= {"limit_min": 1, "runtime_s": min(job["runtime_s"], 25)}
        else:
            job |= {"tasks": min(job["tasks"], 4), "qos": "each", "nodes": "", "runtime_s": max(job["runtime_s"], 20)}
        job["limit_min"] *= limit
        yield job


def _half(draw: random.Random) -> Iterator[Job]:
    return _jobs(draw, 1)


SERVICE = "scontrol create reservation reservationname=service starttime=now+240 duration=2 nodes=n[1-3] users=root flags=maint,ignore_jobs"
ACCOUNTS = "add qos each MaxTRESPerUser=cpu=8\n" + USERS + ALL.format("normal,each")
BEFORE = Workload(COMMON + TIERS, ACCOUNTS, _jobs, ((1, SERVICE),))
AFTER = {
    "no backfill": BEFORE._replace(conf=BEFORE.conf.replace("sched/backfill", "sched/builtin")),
    "two jobs tested": BEFORE._replace(conf=BEFORE.conf.replace("bf_max_job_test=1000", "bf_max_job_test=2")),
    "age instead of fair share": BEFORE._replace(
        conf=BEFORE.conf.replace("WeightAge=20000", "WeightAge=200000").replace("WeightFairshare=50000", "WeightFairshare=0")
    ),
    "a user's QOS limit halved": BEFORE._replace(accounts=ACCOUNTS.replace("cpu=8", "cpu=4")),
    "one tier": BEFORE._replace(
        conf=BEFORE.conf.replace("PriorityTier=10", "PriorityTier=1").replace("PriorityTier=5", "PriorityTier=1")
    ),
    "halved time limits": BEFORE._replace(jobs=_half),
}
"""Each change as it is made on the real Slurm; ``changes/candidates.toml`` has the same as candidates."""


def file_name(name: str) -> str:
    """Return the name of a change in file names."""
    return name.replace("'", "").replace(" ", "-")


def predict() -> pd.DataFrame:
    """Predict what each change does to the mean wait, from the accounting of one run of today's settings.

    Columns ``change relative low high verdict``. ``relative`` and the verdict are what ``queuecast whatif`` says of unshaken
    submissions. The range, 90 %, is that of the mean wait of two runs after the change over that of two runs before it, less 1. Each of
    the four is a replay drawn at random, for real runs of the same submissions differ in the phases of Slurm's clocks. The ratio is
    multiplied by an error of the model, exp(:data:`MODEL` z) with a standard normal z. What the model errs by under both settings
    cancels in the ratio; no use is made of that.
    """
    site, jobs = read_site_jobs(KEPT / f"{TODAY}.txt.gz", KEPT / TODAY, "UTC")
    candidates, seeds = read_candidates(KEPT / "candidates.toml"), list(range(REPLICATES))
    study = measure(site, jobs, candidates, REPLICATES, 0, 0, threads(), lambda done, of: None)
    changes = [Changed(site, jobs.table, (), frozenset()), *(study.changes[each.name] for each in candidates)]
    work = Replays(changes, 0)
    waits = np.empty((len(changes), REPLICATES))
    for row, seed, start in threads()(work, [[row, seed] for row in range(len(changes)) for seed in seeds]):
        waits[row, seed] = (start - changes[row].jobs["submit_s"].to_numpy()).mean()
    random = np.random.default_rng(0)
    drawn, error = random.integers(0, REPLICATES, (2, DRAWS, len(RUNS))), np.exp(MODEL * random.standard_normal(DRAWS))
    rows = []
    for each, after in zip(candidates, waits[1:], strict=True):
        ratio = error * after[drawn[0]].mean(axis=1) / waits[0][drawn[1]].mean(axis=1) - 1
        relative = study.effects[each.name].metrics["mean_wait_s"].relative
        rows.append((each.name, relative, *np.quantile(ratio, LEVELS), study.verdicts[each.name]))
    return pd.DataFrame(rows, columns=["change", "relative", "low", "high", "verdict"])


def measured(name: str) -> float:
    """Return the mean wait of the two runs with a change over that of the two without, less 1."""
    return _mean_wait(file_name(name)) / _mean_wait("before") - 1


def _mean_wait(name: str) -> float:
    waits = []
    for run in RUNS:
        rows = pd.read_csv(KEPT / f"{name}-{run}.txt.gz", sep="|", parse_dates=["Submit", "Start"])
        jobs = rows[~rows["JobID"].astype(str).str.contains(".", regex=False)]
        waits.append((jobs["Start"] - jobs["Submit"]).dt.total_seconds().mean())
    return float(np.mean(waits))


def _pack(name: str) -> None:
    """Keep the accounting of a change alone, packed."""
    for run in RUNS:
        accounting = KEPT / f"{name}-{run}.txt"
        (KEPT / f"{accounting.name}.gz").write_bytes(gzip.compress(accounting.read_bytes(), mtime=0))
        accounting.unlink()
        (KEPT / f"{name}-{run}.log.gz").unlink()
        if f"{name}-{run}" != TODAY:
            shutil.rmtree(KEPT / f"{name}-{run}")


def main(what: str, *names: str) -> None:
    """Record the runs before, predict, or record the named changes, or all."""
    KEPT.mkdir(exist_ok=True)
    if what == "predict":
        predict().to_csv(PREDICTED, index=False, float_format="%.4f")
        return
    workloads = {"before": BEFORE} if what == "before" else {file_name(name): AFTER[name] for name in names or AFTER}
    record_twice([(workload, name) for name, workload in workloads.items()], SEED, KEPT)
    for name in workloads:
        _pack(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
