"""What a site records of a simulated cluster, as tables and arrays.

Accounting, control runs, probe results, application types with usual rates, the topology, and counters. Counters of Nichols et
al.'s samplers are running sums that begin at a random value, as on nodes that have been up for a while; gauges are unchanged. The
simulator keeps only the min, max and mean wait of a run's probes: the rows have these, but the wait of each node is made up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from features.monitoring.samplers import PROBES, SAMPLERS
from features.monitoring.situation import RATES
from sim.cluster.applications import APPLICATIONS, NODES
from sim.cluster.experiments import LOAD, chosen_runs
from sim.cluster.presets import Cluster
from sim.cluster.simulate import ClusterRun, simulate_on
from sim.cluster.workloads import continuous

ORIGIN_S = 1_596_240_000
"""Default Unix time of the first submission: 1 August 2020, when Nichols et al. began to collect."""
GAUGES = np.array([metric in sampler.gauges for sampler in SAMPLERS.values() for metric in sampler.metrics])
"""Which counters of all samplers are gauges, bool [counters]."""
_FIRST_BELOW = 2**32


@dataclass(frozen=True)
class Recorded:
    """What a site records of a simulated time under load.

    ``run`` has the control runs and their features from the simulator, ``runs`` is their canonical table, in the same order.
    ``jobs`` is the accounting of all jobs.
    """

    run: ClusterRun
    runs: pd.DataFrame
    jobs: pd.DataFrame
    probes: pd.DataFrame
    types: pd.DataFrame


def record(
    cluster: Cluster,
    add: Callable[[int, np.ndarray], None],
    *,
    days: float,
    seed: int,
    each: int | None = None,
    load: float = LOAD,
    origin_s: int = ORIGIN_S,
    progress: Callable[[int, int], None] | None = None,
) -> Recorded:
    """Simulate ``days`` days of load under EASY; return its tables.

    ``each`` runs of every application, at random, are control runs (all if None). ``origin_s`` is the Unix time of the first
    submission. ``add`` receives the counters: the number of the first sample, and float64 [samples, counters, nodes]. ``progress``
    receives simulated seconds: done and in total.
    """
    jobs = continuous(days, seed, procs=cluster.procs, load=load)
    chosen = chosen_runs(jobs["executable"].astype("str").to_numpy(), each, np.random.default_rng([seed, 3]))
    until = int(jobs["submit_s"].iloc[-1])
    sums = np.random.default_rng([seed, 4]).integers(0, _FIRST_BELOW, (len(GAUGES), cluster.nodes)).astype(np.float64)
    begun = False

    def count(first: int, increments: np.ndarray) -> None:
        nonlocal begun, sums
        after = first + len(increments)
        if not begun:  # a sample before all others, so that the first increments count
            begun = True
            first -= 1
            increments = np.concatenate([np.where(GAUGES[:, None], increments[:1], 0.0), increments])
        values = np.cumsum(increments, axis=0) + sums
        sums = values[-1].copy()
        values[:, GAUGES] = increments[:, GAUGES]
        add(first, values)
        if progress is not None:
            progress(min(max(after * cluster.interval_s, 0), until), until)

    run = simulate_on(cluster, jobs, seed=seed, features=chosen, record=count, places=True)
    assert run.places is not None
    kept = replace(
        run,
        runs=run.runs[chosen].reset_index(drop=True),
        own=run.own.reset_index(drop=True),
        all=run.all.reset_index(drop=True),
        situation=run.situation.reset_index(drop=True),
        places=[run.places[row] for row in np.flatnonzero(chosen)],
    )
    runs = _control_runs(kept, origin_s)
    return Recorded(kept, runs, accounting(run, origin_s), probe_rows(runs, kept.own), _types())


def _control_runs(run: ClusterRun, origin_s: int) -> pd.DataFrame:
    assert run.places is not None
    return pd.DataFrame(
        {
            "run_id": run.runs["job_id"].astype("str"),
            "application": run.runs["application"].astype("str"),
            "input": f"simulated, {NODES} nodes",
            "nodes": pd.Series([node_names(nodes) for nodes in run.places], dtype=object),
            "start_s": origin_s + run.runs["start_s"].to_numpy(np.int64),
            "runtime_s": run.runs["runtime_s"],
        }
    )


def _types() -> pd.DataFrame:
    """Return types of the applications, and GB/s that a node of each usually moves."""
    usual = [(application.name, application.type, application.on(NODES)) for application in APPLICATIONS.values()]
    rows = [(name, kind, behaviour.read, behaviour.write, behaviour.traffic) for name, kind, behaviour in usual]
    return pd.DataFrame(rows, columns=["application", "type", *RATES])


def node_names(numbers: np.ndarray) -> list[str]:
    """Return ``node0001`` and so on for nodes counted from 0."""
    return [f"node{number + 1:04d}" for number in numbers]


def probe_rows(runs: pd.DataFrame, features: pd.DataFrame) -> pd.DataFrame:
    """Return probe results with the min, max and mean waits of ``features``.

    One row per run and node: the first node has the min, the second the max, all others the same wait.
    """
    counts = np.array([len(nodes) for nodes in runs["nodes"]])
    run = np.repeat(np.arange(len(runs)), counts)
    place = np.concatenate([np.arange(count) for count in counts])
    waits = {}
    for name in PROBES:
        least, most, mean = (features[f"probe.{name}.{statistic}"].to_numpy() for statistic in ("min", "max", "mean"))
        others = np.clip((counts * mean - least - most) / np.maximum(counts - 2, 1), least, most)
        waits[name] = np.where(place == 0, least[run], np.where(place == 1, most[run], others[run]))
    nodes = [node for names in runs["nodes"] for node in names]
    return pd.DataFrame({"run_id": runs["run_id"].to_numpy()[run], "node": nodes, **waits})


def accounting(run: ClusterRun, origin_s: int) -> pd.DataFrame:
    """Return the jobs of ``run`` with the columns of ``sacct``, in UTC; a processor is a node."""
    assert run.places is not None
    jobs = run.schedule.jobs
    times = {name: origin_s + jobs[f"{name.lower()}_s"] for name in ("Submit", "Start", "End")}
    return pd.DataFrame(
        {
            "JobID": jobs["job_id"],
            "JobName": run.runs["application"],
            "User": jobs["user"],
            "State": "COMPLETED",
            **{name: pd.to_datetime(time, unit="s").dt.strftime("%Y-%m-%dT%H:%M:%S") for name, time in times.items()},
            "TimelimitRaw": jobs["requested_s"] // 60,
            "ReqCPUS": jobs["procs"],
            "AllocCPUS": jobs["procs"],
            "NodeList": [",".join(node_names(nodes)) for nodes in run.places],
        }
    )


def topology(cluster: Cluster) -> str:
    """Return the leaf switches as lines of Slurm's topology.conf."""
    size = cluster.nodes_per_leaf
    ends = [(leaf * size + 1, min((leaf + 1) * size, cluster.nodes)) for leaf in range(cluster.leaves)]
    lines = [f"SwitchName=leaf{leaf + 1} Nodes=node[{first:04d}-{last:04d}]" for leaf, (first, last) in enumerate(ends)]
    return "\n".join([*lines, f"SwitchName=core Switches=leaf[1-{cluster.leaves}]"]) + "\n"
