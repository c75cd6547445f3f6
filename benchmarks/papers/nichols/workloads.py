"""The workloads of Nichols et al. (RUSH): trials of jobs that come within twenty minutes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from sim.cluster.applications import NODES
from sim.cluster.users import ALL_APPLICATIONS, jobs_table

AT_ONCE, SPREAD_S = 0.2, 1200
"""Share of jobs submitted at once, and seconds over which the others follow."""


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
    return jobs_table([kinds[i][0] for i in order], np.array([kinds[i][1] for i in order]), submit.astype(np.int64), of.scaling)
