"""Workloads of the simulated cluster: trials as Nichols et al. have them, and steady load."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.jobs.schema import conform
from sim.cluster.applications import APPLICATIONS, NODES, application

ALL_APPLICATIONS = tuple(APPLICATIONS)
AT_ONCE, SPREAD_S = 0.2, 1200
"""Share of jobs submitted at once, and seconds over which the others follow."""
REQUEST_FACTOR = 20.0
"""Request over undisturbed runtime, in whole minutes: enough for the worst of figure 1 of Nichols et al."""


@dataclass(frozen=True)
class Workload:
    """The jobs of a trial, of ``applications`` on ``nodes`` nodes each, scaled ``scaling``."""

    jobs: int
    applications: tuple[str, ...] = ALL_APPLICATIONS
    nodes: tuple[int, ...] = (NODES,)
    scaling: str = "weak"


def trial(of: Workload, seed: int) -> pd.DataFrame:
    """Return the jobs of one trial as a canonical table.

    A fifth is submitted at second 0, the others evenly over twenty minutes. There are equally many of each application and number
    of nodes, in random order.
    """
    random = np.random.default_rng([seed, 1])
    kinds = [(name, nodes) for nodes in of.nodes for name in of.applications]
    order = random.permutation(np.arange(of.jobs) % len(kinds))
    first = round(AT_ONCE * of.jobs)
    submit = np.concatenate([np.zeros(first), SPREAD_S * np.arange(1, of.jobs - first + 1) / (of.jobs - first)])
    return _table([kinds[i][0] for i in order], np.array([kinds[i][1] for i in order]), submit.astype(np.int64), of.scaling)


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
    return _table([applications[i] for i in chosen], np.full(count, nodes), (submit - submit[0]).astype(np.int64), "weak")


def _table(names: list[str], nodes: np.ndarray, submit: np.ndarray, scaling: str) -> pd.DataFrame:
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
