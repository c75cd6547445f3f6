"""A changed workload: the same jobs shaken, at another load, or compressed in time.

A schedule is chaotic: a job that comes a minute later can change the wait of every later job. One replay is therefore
one sample of many, and a difference between two policies may be chance. Tsafrir & Feitelson, "Instability in parallel
job scheduling simulation: the role of workload flurries" (IPDPS 2006), show how large such effects are; Tsafrir,
Ouaknine & Feitelson, "Reducing performance evaluation sensitivity and variability by input shaking" (MASCOTS 2007),
answer with many replays of a slightly changed input.

If nothing waits on a machine, it cannot tell schedulers apart. Two changes that raise contention are usual: shorter
times between submissions (``load``), and runtimes and times between submissions divided alike (``squeeze``; by seven in
Klusáček & Chlumský, JSSPP 2017). ``squeeze`` keeps the load and turns a trace of months into one of weeks. Neither is
the recorded workload any more, so everything that shows such results names the factors.
"""

from __future__ import annotations

import math

import numpy as np

from features import limits
from features.deferred import pd
from features.errors import InputError
from features.jobs.dependencies import preceding_rows
from features.jobs.schema import OVERRUN
from features.limits import LARGEST


def moves(jobs: int, shake_s: int, seed: int) -> np.ndarray:
    """Draw each job's move in seconds, int64 [jobs]: uniform in -shake_s..shake_s.

    Every seed moves jobs, 0 too; only ``shake_s`` = 0 leaves a trace as recorded. Raises InputError for a negative
    number.
    """
    if not 0 <= shake_s <= limits.SECONDS:
        raise InputError(f"submissions cannot be moved by up to {shake_s} s: give 0 (no moves) to {limits.SECONDS}")
    if seed < 0:
        raise InputError(f"seed {seed}: must be 0 or more")
    return np.random.default_rng(seed).integers(-shake_s, shake_s, jobs, endpoint=True)


def shaken(jobs: pd.DataFrame, by_s: np.ndarray, dependencies: bool = False) -> tuple[pd.DataFrame, np.ndarray]:
    """Move submissions by ``by_s`` seconds; return the reordered jobs and their former rows.

    The result is in order of the moved submissions; jobs moved to the same second keep the order of the table. All
    other columns stay as recorded. A recorded wait is kept, so the recorded start moves with its job. With
    ``dependencies`` no job is moved before its preceding job.
    """
    submit = jobs["submit_s"].to_numpy(np.int64) + by_s
    if dependencies:
        for row, preceding in enumerate(preceding_rows(jobs).row.tolist()):
            if preceding >= 0:
                submit[row] = max(submit[row], submit[preceding])
    rows = np.argsort(submit, kind="stable")
    return jobs.assign(submit_s=submit).iloc[rows].reset_index(drop=True), rows


def check_factor(name: str, factor: float) -> None:
    """Raise InputError unless ``factor`` is a finite number above 0 and at most ``LARGEST``."""
    if not (math.isfinite(factor) and 0 < factor <= LARGEST):
        raise InputError(f"{name} {factor:g}: must be a number above 0, at most {LARGEST:,.0f}")


def scaled(jobs: pd.DataFrame, load: float = 1.0, squeeze: float = 1.0) -> pd.DataFrame:
    """Return ``jobs`` with times between submissions divided by ``load`` times ``squeeze``.

    Runtimes and requests are divided by ``squeeze`` and rounded to whole seconds, at least 1. The first submission
    keeps its time. Recorded waits become unknown, because no such schedule was recorded. Raises InputError as
    :func:`check_factor` does.
    """
    check_factor("load", load)
    check_factor("squeeze", squeeze)
    if load == squeeze == 1 or len(jobs) == 0:
        return jobs
    submit = jobs["submit_s"].to_numpy(np.int64)
    changed = {"submit_s": submit[0] + divided(submit - submit[0], load * squeeze)}
    if squeeze != 1:
        for name in ("runtime_s", "requested_s"):
            changed[name] = np.maximum(np.rint(jobs[name].to_numpy(np.float64) / squeeze), 1).astype(np.int64)
    left = jobs.drop(columns=OVERRUN) if OVERRUN in jobs else jobs
    return left.assign(**changed, wait_s=pd.array([pd.NA] * len(jobs), "Int64"))


def divided(seconds: np.ndarray, factor: float) -> np.ndarray:
    """Return whole seconds divided by ``factor``, rounded down, int64."""
    return np.floor(seconds / factor).astype(np.int64)
