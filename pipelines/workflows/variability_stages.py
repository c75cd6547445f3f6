"""The stages of performance variability: files into the lake, features, trials.

The assets (:mod:`pipelines.assets.counters` and following) and the night (:mod:`pipelines.workflows.variability_night`) read,
call one and write. Counters and control runs are kept as ingested: they only grow, each file whole, and reading one again changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.errors import InputError
from features.monitoring.labels import BINARY, baselines, labels, z_scores
from features.monitoring.samplers import WINDOW_S
from pipelines.ingest.control_runs import ControlRuns, read_accounting_runs, read_runs
from pipelines.ingest.probes import read_probes, read_types
from pipelines.sources.systems import System
from pipelines.storage.counters_store import CountersStore
from pipelines.storage.lake import Lake
from pipelines.storage.provenance import code_version, software
from pipelines.storage.run_store import PROBE_RESULTS, RUNS, TYPES, Kept, keep
from pipelines.workflows.cluster_experiments import ALL, ORACLE, REGISTERED, Conducted, Plan, by_trial, compared, conduct
from pipelines.workflows.variability_table import SCOPES, TrainingTable
from sim.cluster.presets import Cluster

if TYPE_CHECKING:
    from models.variability.model import VariabilityModel
    from pipelines.ingest.ldms_ingest import IngestReport

FEATURES_TABLE = "variability_features"
TRIALS = 20
"""Trials of an experiment; five, as in the paper, hardly give an interval."""
FEWEST_RUNS = 4
"""Min runs of an application for one to vary: of three none is 1.5 standard deviations from their mean (ddof = 0)."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Table:
    """A file of control runs, probe results or types: its rows, and how they were stored."""

    path: Path
    table: str
    read: ControlRuns
    kept: Kept


def read_counters(home: Path, system: System, progress: Progress = lambda done, total: None) -> IngestReport:
    """Read new content of the system's LDMS files.

    Raises InputError where its places name nothing; a broken file is in the report instead.
    """
    from pipelines.ingest.ldms_ingest import ingest_counters

    if not system.counters:
        raise InputError(
            f"{system.name}: no counters are known: queuecast variability ingest --system {system.name} --counters ..."
        )
    store = CountersStore(home / "lake", system.name)
    return ingest_counters(
        store, system.counters, sampler=system.sampler or None, progress=lambda name, done, total: progress(done, total)
    )


def read_tables(lake: Lake, system: System) -> list[Table]:
    """Read the system's control runs, probe results and types, then store them.

    All are read before any is stored, so that an error in one changes nothing.
    """
    places: tuple[tuple[str, str, Callable[[Path], ControlRuns]], ...] = (
        (system.runs, RUNS, read_runs),
        (system.accounting, RUNS, lambda path: read_accounting_runs(path, system.job_name, system.time_zone or None)),
        (system.probes, PROBE_RESULTS, lambda path: ControlRuns(read_probes(path))),
        (system.types, TYPES, lambda path: ControlRuns(read_types(path))),
    )
    found = [(Path(place), table, read(Path(place))) for place, table, read in places if place]
    return [Table(path, table, read, keep(lake, table, system.name, read.runs)) for path, table, read in found]


def sampled(store: CountersStore, report: IngestReport) -> pd.DataFrame:
    """Return coverage of each sampler and day with new data, or else of each last day.

    :meth:`CountersStore.coverage` of it, ``share`` (of the minutes and nodes of that day the sampled ones), ``repeated``
    (duplicate samples of a node and time) and ``new``.
    """
    tables = []
    for sampler in store.samplers:
        new = report.samplers[sampler].days if sampler in report.samplers else set()
        days = sorted(new) or list(store.days(sampler)[-1:])
        table = store.coverage(sampler, days).assign(sampler=sampler, repeated=[_repeated(store, sampler, day) for day in days])
        tables.append(table.assign(share=table["node_minutes"] / (table["nodes"] * table["minutes"]), new=table["day"].isin(new)))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _repeated(store: CountersStore, sampler: str, day: str) -> int:
    """Count neighbours of one node and time, or out of order, as a reader of a day gets them."""
    first = pd.Timestamp(day, tz="UTC").timestamp()
    count, last = 0, (-np.inf, "")
    for batch in store.batches(sampler, first, first + 86_400, metrics=()):
        if not batch.num_rows:
            continue
        time = np.append(last[0], batch.column("time_s").to_numpy())
        names = batch.column("node")
        node = np.append(last[1], np.array(names.dictionary.to_pylist(), object)[names.indices.to_numpy()])
        count += int(((time[1:] < time[:-1]) | ((time[1:] == time[:-1]) & (node[1:] <= node[:-1]))).sum())
        last = time[-1], node[-1]
    return count


