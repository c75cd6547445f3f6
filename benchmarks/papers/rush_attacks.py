"""Attack what RUSH with the model of delays is said to be worth, on the simulated cluster.

``python -m benchmarks.papers.rush_attacks`` prints a table of ADAA; ``--write`` puts it into docs/studies/rush-assumptions.md. Trials and
control runs have seeds that nothing else is measured or chosen on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from benchmarks.common.pages import STUDIES, made_by
from benchmarks.common.tables import write_parts
from benchmarks.papers.rush_page import in_line
from features.monitoring.samplers import DELAY_FEATURES, TYPE_FEATURES
from pipelines.report.cluster_tables import changed, looked_up
from pipelines.report.tables import Table
from pipelines.workflows.cluster_experiments import ALL, asking_rate, by_trial, compared, described
from sim.cluster.advisers import Adviser
from sim.cluster.experiments import control_runs, learn, trials, usual
from sim.cluster.presets import Cluster, calibration
from sim.cluster.simulate import ClusterRun
from sim.cluster.workloads import EXPERIMENTS

LEARN_SEED, USUAL_SEED, FIRST_TRIAL = 51, 52, 300_000
DAYS, EACH = 30.0, 4000
PATIENCE_S = 1200
CUTOFF = 0.15
PROBE, WAIT = "probe.allreduce_s.max", "lustre2_client.dirty_pages_misses.newest"
CHANGED: dict[str, dict[str, object]] = {
    "sensors five times as noisy": {"sensor_noise": 0.5},
    "samples 120 s late": {"lag_s": 120},
    "probes five times as noisy": {"probe_noise": 0.25},
    "stretch with power 2 of the load": {"power": 2.0},
    "stretch with power 4 of the load": {"power": 4.0},
    "the noise job under eight leaf switches": {"noise_leaves": 8},
    "a file system of three quarters the bandwidth": {"storage": 60.0},
}
"""What differs between the cluster of the trials and the one that the model learned on."""


def models(run: ClusterRun) -> dict[str, tuple[Adviser, float]]:
    """Return the model and what is put in its place, with a cutoff each."""
    random, runs = np.random.default_rng(0), run.runs.copy()
    for _, group in runs.groupby("application"):
        runs.loc[group.index, "runtime_s"] = random.permutation(group["runtime_s"].to_numpy())

    def of(columns: Sequence[str] | None = None, of_run: ClusterRun = run) -> Adviser:
        return learn(of_run, classifier="ordinal", columns=columns)

    simple = of((PROBE, WAIT, *TYPE_FEATURES))
    return {
        "the model": (of(), CUTOFF),
        "labels shuffled within applications": (of(of_run=replace(run, runs=runs)), 0.03),
        "one column: the largest wait in a probe": (of((PROBE,)), 0.05),
        "one column: the newest waits for the file system": (of((WAIT,)), 0.05),
        "both and the type, five columns": (simple, CUTOFF),
        "both and the type, five columns, cutoff 0.05": (simple, 0.05),
        "without what applications usually read and send": (
            of([name for name in DELAY_FEATURES if not name.startswith("offered.")]),
            CUTOFF,
        ),
    }


def beside_easy(cluster: Cluster, adviser: Adviser, cutoff: float, known: pd.DataFrame, seeds: range) -> list[str]:
    """Return the cells of a row: runs with variation, makespan, mean wait, and the share of skipped questions."""
    name = f"EASY+RUSH(model=attacked,patience={PATIENCE_S},every=10,cutoff={cutoff:g})"
    runs = trials(cluster, EXPERIMENTS["ADAA"], ["EASY", name], seeds, known=known, advisers={"attacked": adviser})
    found = looked_up(compared(by_trial(described(runs, known, "EASY")), "EASY"))
    text = [changed(found[name, ALL, metric], "EASY") for metric in ("varied", "makespan_s", "wait_s")]
    easy = f"{found['EASY', ALL, 'varied']['mean']:.1f}"
    return [easy, *map(in_line, text), f"{100 * asking_rate(runs, name):.0f} %"]


def table(count: int) -> str:
    """Return the table of all attacks, ``count`` trials each."""
    cluster, seeds = calibration("congested"), range(FIRST_TRIAL, FIRST_TRIAL + count)
    run = control_runs(cluster, days=DAYS, seed=LEARN_SEED, each=EACH)
    known = usual(cluster, EXPERIMENTS["ADAA"], days=DAYS, seed=USUAL_SEED)
    found = models(run)
    rows = [[what, *beside_easy(cluster, adviser, cutoff, known, seeds)] for what, (adviser, cutoff) in found.items()]
    model = found["the model"][0]
    for what, differs in CHANGED.items():
        rows.append([what, *beside_easy(cluster.but(**differs), model, CUTOFF, known, seeds)])
    headings = ["", "EASY's runs with variation", "runs with variation", "makespan, s", "mean wait, s", "skipped of asked"]
    return Table("", headings, rows).markdown()


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=200, help="of each row")
    parser.add_argument("--write", action="store_true", help="write the table into docs/studies/rush-assumptions.md")
    options = parser.parse_args(argv)
    text = f"{table(options.trials)}\n\n{options.trials} trials a row. {made_by('papers.rush_attacks', argv)}"
    if options.write:
        write_parts(STUDIES / "rush-assumptions.md", {"attacks": text})
    else:
        print(text)


if __name__ == "__main__":
    main()
