"""The experiments of Nichols et al. (RUSH) on simulated clusters: what is run, what learns, what is counted.

A run counts as varied in two ways: by what is usual for control runs on the same cluster, and by mean and sigma of EASY's runs of the
same experiment, pooled over its trials. The paper must have counted in the second way: 1.5 to 3.5 of the 27 runs an application
beyond 1.5 sigma, with maxima a few per cent apart, are impossible with a sigma like figure 1's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from benchmarks.papers.nichols.comparison import TRIAL, by_trial, compared
from benchmarks.papers.nichols.workloads import Workload
from features.errors import InputError
from features.monitoring.labels import baselines, labels, z_scores
from models.variability.classifiers import thresholds_of
from models.variability.evaluation import ClassifierTraining
from models.variability.model import times_of
from sim.cluster.experiments import judged
from sim.cluster.presets import CONGESTED, Level, SimulatedCluster
from sim.cluster.simulate import Adviser, ClusterRun
from sim.cluster.users import ALL_APPLICATIONS
from sim.metrics.names import Metric

EASY, ALL = "EASY", "all"
PARTIAL = ("Laghos", "LBANN", "PENNANT")
"""The applications of ADPA and PDPA."""
STRATA = (ALL, "without storm", "with storm")
"""Trials that are compared together: all, and those without and with a storm on the file system in EASY's run."""
CONTROL_RUNS = 500
"""Control runs of each application that the published model learns from: two to three a day from August to February."""
METRICS = TRIAL | {
    "varied_pooled": Metric("runs with variation, by EASY's runs", "count", "", "", form=".1f"),
    "wait_later_s": Metric("mean wait of jobs not submitted at once, s", "seconds", "", "", form=",.0f"),
}


@dataclass(frozen=True)
class Experiment(Workload):
    """A row of table II of the paper; the model learned from runs of ``trained_on`` on 16 nodes."""

    name: str = ""
    title: str = ""
    trained_on: tuple[str, ...] = ALL_APPLICATIONS


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(190, name="ADAA", title="All data, all applications"),
        Experiment(150, PARTIAL, name="ADPA", title="All data, partial applications"),
        Experiment(
            150,
            PARTIAL,
            name="PDPA",
            title="Partial data, partial applications",
            trained_on=("AMG", "Kripke", "sw4lite", "SWFFT"),
        ),
        Experiment(190, nodes=(8, 16, 32), scaling="weak", name="WS", title="Weak scaling"),
        Experiment(190, nodes=(8, 16, 32), scaling="strong", name="SS", title="Strong scaling"),
    )
}

QUIET = SimulatedCluster(
    "quiet",
    noise_share=0.0,
    noise_leaves=0,
    network_gain=0.02,
    storage_gain=0.02,
    storage_background=Level(0.10, spread=0.3),
    core_background=Level(0.05, spread=0.3),
)
"""Like the real repeated runs of proxy applications on Volta, a Cray XC30m (Ates et al. 2018, Taxonomist data set): within 17 groups of
application, input and nodes the coefficient of variation is 0.06 to 4.7 %, in one 17.7 %."""
STORMY = SimulatedCluster(
    "stormy",
    storage_background=Level(
        0.20, spread=0.4, memory_s=3600, pause_s=10_800, lasting_s=1200, height=0.45, height_spread=1.0, most=5.0
    ),
    core_background=Level(0.25, spread=0.4, memory_s=3600, pause_s=10_800, lasting_s=1200, height=0.5, height_spread=1.0, most=3.0),
    noise_background=Level(0.5, spread=0.6, memory_s=1800, most=1.0),
)
"""The first ``congested``, by other assumptions: bursts in the core of the network and on the file system every three hours hit the whole
cluster at once, and no placement evades them; its largest runs take 7 to 9 times the least."""
CLUSTERS = {cluster.name: cluster for cluster in (QUIET, CONGESTED, STORMY)}


def machine(name: str, placement: str = "") -> SimulatedCluster:
    """Return a cluster, or ``NAME xFACTOR``: with disturbances that last, and pause, so many times as long."""
    called, _, factor = name.partition(" x")
    if called not in CLUSTERS:
        raise InputError(f"unknown cluster {called!r}; known: {', '.join(CLUSTERS)}")
    cluster = CLUSTERS[called].but(placement=placement or SimulatedCluster.placement)
    if not factor:
        return cluster
    times, longer = float(factor), {}
    for what in ("storage_background", "core_background", "noise_background"):
        level: Level = getattr(cluster, what)
        changed = {name: getattr(level, name) * times for name in ("memory_s", "pause_s", "lasting_s")}
        longer[what] = replace(level, **changed)
    return cluster.but(name=name, **longer)


