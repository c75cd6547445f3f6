"""Control runs and trials on a simulated cluster, after Nichols et al. (RUSH).

A run varied if its z is above 1.5. Mean and sigma are those of control runs of the same application on as many nodes,
with the same scaling, on the same cluster. Control runs are of another time, under a continuous load of ``LOAD``, and
in no trial.

A trial's seed decides its submissions, the background and each run's own noise. Trials lie weeks apart, so that they
are the blocks of :func:`sim.metrics.comparison.compare`, which leaves out the same trial of both policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from features.clock import WEEK_S
from features.monitoring.labels import BINARY, baselines, labels, z_scores
from features.statistics import Ratio, surely
from sim.cluster.applications import NODES
from sim.cluster.presets import SimulatedCluster
from sim.cluster.simulate import Adviser, ClusterRun, Observed, StartAdvice, simulate_on
from sim.cluster.users import ALL_APPLICATIONS, continuous
from sim.metrics.comparison import compare
from sim.metrics.verdict import Key, is_bound
from sim.policy import NAMES, Policy
from sim.schedule import Schedule

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

    ``per_application`` runs of every application are chosen at random, or all if None. Only they are in the returned
    ``runs`` and, with ``features``, in ``own`` and ``all``, in the same order.
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


METRICS = (
    "mean_bounded_slowdown",
    "mean_wait_s",
    "mean_response_s",
    "awf_s",
    "p2sf_s",
    "longest_wait_s",
    "makespan_s",
    "varied_runs",
    "largest_runtime",
    "underprediction_rate",
)
_ORACLE = "model=oracle"


def as_schedules(runs: pd.DataFrame, procs: int, trace: str) -> list[Schedule]:
    """Return one schedule of all trials of each policy.

    ``runs`` come from :func:`sim.cluster.experiments.trials`. Users are left out: all trials are of the same ones, so
    an interval is about other days and not about other users.
    """
    jobs = runs.rename(columns={"nodes": "procs", "work_s": "undisturbed_s"}).assign(
        runtime_s=runs["end_s"] - runs["start_s"], user=pd.Series(pd.NA, index=runs.index, dtype="category")
    )
    groups: dict[Any, pd.Index] = runs.groupby([*NAMES], sort=False).groups
    return [
        Schedule(jobs.loc[rows].reset_index(drop=True), procs, trace=trace, generated=True, **dict(zip(NAMES, key, strict=True)))
        for key, rows in groups.items()
    ]


def of_trials(schedule: Schedule) -> dict[str, Ratio]:
    """Return makespan, runs with variation and largest runtime of each trial."""
    jobs = schedule.jobs
    trials = jobs.groupby((jobs["submit_s"] - jobs["submit_s"].min()) // WEEK_S)
    values = {
        "makespan_s": trials["end_s"].max() - trials["submit_s"].min(),
        "varied_runs": trials["varied"].sum(),
        "largest_runtime": trials["relative"].max(),
    }
    return {name: Ratio(value.to_numpy(np.float64), np.ones(len(value))) for name, value in values.items()}


def compare_trials(schedules: Sequence[Schedule], beside: Mapping[Key, Sequence[Key]]) -> pd.DataFrame:
    """Compare schedules of trials with the first, and some with others.

    ``beside`` names policies, and others that each is compared with. Columns are those of
    :func:`sim.metrics.comparison.compare`, and ``compared_with``, the label of the baseline. A trial is a replicate,
    and no week. ``sure`` is corrected, for each metric, over all policies that are compared with the first but bounds,
    and over all comparisons of ``beside``.
    """
    by_key = {tuple(getattr(schedule, name) for name in NAMES): schedule for schedule in schedules}
    tables = [_compared(schedules, schedules[0])]
    tables += [
        _compared([by_key[other], by_key[key]], by_key[other]).iloc[len(METRICS) :]
        for key, others in beside.items()
        for other in others
    ]
    table = pd.concat(tables, ignore_index=True)
    first = table["compared_with"] == schedules[0].label
    itself = first & (table["scheduler"] == schedules[0].scheduler) & (table["predictor"] == schedules[0].predictor)
    bound = [
        is_bound(predictor) or _ORACLE in scheduler
        for scheduler, predictor in zip(table["scheduler"], table["predictor"], strict=True)
    ]
    sure = table["p"].mask(itself).groupby([table["metric"], first, np.array(bound)]).transform(surely)
    return table.assign(sure=sure.astype(bool))


def _compared(schedules: Sequence[Schedule], baseline: Schedule) -> pd.DataFrame:
    table = compare(schedules, (baseline.scheduler, baseline.predictor), METRICS, further=of_trials)
    nothing = {"least": np.nan, "most": np.nan, "weeks": 0}
    note = table["note"].str.replace("week", "trial")
    return table.assign(replicates=table["weeks"], note=note, compared_with=baseline.label, **nothing)
