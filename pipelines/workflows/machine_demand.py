"""What a trace asks of a machine: which clusters could hold its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sim.machine.description import Machine

NAMED = 10
"""Max jobs that fit no cluster and are named."""


@dataclass(frozen=True)
class ClusterDemand:
    """A cluster, how many jobs it could hold if it were empty, and how many no other could."""

    name: str
    nodes: int
    procs: int
    could_hold: int
    alone: int


@dataclass(frozen=True)
class Demand:
    """What jobs ask of ``machine``.

    ``stated`` counts the jobs with a value in each column that counts there, ``fit_nowhere`` the jobs that no cluster could hold
    (``fit_nowhere_ids`` are the first), ``unknown_properties`` the jobs that ask for properties no node is said to have.
    """

    machine: str
    procs: int
    jobs: int
    clusters: tuple[ClusterDemand, ...]
    stated: Mapping[str, int]
    fit_nowhere: int
    fit_nowhere_ids: tuple[int, ...]
    unknown_properties: Mapping[str, int]


def demand(machine: Machine, jobs: pd.DataFrame) -> Demand:
    """Return what the jobs of a cleaned table ask of ``machine``."""
    bits = machine.could_hold(jobs)
    clusters = tuple(
        ClusterDemand(each.name, each.count, each.procs, int((bits >> place & 1).sum()), int((bits == 1 << place).sum()))
        for place, each in enumerate(machine.clusters)
    )
    nowhere = np.flatnonzero(bits == 0)
    return Demand(
        machine=machine.name,
        procs=machine.procs,
        jobs=len(jobs),
        clusters=clusters,
        stated={
            name: int((jobs[name] > 0).sum()) if name == "exclusive" else int(jobs[name].notna().sum()) for name in machine.asked
        },
        fit_nowhere=len(nowhere),
        fit_nowhere_ids=tuple(int(job) for job in jobs["job_id"].iloc[nowhere[:NAMED]]),
        unknown_properties=machine.unknown_properties(jobs),
    )
