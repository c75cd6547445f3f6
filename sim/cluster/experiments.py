"""Control runs and trials on a simulated cluster, after Nichols et al. (RUSH).

A run varied if its z is above 1.5. Mean and sigma are those of control runs of the same application on as many nodes, with the
same scaling, on the same cluster. Control runs are of another time, under a continuous load of ``LOAD``, and in no trial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd

from features.monitoring.labels import BINARY, baselines, labels, z_scores
from sim.cluster.advisers import Adviser, StartAdvice
from sim.cluster.presets import SimulatedCluster
from sim.cluster.simulate import ClusterRun, Observed, simulate_on
from sim.cluster.workloads import ALL_APPLICATIONS, NODES, continuous
from sim.policy import NAMES, Policy

LOAD = 0.7
"""Share of the nodes that control runs and the jobs between them would use undisturbed."""
VARIES = BINARY[0]
_OF_SCHEDULES = ["user", "requested_s", "predicted_s", "corrections", "end_s"]

Progress = Callable[[int, int], None]


def control_runs(
    cluster: SimulatedCluster,
    *,
    days: float,
    seed: int,
    per_application: int | None = None,
    applications: tuple[str, ...] = ALL_APPLICATIONS,
    nodes: int = NODES,
    scaling: str = "weak",
    features: bool = True,
) -> ClusterRun:
    """Simulate ``days`` days of continuous load under EASY; return control runs.

    ``per_application`` runs of every application are chosen at random, or all if None. Only they are in the returned ``runs`` and, with
    ``features``, in ``own`` and ``all``, in the same order.
    """
    jobs = continuous(days, seed, procs=cluster.procs, load=LOAD, applications=applications, nodes=nodes)
    random = np.random.default_rng([seed, 3])
    chosen = chosen_runs(jobs["executable"].astype("str").to_numpy(), per_application, random)
    run = simulate_on(cluster, jobs, Policy(seed=seed), scaling=scaling, observed=Observed(chosen if features else None))
    kept = run.runs[chosen].reset_index(drop=True)
    own, every, situation = (table.reset_index(drop=True) for table in (run.own, run.all, run.situation))
    return replace(run, runs=kept, own=own, all=every, situation=situation)


def chosen_runs(applications: np.ndarray, per_application: int | None, random: np.random.Generator) -> np.ndarray:
    """Choose control runs, bool [jobs]: ``per_application`` of each at random, or all."""
    chosen = np.ones(len(applications), bool)
    if per_application is not None:
        order = random.permutation(len(applications))
        names = applications[order]
        chosen[order] = pd.Series(names).groupby(names).cumcount().to_numpy() < per_application
    return chosen


def usual(
    cluster: SimulatedCluster,
    sizes: Sequence[int],
    *,
    days: float,
    seed: int,
    applications: tuple[str, ...] = ALL_APPLICATIONS,
    scaling: str = "weak",
) -> pd.DataFrame:
    """Return usual runtimes of ``applications`` on each number of nodes, from control runs.

    Index ``(application, nodes)``, columns ``mean_s sigma_s runs limit_s``.
    """
    tables = []
    for nodes in sizes:
        run = control_runs(
            cluster, days=days, seed=seed, applications=applications, nodes=nodes, scaling=scaling, features=False
        ).runs
        runtimes = baselines(run["application"], run["runtime_s"])
        tables.append(runtimes.set_index(pd.Index([nodes] * len(runtimes), name="nodes"), append=True))
    table = pd.concat(tables)
    return table.assign(limit_s=table["mean_s"] + VARIES * table["sigma_s"])


def trials(
    cluster: SimulatedCluster,
    submitted: Mapping[int, pd.DataFrame],
    policies: Sequence[Policy],
    *,
    usual_times: pd.DataFrame,
    scaling: str = "weak",
    advisers: Mapping[str, Adviser] | None = None,
    coin: float = 0.0,
    threads: int = 2,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Simulate the jobs of each trial, ``submitted`` by its seed, under each policy.

    ``usual_times`` comes from :func:`usual`. Returns a row a job: ``scheduler predictor correction seed``, the columns of
    :class:`ClusterRun`'s runs and of :func:`judged`, and ``user requested_s predicted_s corrections end_s`` of its schedule; ``asked``,
    ``skipped`` and ``storm_s`` are those of the whole trial, in each of its rows.
    """
    limits = {
        (str(kind[0]), int(kind[1])): float(limit) for kind, limit in zip(usual_times.index, usual_times["limit_s"], strict=True)
    }
    work = [(policy, seed) for seed in submitted for policy in policies]
    done = 0

    def one(what: tuple[Policy, int]) -> pd.DataFrame:
        nonlocal done
        policy, seed = what
        run = simulate_on(
            cluster, submitted[seed], policy._replace(seed=seed), scaling=scaling, advice=StartAdvice(advisers or {}, limits, coin)
        )
        done += 1
        if progress is not None:
            progress(done, len(work))
        names = {name: getattr(run.schedule, name) for name in (*NAMES, "seed")}
        whole = {"asked": run.decisions, "skipped": run.skipped, "storm_s": run.storm_s}
        return run.runs.join(run.schedule.jobs[_OF_SCHEDULES]).assign(**names, **whole)

    with ThreadPoolExecutor(threads) as pool:
        return judged(pd.concat(pool.map(one, work), ignore_index=True), usual_times)


def judged(runs: pd.DataFrame, usual_times: pd.DataFrame) -> pd.DataFrame:
    """Return ``runs`` with ``z``, ``varied`` and ``relative``: runtime over the usual mean."""
    kind = list(zip(runs["application"], runs["nodes"], strict=True))
    flat = usual_times.set_axis([f"{name} on {nodes}" for name, nodes in usual_times.index], axis=0)
    z = z_scores([f"{name} on {nodes}" for name, nodes in kind], runs["runtime_s"], flat)
    relative = runs["runtime_s"].to_numpy() / usual_times["mean_s"].reindex(pd.MultiIndex.from_tuples(kind)).to_numpy()
    return runs.assign(z=z, varied=labels(z, (VARIES,)).astype(bool), relative=relative)
