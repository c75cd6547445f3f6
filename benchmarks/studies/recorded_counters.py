"""Measure what replays on recorded counters foresee of start decisions, on a simulated cluster that knows what comes.

A trial is six hours under EASY on ``congested-small``, written as a site's files: LDMS CSV, accounting, types and topology. They are
ingested and replayed as a site's are (:mod:`pipelines.workflows.monitored`), with ``ordinal`` asked, which reads no probes and has
learned from six other days. That is the estimate. The truth is the same trial (submissions, background, each run's own noise), simulated with the same model
asked at every start. ``stormy-small`` is the same machine in the weather of ``stormy``: bursts from outside that hit all jobs at once.

``python -m benchmarks.studies.recorded_counters`` prints the changes, ``--write`` puts a row a trial into
docs/studies/data/recorded-counters.csv; the card is made by :mod:`benchmarks.papers.nichols.cards`. Ten minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from rich.console import Console

from benchmarks.common.card import read_rows, write_rows
from benchmarks.common.pages import STUDIES
from benchmarks.papers.nichols.experiments import STORMY
from features.jobs.cleaning import clean
from features.monitoring.labels import BINARY, DELAYS, baselines, labels, z_scores
from features.monitoring.samplers import PROBE_FEATURES
from features.statistics import Ratio, interval_of_change
from models.variability.classifiers import ORDINAL
from models.variability.evaluation import Learning
from models.variability.time_blocks import times_of
from models.variability.unseen import Unseen
from pipelines.ingest.read import read_trace
from pipelines.sources.emission import COUNTERS, JOBS, TOPOLOGY, TYPES, emit
from pipelines.sources.simulated_site import small_cluster
from pipelines.sources.system import System
from pipelines.storage.counters_store import CountersStore
from pipelines.storage.lake import Lake
from pipelines.storage.run_store import RUNS, application_types, machine_of, stored
from pipelines.workflows.monitored import VARYING, Moments, replayed
from pipelines.workflows.variability_ingest import read_counters, read_tables
from sim.cluster.advisers import Adviser
from sim.cluster.experiments import LOAD, control_runs
from sim.cluster.presets import Cluster
from sim.cluster.simulate import simulate_on
from sim.cluster.workloads import continuous
from sim.metrics.formats import MINUS

DATA = STUDIES / "data" / "recorded-counters.csv"
SMALL = small_cluster()
CLUSTERS = (
    SMALL,
    SMALL.but(
        name="stormy-small",
        storage_background=STORMY.storage_background,
        core_background=STORMY.core_background,
        noise_background=STORMY.noise_background,
    ),
)
TRAINED_DAYS, TRAINED_SEED = 6.0, 900
DAYS, FIRST, TRIALS = 0.25, 100, 100
SCHEDULER = "EASY+RUSH(model=registered,patience=1200)"
SAY = Console(stderr=True)


def learned(cluster: Cluster) -> tuple[Unseen, pd.DataFrame]:
    """Train on other days of ``cluster``; return the model, calibrated there, and what is usual there."""
    run = control_runs(cluster, days=TRAINED_DAYS, seed=TRAINED_SEED)
    features = pd.concat([run.all, run.situation], axis=1).drop(columns=list(PROBE_FEATURES))
    runs = run.runs.assign(start_s=run.runs["start_s"].astype("int64"))
    usual = baselines(runs["application"], runs["runtime_s"])
    z = z_scores(runs["application"], runs["runtime_s"], usual)
    model = Learning((ORDINAL,), DELAYS).train(ORDINAL, features, labels(z, DELAYS), times_of(runs), usual, z)
    unseen = Unseen.of(model, features, runs, DELAYS, float((runs["start_s"] + runs["runtime_s"]).max()))
    return replace(unseen, until_s=0.0), usual  # trials are of other times, whatever the seconds say


def trial(cluster: Cluster, unseen: Unseen, usual: pd.DataFrame, seed: int, place: Path) -> dict[str, float]:
    """Return varying runs and mean waits of one trial, without and with decisions.

    In truth, and as estimated.

    The site's files are written to ``place``.
    """
    emit(cluster, place / "site", days=DAYS, seed=seed)
    files = {name: str(place / "site" / file) for name, file in (("accounting", JOBS), ("types", TYPES), ("topology", TOPOLOGY))}
    counters = (str(place / "site" / COUNTERS),)
    site = System(name="small", counters=counters, job_name="(?P<application>.+)", time_zone="UTC", lag_s=cluster.lag_s, **files)
    lake = Lake(place / "lake")
    read_counters(place, site)
    read_tables(lake, site)
    moments = Moments(
        CountersStore(lake.root, site.name),
        unseen.model.columns,
        application_types(lake, site.name),
        machine_of(lake, site.name),
        site.lag_s,
    )
    trace = clean(read_trace(Path(site.accounting), timezone="UTC"), cluster.procs)
    comparison = replayed(trace, stored(lake, RUNS, site.name), moments, unseen, SCHEDULER)
    table = comparison.table.set_index("metric")
    figures: dict[str, float] = {"seed": seed}
    for name, metric in (("varied", VARYING), ("wait_s", "mean_wait_s")):
        figures |= {
            f"estimated {name} before": table.loc[metric, "baseline"],
            f"estimated {name} after": table.loc[metric, "value"],
        }
    jobs, advisers = continuous(DAYS, seed, procs=cluster.procs, load=LOAD), {"registered": Adviser(unseen.model, "all", DELAYS)}
    for name, scheduler in (("before", "EASY"), ("after", SCHEDULER)):
        runs = simulate_on(cluster, jobs, seed=seed, scheduler=scheduler, advisers=advisers).runs
        varied = z_scores(runs["application"], runs["runtime_s"], usual) > BINARY[0]
        figures |= {f"true varied {name}": int(varied.sum()), f"true wait_s {name}": float(runs["wait_s"].mean())}
    return figures


def computed(trials: int) -> Iterator[pd.DataFrame]:
    """Yield a table a cluster, a row a trial."""
    for cluster in CLUSTERS:
        unseen, usual = learned(cluster)
        SAY.print(f"{cluster.name}: skill {unseen.skill[0]:.3f}, curve {unseen.curve}")
        rows = []
        for seed in range(FIRST, FIRST + trials):
            with TemporaryDirectory() as place:
                rows.append(trial(cluster, unseen, usual, seed, Path(place)))
            SAY.print(cluster.name, *(f"{value:.4g}" for value in rows[-1].values()))
        yield pd.DataFrame(rows).assign(cluster=cluster.name)


def changes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return changes with intervals over trials, a row a cluster and a column each of ``true varied`` and the others."""
    cells = {}
    for cluster, each in rows.groupby("cluster", sort=False):
        for what in ("true varied", "estimated varied", "true wait_s", "estimated wait_s"):
            one = pd.Series(1.0, each.index).to_numpy()[None]
            after, before = (Ratio(each[f"{what} {when}"].to_numpy(float)[None], one) for when in ("after", "before"))
            ends = interval_of_change(after, before)
            cells[cluster, what] = f"{after.value() / before.value() - 1:+.0%} [{ends.low:+.0%}, {ends.high:+.0%}]".replace(
                "-", MINUS
            )
    return pd.Series(cells).unstack(sort=False)


def main() -> None:
    """Simulate and print, or write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--trials", type=int, default=TRIALS, help="of each cluster")
    parser.add_argument("--write", action="store_true", help="write the rows as data")
    asked = parser.parse_args()
    rows = pd.concat(computed(asked.trials), ignore_index=True)
    if asked.write:
        write_rows(DATA, rows)
        rows = read_rows(DATA)
    print(changes(rows).to_string())


if __name__ == "__main__":
    main()
