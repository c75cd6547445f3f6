"""Steady load of the simulated cluster: repeated runs of the applications."""

from __future__ import annotations

import numpy as np
import pandas as pd

from features.jobs.schema import conform
from sim.cluster.applications import APPLICATIONS, NODES, application

ALL_APPLICATIONS = tuple(APPLICATIONS)
REQUEST_FACTOR = 20.0
"""Request over undisturbed runtime, in whole minutes: enough for the worst of figure 1 of Nichols et al."""


def continuous(
    days: float, seed: int, *, procs: int, load: float = 0.9, applications: tuple[str, ...] = ALL_APPLICATIONS, nodes: int = NODES
) -> pd.DataFrame:
    """Return ``days`` days of jobs with Poisson arrivals and an offered ``load``.

    The load is the share of ``procs`` nodes that the jobs would use undisturbed.
    """
    random = np.random.default_rng([seed, 2])
    usual = float(np.mean([application(name).on(nodes).runtime_s for name in applications]))
    pause = usual * nodes / (procs * load)
    count = max(int(days * 86_400 / pause), 1)
    submit = np.cumsum(random.exponential(pause, count))
    chosen = random.integers(0, len(applications), count)
    return jobs_table([applications[i] for i in chosen], np.full(count, nodes), (submit - submit[0]).astype(np.int64), "weak")


def jobs_table(names: list[str], nodes: np.ndarray, submit: np.ndarray, scaling: str) -> pd.DataFrame:
    """Return a canonical jobs table."""
    alone = {
        kind: application(kind[0]).on(int(kind[1]), scaling).runtime_s for kind in set(zip(names, nodes.tolist(), strict=True))
    }
    runtime = np.array([alone[kind] for kind in zip(names, nodes.tolist(), strict=True)])
    return conform(
        {
            "job_id": np.arange(1, len(names) + 1),
            "submit_s": submit,
            "runtime_s": np.rint(runtime).astype(np.int64),
            "procs": nodes,
            "requested_s": (np.ceil(REQUEST_FACTOR * runtime / 60.0) * 60).astype(np.int64),
            "user": ["control"] * len(names),
            "executable": names,
        },
        len(names),
    )
