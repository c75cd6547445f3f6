"""What a site records of a simulated cluster, as tables and arrays.

Accounting, control runs, probe results, application types with usual rates, the topology, and counters. Counters of
Nichols et al.'s samplers are running sums that begin at a random value, as on nodes that have been up for a while;
gauges are unchanged. The simulator keeps only the min, max and mean wait of a run's probes: the rows have these, but
the wait of each node is made up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.monitoring.samplers import PROBES, SAMPLERS
from features.monitoring.situation import RATES
from sim.cluster.applications import APPLICATIONS, INPUTS, NODES, application
from sim.cluster.presets import SimulatedCluster
from sim.cluster.simulate import ClusterRun, Observed, simulate_on
from sim.cluster.users import CONTROL, LOAD, population, submissions
from sim.policy import Policy

ORIGIN_S = 1_596_240_000
"""Default Unix time of the first submission: 1 August 2020, when Nichols et al. began to collect."""
GAUGES = np.array([metric in sampler.gauges for sampler in SAMPLERS.values() for metric in sampler.metrics])
"""Which counters of all samplers are gauges, bool [counters]."""
_FIRST_BELOW = 2**32


@dataclass(frozen=True)
class Recorded:
    """What a site records of a simulated time under load.

    ``run`` has all jobs that started in that time and their features from the simulator, ``submitted`` is their
    canonical table and ``jobs`` their accounting, in the same order. ``runs`` is the canonical table of the control
    runs that were monitored and ended.
    """

    run: ClusterRun
    submitted: pd.DataFrame
    runs: pd.DataFrame
    jobs: pd.DataFrame
    probes: pd.DataFrame
    types: pd.DataFrame


def record(
    cluster: SimulatedCluster,
    add: Callable[[int, np.ndarray], None],
    *,
    days: float,
    seed: int,
    load: float = LOAD,
    origin_s: int = ORIGIN_S,
    monitored_from: float = 0.0,
) -> Recorded:
    """Simulate ``days`` days of users' jobs under EASY; return what a site has recorded.

    A record of more days begins with the same samples, and with the same jobs. ``load`` is as
    :data:`sim.cluster.users.LOAD`. ``origin_s`` is the Unix time of the first submission. Of the first ``monitored_from`` days there
    is accounting alone. ``add`` receives the counters: the number of the first sample, and float64 [samples, counters, nodes].
    """
    users = population(seed)
    jobs = submissions(users, days, seed, procs=cluster.procs, load=load, begins_s=origin_s % DAY_S)
    until, monitored = int(days * DAY_S), int(monitored_from * DAY_S) or -cluster.warm_s
    sums = np.random.default_rng([seed, 4]).integers(0, _FIRST_BELOW, (len(GAUGES), cluster.nodes)).astype(np.float64)
    begun = False

    def count(first: int, increments: np.ndarray) -> None:
        nonlocal begun, sums
        if not begun:  # a sample before all others, so that the first increments count
            begun = True
            first -= 1
            increments = np.concatenate([np.where(GAUGES[:, None], increments[:1], 0.0), increments])
        begin, end = (max(-(-edge // cluster.interval_s) - first, 0) for edge in (monitored, until))
        sums += increments[:begin].sum(axis=0)
        values = np.cumsum(increments[begin:], axis=0) + sums
        sums = values[-1].copy() if len(values) else sums
        values[:, GAUGES] = increments[begin:, GAUGES]
        add(first + begin, values[: max(end - begin, 0)])

    run = simulate_on(cluster, jobs, Policy(seed=seed), observed=Observed(np.ones(len(jobs), bool), record=count, places=True))
    assert run.places is not None
    started = (run.runs["start_s"] < until).to_numpy()
    own, every, situation = (table[started].reset_index(drop=True) for table in (run.own, run.all, run.situation))
    kept = replace(
        run,
        runs=run.runs[started].reset_index(drop=True),
        own=own,
        all=every,
        situation=situation,
        places=[run.places[row] for row in np.flatnonzero(started)],
    )
    submitted = jobs[started].reset_index(drop=True)
    ended = (kept.runs["start_s"] + kept.runs["runtime_s"] <= until).to_numpy()
    control = np.flatnonzero((submitted["user"] == CONTROL) & ended & ~kept.runs["cut"] & (kept.runs["start_s"] >= monitored))
    runs = _canonical(kept, origin_s).iloc[control].reset_index(drop=True)
    probes = probe_rows(runs, own.iloc[control])
    return Recorded(kept, submitted, runs, accounting(cluster, kept, submitted, ended, origin_s), probes, _types())


def _canonical(run: ClusterRun, origin_s: int) -> pd.DataFrame:
    """Return the jobs of ``run`` as a table of control runs."""
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
    """Return types of the applications with all inputs, and GB/s that a node of each usually moves."""
    kinds = [application(f"{name}{suffix}") for name in APPLICATIONS for suffix in INPUTS]
    usual = [(kind.name, kind.type, kind.on(NODES)) for kind in kinds]
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


def accounting(
    cluster: SimulatedCluster, run: ClusterRun, submitted: pd.DataFrame, ended: np.ndarray, origin_s: int
) -> pd.DataFrame:
    """Return the jobs of ``run`` with the columns of ``sacct``, in UTC; a processor is a node.

    The name of the cluster says that it is simulated. Jobs that have not ``ended`` are running.
    """
    assert run.places is not None
    start = run.runs["start_s"]
    end = start + np.maximum(np.ceil(run.runs["runtime_s"]), 1).astype(np.int64)
    submit, start, end = (
        pd.to_datetime(origin_s + time, unit="s").dt.strftime("%Y-%m-%dT%H:%M:%S") for time in (submitted["submit_s"], start, end)
    )
    return pd.DataFrame(
        {
            "JobID": submitted["job_id"],
            "JobName": submitted["executable"],
            "Cluster": f"simulated-{cluster.name}",
            "User": submitted["user"],
            "Account": submitted["group"],
            "State": np.where(~ended, "RUNNING", np.where(run.runs["cut"], "TIMEOUT", "COMPLETED")),
            "Submit": submit,
            "Start": start,
            "End": end.where(ended, "Unknown"),
            "TimelimitRaw": submitted["requested_s"] // 60,
            "ReqCPUS": submitted["procs"],
            "AllocCPUS": submitted["procs"],
            "AllocNodes": submitted["procs"],
            "NodeList": [",".join(node_names(nodes)) for nodes in run.places],
        }
    )


def topology(cluster: SimulatedCluster) -> str:
    """Return the leaf switches as lines of Slurm's topology.conf."""
    size = cluster.nodes_per_leaf
    ends = [(leaf * size + 1, min((leaf + 1) * size, cluster.nodes)) for leaf in range(cluster.leaves)]
    lines = [f"SwitchName=leaf{leaf + 1} Nodes=node[{first:04d}-{last:04d}]" for leaf, (first, last) in enumerate(ends)]
    return "\n".join([*lines, f"SwitchName=core Switches=leaf[1-{cluster.leaves}]"]) + "\n"
