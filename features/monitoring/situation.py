"""What a scheduler knows when a job starts: leaf switches, and the jobs running beside it.

The columns :data:`features.monitoring.samplers.SITUATION_FEATURES`, from a site's topology, jobs and types.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from features.monitoring.samplers import SITUATION_FEATURES, TYPES

RATES = ("read_gb_s", "write_gb_s", "sent_gb_s")
"""GB/s that each node of an application usually reads, writes and sends, as a mean over its runs."""


@dataclass(frozen=True)
class PlacedJob:
    """A job on ``nodes`` that starts at ``start_s`` (Unix s) and runs for ``runtime_s``.

    The runtime is infinite while it runs.
    """

    name: str
    application: str
    nodes: tuple[str, ...]
    start_s: float
    runtime_s: float = math.inf


@dataclass(frozen=True)
class MonitoredMachine:
    """Leaf switches by node; types and usual rates by application.

    Each as far as a site states it. ``rates`` are GB/s per node: read plus written, and sent.
    """

    leaf_of: Mapping[str, str]
    types: Mapping[str, str]
    rates: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: pd.DataFrame, types: pd.DataFrame) -> MonitoredMachine:
        """Make a machine from a topology and a table of types.

        Their columns are ``node leaf`` and ``application type``, with :data:`RATES` if known.
        """
        kinds = types.reindex(columns=["application", "type", *RATES])
        numbers = kinds[list(RATES)].to_numpy(np.float64)
        return cls(
            dict(zip(topology["node"], topology["leaf"], strict=True)),
            dict(zip(kinds["application"], kinds["type"], strict=True)),
            dict(zip(kinds["application"], zip(numbers[:, 0] + numbers[:, 1], numbers[:, 2], strict=True), strict=True)),
        )

    def spread(self, job: PlacedJob) -> Mapping[str, int]:
        """Return how many nodes of ``job`` are under each leaf switch.

        Nodes without a leaf switch are left out.
        """
        return Counter(self.leaf_of[node] for node in job.nodes if node in self.leaf_of)


def jobs_of(runs: pd.DataFrame) -> list[PlacedJob]:
    """Return the runs of a table as jobs, without runs whose nodes are unknown.

    The table's columns are ``run_id application nodes start_s runtime_s``; a run without a runtime still runs.
    """
    rows = runs[["run_id", "application", "nodes", "start_s", "runtime_s"]].itertuples(index=False)
    return [
        PlacedJob(str(name), str(application), tuple(nodes), float(at), math.inf if math.isnan(took) else float(took))
        for name, application, nodes, at, took in rows
        if nodes is not None
    ]


def situations(jobs: Sequence[PlacedJob], machine: MonitoredMachine) -> pd.DataFrame:
    """Return each job's situation at its start, float64 [jobs, SITUATION_FEATURES].

    Its neighbours are the other ``jobs`` running then. Of jobs that start in the same second, those listed earlier are
    running.
    """
    spread = [machine.spread(job) for job in jobs]
    features = np.empty((len(jobs), len(SITUATION_FEATURES)))
    running: list[int] = []
    for row in sorted(range(len(jobs)), key=lambda row: jobs[row].start_s):  # stable
        running = [other for other in running if jobs[row].start_s - jobs[other].start_s < jobs[other].runtime_s]
        features[row] = situation(jobs[row], spread[row], [(jobs[other], spread[other]) for other in running], machine)
        running.append(row)
    return pd.DataFrame(features, columns=list(SITUATION_FEATURES))


def situation(
    job: PlacedJob, spread: Mapping[str, int], running: Sequence[tuple[PlacedJob, Mapping[str, int]]], machine: MonitoredMachine
) -> list[float]:
    """Return the SITUATION_FEATURES of a start of ``job`` while the ``running`` jobs run.

    Each job comes with its :meth:`MonitoredMachine.spread`. Values are NaN if a node of the job has no leaf switch, and
    ``offered`` values if an application's rates are unknown. Neighbours without a type are in none of the shares.
    """
    nodes = len(job.nodes)
    all_under_leaves = sum(spread.values()) == nodes
    nodes_under = Counter(machine.leaf_of.values())
    room = sum(nodes_under[leaf] for leaf in spread)
    shares = dict.fromkeys(TYPES, 0.0)
    beside = dict.fromkeys(TYPES, 0.0)
    for other, theirs in running:
        kind = machine.types.get(other.application)
        if kind is not None:
            shares[kind] += len(other.nodes) / len(machine.leaf_of)
            beside[kind] += sum(theirs.get(leaf, 0) for leaf in spread) / room if all_under_leaves else math.nan
    every = [(job, spread), *running]
    io = sum(len(placed.nodes) * machine.rates.get(placed.application, (math.nan, math.nan))[0] for placed, _ in every)
    sent = 0.0
    if len(spread) > 1:
        sent = float(np.max([_through(leaf, every, machine) for leaf in spread]))
    least = min(spread.values(), default=0)
    of_leaves = [float(len(spread)), 1.0 - least / nodes] if all_under_leaves else [math.nan, math.nan]
    return [float(nodes), *of_leaves, *shares.values(), *beside.values(), io, sent if all_under_leaves else math.nan]


def _through(leaf: str, jobs: Sequence[tuple[PlacedJob, Mapping[str, int]]], machine: MonitoredMachine) -> float:
    """Return the GB/s that jobs send through the uplinks of ``leaf``."""
    sent = 0.0
    for job, spread in jobs:
        under_leaf = spread.get(leaf, 0)
        if 0 < under_leaf < len(job.nodes):
            sent += machine.rates.get(job.application, (math.nan, math.nan))[1] * under_leaf * (1.0 - under_leaf / len(job.nodes))
    return sent