def coverage(table: TrainingTable) -> pd.DataFrame:
    """Return the coverage behind the features, a row a sampler and scope.

    Usual seconds between samples, ``nodes`` (share of the runs' own nodes with a sample), ``minutes`` (samples seen, as a share
    of those expected) and ``without`` (runs without any sample).
    """
    rows = []
    for sampler, interval_s in table.interval_s.items():
        for scope in SCOPES:
            name = f"{sampler}.{scope}"
            if f"{name}.samples" not in table.coverage:
                continue
            samples, expected = table.coverage[f"{name}.samples"], table.coverage[f"{name}.expected"]
            nodes = expected * interval_s / (WINDOW_S - table.lag_s)
            rows.append(
                {
                    "sampler": sampler,
                    "scope": scope,
                    "interval_s": interval_s,
                    "nodes": float(table.coverage[f"{name}.nodes"].sum() / nodes.sum()),
                    "minutes": float(samples.sum() / expected.sum()),
                    "without": int((samples == 0).sum()),
                }
            )
    return pd.DataFrame(rows)


def still_metrics(table: TrainingTable) -> list[str]:
    """Return metrics that are constant before all runs, on own nodes and on all.

    Their sensors are dead or misnamed.
    """
    still = []
    for name in table.features["own"].columns:
        if name.endswith(".max"):
            values = [frame[part] for frame in table.features.values() for part in (name, f"{name.removesuffix('.max')}.min")]
            seen = pd.concat([column.dropna() for column in values])
            if seen.nunique() <= 1:
                still.append(name.removesuffix(".max"))
    return still


def label_balance(runs: pd.DataFrame) -> pd.DataFrame:
    """Return ``runs mean_s sigma_s varied share`` by application.

    ``varied`` counts runs with z > 1.5 by all of them.
    """
    table = baselines(runs["application"], runs["runtime_s"])
    z = z_scores(runs["application"], runs["runtime_s"], table)
    varied = labels(np.nan_to_num(z), BINARY)
    table["varied"] = pd.Series(varied).groupby(runs["application"].to_numpy()).sum().reindex(table.index)
    return table.assign(share=table["varied"] / table["runs"]).reset_index()


SCHEDULERS = ("EASY", f"EASY+RUSH(model={REGISTERED})", f"EASY+RUSH(model={ORACLE})")
"""Schedulers of the trials: without start decisions, with the champion, and with an oracle as the bound."""


def trial_plan(trials: int, seed: int) -> Plan:
    """Return experiment ADAA of Nichols et al. on the small simulated cluster, in proportion.

    Its control runs are of other times than those used for training.
    """
    from pipelines.sources.simulated_site import DAYS, small_cluster
    from sim.cluster.workloads import experiment

    cluster, whole = small_cluster(), experiment("ADAA")
    of = replace(whole, jobs=round(whole.jobs * cluster.procs / Cluster().procs))
    return Plan(cluster, (of,), SCHEDULERS, trials=trials, days=DAYS, seed=seed)


def try_model(plan: Plan, model: VariabilityModel, scope: str) -> tuple[Conducted, pd.DataFrame]:
    """Run the trials of ``plan`` with ``model``; return them with the comparison.

    The comparison is :func:`pipelines.workflows.cluster_experiments.compared`.
    """
    from sim.cluster.simulate import Adviser

    conducted = conduct(plan, registered=Adviser(model, scope))[0]
    return conducted, compared(by_trial(conducted.runs), conducted.baseline, plan.seed)


def trials_page(plan: Plan, conducted: Conducted, champion: str, run_id: str) -> str:
    """Return the page of the trials as one self-contained HTML file."""
    from pipelines.report.cluster import render_cluster

    share = plan.cluster.procs / Cluster().procs
    note = f"The cluster and the number of jobs are {share:.0%} of the paper's, whose counts of runs are of trials {1 / share:.0f} times as large."
    provenance = {
        "model": champion,
        "trials": f"{conducted.trials}, seed {plan.seed}",
        "cluster": asdict(plan.cluster),
        "code": code_version(),
        "software": software(),
        "Dagster run": run_id,
    }
    return render_cluster(plan.cluster.name, [conducted], provenance, [note])


def first_trial(plan: Plan) -> pd.DataFrame:
    """Simulate the plan's first trial under its baseline; return its runs."""
    from sim.cluster.simulate import simulate_on
    from sim.cluster.workloads import trial

    seed, of = plan.trial_seeds[0], plan.experiments[0]
    return simulate_on(plan.cluster, trial(of, seed), scheduler=plan.schedulers[0], seed=seed, scaling=of.scaling).runs


def over_all(table: pd.DataFrame) -> pd.DataFrame:
    """Return all applications together, a row a scheduler and a column a mean over trials.

    ``table`` comes from :func:`try_model`.
    """
    rows = table[table["application"] == ALL]
    return rows.pivot_table(index="scheduler", columns="metric", values="mean", sort=False).reset_index()