def learn(
    run: ClusterRun,
    *,
    classifier: str = "adaboost",
    scope: str = "all",
    applications: tuple[str, ...] = ALL_APPLICATIONS,
    columns: Sequence[str] | None = None,
    seed: int = 0,
    options: Mapping[str, object] | None = None,
) -> Adviser:
    """Train a model on the control runs ``run`` of ``applications``.

    It tells three classes apart, as Nichols et al. deploy it, or delays. ``columns`` are by default those of
    :meth:`models.variability.evaluation.ClassifierTraining.fit`.
    """
    rows = np.flatnonzero(run.runs["application"].isin(applications).to_numpy())
    runs = run.runs.iloc[rows]
    usual = baselines(runs["application"], runs["runtime_s"])
    learning = ClassifierTraining((classifier,), thresholds_of((classifier,)), options={classifier: options or {}}, seed=seed)
    z = z_scores(runs["application"], runs["runtime_s"], usual)
    seen = pd.concat([run.own if scope == "own" else run.all, run.situation], axis=1).iloc[rows].reset_index(drop=True)
    if columns is not None:
        seen = seen[list(columns)]
    model = learning.fit(classifier, seen, labels(z, learning.thresholds), times_of(runs), usual)
    return Adviser(model, scope)


def asking_rate(runs: pd.DataFrame, scheduler: str) -> float:
    """Return skipped over asked, of all trials under ``scheduler``; 0 without decisions."""
    of_trial = runs[runs["scheduler"] == scheduler].drop_duplicates("seed")
    asked = int(of_trial["asked"].sum())
    return int(of_trial["skipped"].sum()) / asked if asked else 0.0


def pooled(runs: pd.DataFrame, baseline: str = EASY) -> pd.DataFrame:
    """Return ``runs`` with ``varied_pooled``: by mean and sigma of the baseline's runs of their kind in all trials."""
    tables = []
    for nodes, rows in runs[runs["scheduler"] == baseline].groupby("nodes"):
        table = baselines(rows["application"], rows["runtime_s"])
        tables.append(table.set_index(pd.Index([nodes] * len(table), name="nodes"), append=True))
    return runs.assign(varied_pooled=judged(runs[["application", "nodes", "runtime_s"]], pd.concat(tables))["varied"])


def values_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return :func:`benchmarks.papers.nichols.comparison.by_trial` with both metrics of ``METRICS`` that the product does not have."""
    values = by_trial(runs)
    by_pool, later = by_trial(runs.assign(varied=runs["varied_pooled"])), by_trial(runs[runs["submit_s"] > 0])
    further = {}
    for scheduler, application, metric in values.columns:
        if metric == "varied":
            further[scheduler, application, "varied_pooled"] = by_pool[scheduler, application, "varied"]
            further[scheduler, application, "wait_later_s"] = later[scheduler, application, "wait_s"]
    return pd.concat([values, pd.DataFrame(further).rename_axis(columns=values.columns.names)], axis=1).sort_index()


def stratified(runs: pd.DataFrame, baseline: str = EASY) -> pd.DataFrame:
    """Return the comparison of all trials, and of those without and with a storm, by ``stratum``.

    ``runs`` come from :func:`pooled`. A trial has a storm if there is one on the file system while the baseline's jobs are there.
    """
    values = values_of(runs)
    storm = runs[runs["scheduler"] == baseline].groupby("seed")["storm_s"].first().reindex(values.index).to_numpy() > 0
    strata = zip(STRATA, (np.ones(len(values), bool), ~storm, storm), strict=True)
    return pd.concat([compared(values[rows], baseline).assign(stratum=name) for name, rows in strata if rows.any()])


@dataclass(frozen=True)
class Conducted:
    """The trials of one experiment: a row a run (:func:`pooled`), and what is usual (:func:`sim.cluster.experiments.usual`)."""

    experiment: Experiment
    runs: pd.DataFrame
    usual_times: pd.DataFrame

    @property
    def schedulers(self) -> list[str]:
        return list(dict.fromkeys(self.runs["scheduler"]))

    @property
    def trials(self) -> int:
        return int(self.runs["seed"].nunique())

    @cached_property
    def strata(self) -> pd.DataFrame:
        """Return :func:`stratified` of it."""
        return stratified(self.runs)
