"""The twelve pure policies of Legrand, Trystram & Zrigui (2018), week by week.

Each orders EASY's primary queue by one characteristic of a job, smallest or largest first; jobs are backfilled shortest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from sim.campaigns.windows import Window
from sim.kernel.scratch import Scratch
from sim.outcome import outcome
from sim.policy import Policy
from sim.prepare import prepare

WEIGHTS = {
    "FCFS": (0, 0, 1, 0, 0, 0),
    "LCFS": (0, 0, -1, 0, 0, 0),
    "SPF": (0, 1, 0, 0, 0, 0),
    "LPF": (0, -1, 0, 0, 0, 0),
    "SQF": (1, 0, 0, 0, 0, 0),
    "LQF": (-1, 0, 0, 0, 0, 0),
    "SAF": (0, 0, 0, 0, 0, 1),
    "LAF": (0, 0, 0, 0, 0, -1),
    "SRF": (0, 0, 0, 1, 0, 0),
    "LRF": (0, 0, 0, -1, 0, 0),
    "SEXP": (0, 0, 0, 0, 1, 0),
    "LEXP": (0, 0, 0, 0, -1, 0),
}
"""Each pure policy as the vertex of mixed policies: weights of (n, r, wait, r/n, expansion, r n)."""
PURE = tuple(WEIGHTS)
BASELINE, USUAL = "SAF", "FCFS"
"""The best pure policy by the paper, and the one that sites use."""
BACKFILL = "SPF"
THRESHOLDS: tuple[int | None, ...] = (None, 200_000, 72_000)
"""Starvation thresholds of the paper, seconds; its study of mixed policies has the second."""
_SHARE = 0.99


class PureWeek(NamedTuple):
    """Rows of one window, and the waits of its jobs, int64 [jobs], by policy and threshold."""

    rows: list[dict[str, Any]]
    waits: dict[tuple[str, int | None], np.ndarray]


def scheduler(policy: str) -> str:
    """Return the scheduler of a pure policy."""
    return f"{policy}-EASY-{BACKFILL}"


def pure_week(window: Window, procs: int, thresholds: Sequence[int | None], taus_s: Sequence[float]) -> PureWeek:
    """Simulate the pure policies on one window: a row a policy, threshold and tau.

    Keys ``week jobs policy starvation_s tau_s mean_bounded_slowdown mean_wait_s max_wait_s``.
    """
    workload, scratch = prepare(window.jobs, procs), Scratch()
    rows, waits = [], {}
    for policy in PURE:
        for starvation_s in thresholds:
            made = outcome(workload, Policy(scheduler(policy), starvation_s=starvation_s), scratch=scratch)
            wait = made.start - made.submit
            waits[policy, starvation_s] = wait
            told = {"mean_wait_s": float(wait.mean()), "max_wait_s": int(wait.max())}
            for tau_s in taus_s:
                slowed = np.maximum(1.0, (wait + made.runtime) / np.maximum(made.runtime, tau_s))
                row = {"week": window.number, "jobs": len(wait), "policy": policy, "starvation_s": starvation_s}
                rows.append(row | {"tau_s": float(tau_s), "mean_bounded_slowdown": float(slowed.mean())} | told)
    return PureWeek(rows, waits)


def starvation(weeks: Sequence[PureWeek]) -> pd.DataFrame:
    """Return the waits of all weeks' jobs, a row a policy and threshold.

    Columns ``policy starvation_s mean_wait_s p99_wait_s max_wait_s``.
    """
    rows = []
    for policy, starvation_s in weeks[0].waits:
        wait = np.concatenate([week.waits[policy, starvation_s] for week in weeks])
        told = {"mean_wait_s": wait.mean(), "p99_wait_s": np.quantile(wait, _SHARE), "max_wait_s": wait.max()}
        rows.append({"policy": policy, "starvation_s": starvation_s} | told)
    return pd.DataFrame(rows).astype({"starvation_s": "Int64"})


def longest(jobs: pd.DataFrame, count: int = 10) -> pd.DataFrame:
    """Return the jobs with the longest runtimes, as table 7 of the paper.

    Where policies favour short jobs these exceed a low threshold.
    """
    return jobs.nlargest(count, "runtime_s")[["job_id", "submit_s", "runtime_s", "procs"]].reset_index(drop=True)
