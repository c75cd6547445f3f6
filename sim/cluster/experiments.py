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
from sim.cluster.advisers import Adviser
from sim.cluster.presets import Cluster
from sim.cluster.simulate import ClusterRun, simulate_on
from sim.cluster.workloads import ALL_APPLICATIONS, NODES, Workload, continuous, trial

LOAD = 0.7
"""Share of the nodes that control runs and the jobs between them would use undisturbed."""
VARIES = BINARY[0]

Progress = Callable[[int, int], None]


def control_runs(
    cluster: Cluster,
    *,
    days: float,
    seed: int,
    each: int | None = None,
    applications: tuple[str, ...] = ALL_APPLICATIONS,
    nodes: int = NODES,
    scaling: str = "weak",
    features: bool = True,
) -> ClusterRun:
    """Simulate ``days`` days of continuous load under EASY; return control runs.

    ``each`` runs of every application are chosen at random, or all if None. Only they are in the returned ``runs`` and, with
    ``features``, in ``own`` and ``all``, in the same order.
    """
    jobs = continuous(days, seed, procs=cluster.procs, load=LOAD, applications=applications, nodes=nodes)
    random = np.random.default_rng([seed, 3])
    chosen = chosen_runs(jobs["executable"].astype("str").to_numpy(), each, random)
    run = simulate_on(cluster, jobs, seed=seed, scaling=scaling, features=chosen if features else None)
    kept = run.runs[chosen].reset_index(drop=True)
    own, every, situation = (table.reset_index(drop=True) for table in (run.own, run.all, run.situation))
    return replace(run, runs=kept, own=own, all=every, situation=situation)


def chosen_runs(applications: np.ndarray, each: int | None, random: np.random.Generator) -> np.ndarray:
    """Choose control runs, bool [jobs]: ``each`` of every application at random, or all."""
    chosen = np.ones(len(applications), bool)
    if each is not None:
        order = random.permutation(len(applications))
        names = applications[order]
        chosen[order] = pd.Series(names).groupby(names).cumcount().to_numpy() < each
    return chosen


def usual(cluster: Cluster, of: Workload, *, days: float, seed: int) -> pd.DataFrame:
    """Return usual runtimes of a workload's jobs, from control runs.

    Index ``(application, nodes)``, columns ``mean_s sigma_s runs limit_s``.
    """
    tables = []
    for nodes in of.nodes:
        run = control_runs(cluster, days=days, seed=seed, nodes=nodes, scaling=of.scaling, features=False).runs
        runtimes = baselines(run["application"], run["runtime_s"])
        tables.append(runtimes.set_index(pd.Index([nodes] * len(runtimes), name="nodes"), append=True))
    table = pd.concat(tables)
    return table.assign(limit_s=table["mean_s"] + VARIES * table["sigma_s"])


def trials(
    cluster: Cluster,
    of: Workload,
    schedulers: Sequence[str],
    seeds: Sequence[int],
    *,
    usual_times: pd.DataFrame,
    advisers: Mapping[str, Adviser] | None = None,
    coin: float = 0.0,
    threads: int = 2,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Run the trials ``seeds`` of a workload under each scheduler.

    ``usual_times`` comes from :func:`usual`. Returns a row a job: ``scheduler seed``, the columns of :class:`ClusterRun`'s runs
    and of :func:`judged`; ``asked``, ``skipped`` and ``storm_s`` are those of the whole trial, in each of its rows.
    """
    limits = {
        (str(kind[0]), int(kind[1])): float(limit) for kind, limit in zip(usual_times.index, usual_times["limit_s"], strict=True)
    }
    work = [(scheduler, seed) for seed in seeds for scheduler in schedulers]
    done = 0

    def one(what: tuple[str, int]) -> pd.DataFrame:
        nonlocal done
        scheduler, seed = what
        run = simulate_on(
            cluster,
            trial(of, seed),
            scheduler=scheduler,
            seed=seed,
            scaling=of.scaling,
            advisers=advisers,
            limits=limits,
            coin=coin,
        )
        done += 1
        if progress is not None:
            progress(done, len(work))
        whole = {"asked": run.asked, "skipped": run.skipped, "storm_s": run.storm_s}
        return judged(run.runs.assign(scheduler=scheduler, seed=seed, **whole), usual_times)

    with ThreadPoolExecutor(threads) as pool:
        return pd.concat(pool.map(one, work), ignore_index=True)


def judged(runs: pd.DataFrame, usual_times: pd.DataFrame) -> pd.DataFrame:
    """Return ``runs`` with ``z``, ``varied`` and ``relative``: runtime over the usual mean."""
    kind = list(zip(runs["application"], runs["nodes"], strict=True))
    flat = usual_times.set_axis([f"{name} on {nodes}" for name, nodes in usual_times.index], axis=0)
    z = z_scores([f"{name} on {nodes}" for name, nodes in kind], runs["runtime_s"], flat)
    relative = runs["runtime_s"].to_numpy() / usual_times["mean_s"].reindex(pd.MultiIndex.from_tuples(kind)).to_numpy()
    return runs.assign(z=z, varied=labels(z, (VARIES,)).astype(bool), relative=relative)
