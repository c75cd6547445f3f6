"""Attack what RUSH with the model of delays is said to be worth, on the simulated cluster.

Other things stand in the model's place, and trials are on another cluster than the one that it learned on; EASY is that of the same
cluster, and what varies is by control runs of the usual one. ``python -m benchmarks.papers.nichols.attacks`` prints tables of ADAA;
``--write`` puts them into docs/studies/data/rush-assumptions.csv. Trials and control runs have seeds that nothing else is measured or chosen on;
those of the second table were simulated after all else was chosen.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from benchmarks.common.pages import STUDIES
from benchmarks.common.tables import markdown, write_data
from benchmarks.papers.nichols.comparison import compared
from benchmarks.papers.nichols.experiments import ALL, EASY, EXPERIMENTS, asking_rate, learn, values_of
from benchmarks.papers.nichols.experiments import pooled as with_pooled
from benchmarks.papers.nichols.tables import bold, cell, looked_up
from benchmarks.papers.nichols.workloads import trial
from features.monitoring.samplers import DELAY_FEATURES, TYPE_FEATURES
from sim.cluster.experiments import control_runs, trials, usual
from sim.cluster.presets import CONGESTED, SimulatedCluster
from sim.cluster.simulate import Adviser, ClusterRun
from sim.policy import Policy

LEARN_SEED, USUAL_SEED, FIRST_TRIAL, FURTHER_TRIAL = 51, 52, 300_000, 300_200
DAYS, EACH = 30.0, 4000
PATIENCE_S = 1200
CUTOFF, FURTHER_CUTOFFS = 0.15, (0.1, 0.15, 0.2)
_WORLDS, _RESAMPLES = 1000, 1000
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


def rush(cutoff: float, *, order: str = "") -> str:
    """Return the name of the scheduler that asks the attacked model."""
    return f"{order}EASY+RUSH(model=attacked,patience={PATIENCE_S},every=10,cutoff={cutoff:g})"


@dataclass(frozen=True)
class Attack:
    """Control runs on the usual cluster, what is usual there, and trials of ADAA."""

    run: ClusterRun
    usual_times: pd.DataFrame

    def trials(
        self, adviser: Adviser, schedulers: Sequence[str], seeds: range, cluster: SimulatedCluster = CONGESTED
    ) -> pd.DataFrame:
        """Return a row a run, as of :func:`benchmarks.papers.nichols.experiments.pooled`."""
        submitted, policies = {seed: trial(EXPERIMENTS["ADAA"], seed) for seed in seeds}, [Policy(name) for name in schedulers]
        runs = trials(cluster, submitted, policies, usual_times=self.usual_times, advisers={"attacked": adviser})
        return with_pooled(runs, schedulers[0])

    def row(self, adviser: Adviser, cutoff: float, seeds: range, cluster: SimulatedCluster = CONGESTED) -> list[str]:
        """Return the cells of a row: runs with variation, makespan, mean wait, and the share of skipped questions."""
        runs = self.trials(adviser, ["EASY", rush(cutoff)], seeds, cluster)
        at = looked_up(compared(values_of(runs), EASY))
        text = [cell(at[rush(cutoff), ALL, metric]) for metric in ("varied", "makespan_s", "wait_s")]
        return [f"{at[EASY, ALL, 'varied']['mean']:.1f}", *text, f"{100 * asking_rate(runs, rush(cutoff)):.0f} %"]

    def attacks(self, count: int) -> str:
        """Return the table of what stands in the model's place, and of other clusters."""
        seeds, attacked = range(FIRST_TRIAL, FIRST_TRIAL + count), models(self.run)
        rows = [[what, *self.row(adviser, cutoff, seeds)] for what, (adviser, cutoff) in attacked.items()]
        model = attacked["the model"][0]
        rows += [[what, *self.row(model, CUTOFF, seeds, CONGESTED.but(**differs))] for what, differs in CHANGED.items()]
        headings = ["", "EASY's runs with variation", "runs with variation", "makespan, s", "mean wait, s", "skipped of asked"]
        return markdown(headings, rows)

    def further(self, count: int) -> str:
        """Return the table of further trials, and how often intervals hold the change of all of them."""
        seeds, model = range(FURTHER_TRIAL, FURTHER_TRIAL + count), learn(self.run, classifier="ordinal")
        runs = self.trials(model, ["EASY", *map(rush, FURTHER_CUTOFFS)], seeds)
        storms = set(runs.loc[(runs["scheduler"] == "EASY") & (runs["storm_s"] > 0), "seed"])
        rows = [_further(f"cutoff {cutoff:g}", runs, rush(cutoff)) for cutoff in FURTHER_CUTOFFS]
        if storms:
            rows.append(_further(f"cutoff {CUTOFF:g}, with storm", runs[runs["seed"].isin(storms)], rush(CUTOFF)))
        few = seeds[: max(count // 3, 1)]
        ordered = self.trials(model, ["SPF-EASY", rush(CUTOFF, order="SPF-")], few)
        rows.append(_further(f"shortest first (SPF-EASY), the first {len(few)}", ordered, rush(CUTOFF, order="SPF-")))
        table = markdown(["", "trials", *_FURTHER.values()], rows)
        return f"{table}\n\n{_covered(runs, rush(CUTOFF))}"


_FURTHER = {
    "varied": "runs with variation",
    "makespan_s": "makespan",
    "wait_s": "mean wait",
    "late_s": "95th percentile of waits",
    "response_s": "mean response time",
}
"""Metrics of further trials, and how the table calls them."""


def _further(label: str, runs: pd.DataFrame, name: str) -> list[str]:
    """Return the cells of a row: by how much each metric changes in per cent, with 95 % intervals."""
    baseline = runs["scheduler"].iloc[0]
    runs = runs.assign(response_s=runs["wait_s"] + runs["runtime_s"])
    groups = runs.groupby(["scheduler", "seed"], sort=False)
    more = {"late_s": groups["wait_s"].quantile(0.95), "response_s": groups["response_s"].mean()}
    values = values_of(runs)
    for metric, each in more.items():
        for scheduler in (baseline, name):
            values[scheduler, ALL, metric] = each[scheduler]
    at = looked_up(compared(values[[(each, ALL, metric) for each in (baseline, name) for metric in _FURTHER]], baseline))
    cells = []
    for metric in _FURTHER:
        row = at[name, ALL, metric]
        change, low, high = (100 * row[end] for end in ("relative", "relative_low", "relative_high"))
        text = f"{change:+.1f} % [{low:+.1f}, {high:+.1f}]".replace("-", "−")
        cells.append(bold(text, row))
    return [label, str(runs["seed"].nunique()), *cells]


def _covered(runs: pd.DataFrame, name: str) -> str:
    """Say how often the 95 % interval of trials drawn from all of them holds the change of all."""
    values = values_of(runs)
    own, base = (values[scheduler, ALL, "varied"].to_numpy() for scheduler in (name, "EASY"))
    truth, size, random, held = own.sum() / base.sum(), 400, np.random.default_rng(1), 0
    for _ in range(_WORLDS):
        drawn = random.integers(0, len(own), size)
        weights = random.multinomial(size, np.full(size, 1 / size), _RESAMPLES)
        low, high = np.quantile(weights @ own[drawn] / (weights @ base[drawn]), [0.025, 0.975])
        held += low <= truth <= high
    return (
        f"Of {_WORLDS} times {size} trials drawn from these, the 95 % interval of the change of runs with variation holds that of all of "
        f"them in {100 * held / _WORLDS:.0f} %."
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=200, help="of each row of attacks")
    parser.add_argument("--further", type=int, default=600, help="further trials")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/studies/data/rush-assumptions.csv")
    options = parser.parse_args(argv)
    attack = Attack(
        control_runs(CONGESTED, days=DAYS, seed=LEARN_SEED, per_application=EACH),
        usual(CONGESTED, EXPERIMENTS["ADAA"].nodes, days=DAYS, seed=USUAL_SEED),
    )
    tables = {"attacks": attack.attacks(options.trials), "further": attack.further(options.further)}
    if options.write:
        write_data(STUDIES / "rush-assumptions.md", tables)
    else:
        print("\n\n".join(tables.values()))


if __name__ == "__main__":
    main()
