"""Measure what waiting for a quiet machine is worth: RUSH (Nichols et al.), simulated.

``python -m benchmarks.papers.rush`` prints the tables; ``--write`` puts them into docs/studies/rush.md and makes its
pictures. What was simulated is kept under ``--keep`` and used again only by the same code: an interrupted run
goes on where it was, and models are trained only where something is missing. The cutoff of the model is
chosen on trials that nothing else is measured on.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.pages import HOUSE, STUDIES, kept, made_by
from features.errors import InputError
from models.variability.classifiers import CLASSIFIERS
from pipelines.report.cluster_tables import looked_up
from pipelines.workflows.cluster_experiments import (
    ALL,
    CONTROL_RUNS,
    UNLEARNED,
    Conducted,
    asking_rate,
    by_trial,
    compared,
    described,
)
from sim.cluster.background import Level
from sim.cluster.experiments import VARIES, control_runs, judged, learn, trials, usual
from sim.cluster.presets import Cluster, calibration
from sim.cluster.simulate import Adviser, ClusterRun, simulate_on
from sim.cluster.workloads import ALL_APPLICATIONS, EXPERIMENTS, Experiment, continuous, trial

CLUSTERS = ("congested", "stormy")
EASY = "EASY"
ORACLE, NOWCAST, COIN = (f"EASY+RUSH(model={name},skips=10)" for name in UNLEARNED)
CHOSEN = "chosen"
"""What the model with the cutoff chosen here is called; one with the cutoff of highest F1 is called as its classifier."""
SKIPS = (0, 1, 2, 5, 10, 20)
CUTOFFS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""The ladder of cutoffs: probabilities of variation from which on a job waits."""
LIMITS = (1.5, 1.2, 1.0, 0.5)
"""z beyond which the oracle lets a job wait."""
LOADS = (0.7, 0.9)
LASTING = (0.3, 1.0, 3.0, 10.0)
"""How many times as long disturbances last, and pause."""
PRICE = 0.01
"""By how much makespan and mean wait may be longer for a cutoff to be chosen."""
PUBLISHED_TRIALS = 5
_LEARN_SEED, _USUAL_SEED, _MEASURE_FROM, _CHOOSE_FROM, _MONTH_SEED = 1, 2, 100, 50_000, 90_000
_TIMED = 5


def machine(name: str) -> Cluster:
    """Return a calibration, or ``<calibration> x<factor>``.

    With a factor disturbances last, and pause, so many times as long.
    """
    called, _, factor = name.partition(" x")
    cluster = calibration(called)
    if not factor:
        return cluster

    def longer(level: Level) -> Level:
        times = float(factor)
        return replace(level, memory_s=level.memory_s * times, pause_s=level.pause_s * times, lasting_s=level.lasting_s * times)

    levels = {what: longer(getattr(cluster, what)) for what in ("storage_background", "core_background", "noise_background")}
    return cluster.but(name=name, **levels)


@dataclass
class Bench:
    """What is asked for, and where results are kept.

    ``classifier`` learned from ``days`` days over the counters of ``scope`` nodes.
    """

    folder: Path
    classifier: str = "lightgbm"
    scope: str = "own"
    trials: int = 100
    chosen_on: int = 40
    days: float = 30.0
    threads: int = 2
    quiet: bool = False
    _control: dict[str, ClusterRun] = field(default_factory=dict)
    _models: dict[tuple[str, tuple[str, ...]], Adviser] = field(default_factory=dict)

    @property
    def seeds(self) -> range:
        return range(_MEASURE_FROM, _MEASURE_FROM + self.trials)

    @property
    def other_seeds(self) -> range:
        return range(_CHOOSE_FROM, _CHOOSE_FROM + self.chosen_on)

    def say(self, text: str) -> None:
        if not self.quiet:
            print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    def kept(self, what: str, identity: Sequence[object], make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """Return a table, from the folder if the same code made it for ``identity`` before.

        Else it is made and put there.
        """

        def told() -> pd.DataFrame:
            self.say(what)
            return make()

        return kept(self.folder, "papers.rush", (what, *identity), told)

    def control(self, cluster: str) -> ClusterRun:
        if cluster not in self._control:
            self.say(f"{cluster}: control runs of {self.days:g} days")
            run = control_runs(machine(cluster), days=self.days, seed=_LEARN_SEED, each=CONTROL_RUNS)
            self._control[cluster] = run
        return self._control[cluster]

    def adviser(self, cluster: str, trained_on: tuple[str, ...], cutoff: float | None) -> Adviser:
        """Return the model learned from control runs of ``trained_on``.

        With this ``cutoff``, or that of highest F1.
        """
        run = self.control(cluster)
        if (cluster, trained_on) not in self._models:
            self.say(f"{cluster}: learning from {', '.join(trained_on)}")
            given = {"classifier": self.classifier, "scope": self.scope, "applications": trained_on, "seed": _LEARN_SEED}
            self._models[cluster, trained_on] = learn(run, **given)  # type: ignore[arg-type]
        adviser = self._models[cluster, trained_on]
        if cutoff is None:
            return adviser
        return replace(adviser, model=adviser.model.with_cutoff(cutoff))

    def known(self, cluster: str, of: Experiment) -> pd.DataFrame:
        """What is usual for an experiment's jobs."""
        identity = (machine(cluster), of.nodes, of.scaling, self.days)
        make = lambda: usual(machine(cluster), of, days=self.days, seed=_USUAL_SEED)  # noqa: E731
        return self.kept(f"{cluster}, {of.name}: what is usual", identity, make)

    def runs(
        self,
        of: Experiment,
        scheduler: str,
        seeds: range,
        *,
        cluster: str = CLUSTERS[0],
        cutoff: float | None = None,
        beyond: float = VARIES,
        coin: float = 0.0,
    ) -> pd.DataFrame:
        """Run trials under one scheduler.

        Its model, if it asks one, has this ``cutoff``; the oracle's limit is a z of ``beyond``.
        """
        model = scheduler.partition("model=")[2].partition(",")[0]
        learned = model not in ("", *UNLEARNED)
        identity: list[object] = [machine(cluster), of, scheduler, seeds, self.days]
        identity += [self.classifier, self.scope, cutoff] if learned else [coin] if model == "coin" else [beyond]

        def make() -> pd.DataFrame:
            known = self.known(cluster, of)
            limited = known.assign(limit_s=known["mean_s"] + beyond * known["sigma_s"])
            advisers = {model: self.adviser(cluster, of.trained_on, cutoff)} if learned else {}
            given = {"known": limited, "advisers": advisers, "coin": coin, "threads": self.threads}
            return trials(machine(cluster), of, [scheduler], seeds, **given)  # type: ignore[arg-type]

        return self.kept(f"{cluster}, {of.name}: {len(seeds)} trials, {scheduler}", identity, make)


def rush(model: str, skips: int = 10) -> str:
    """The name of a scheduler."""
    return f"EASY+RUSH(model={model},skips={skips})"


def conducted(bench: Bench, of: Experiment, cutoff: float, cluster: str = CLUSTERS[0]) -> Conducted:
    """Conduct an experiment under EASY, the model, nowcast, oracle and coin.

    The model has the chosen cutoff, or its own; the coin skips as often as the first.
    """
    names = (EASY, rush(CHOSEN), rush(bench.classifier), NOWCAST, ORACLE)
    cutoffs = {rush(CHOSEN): cutoff}
    parts = [bench.runs(of, name, bench.seeds, cluster=cluster, cutoff=cutoffs.get(name)) for name in names]
    coin = asking_rate(parts[1], rush(CHOSEN))
    parts.append(bench.runs(of, COIN, bench.seeds, cluster=cluster, coin=round(coin, 4)))
    known = bench.known(cluster, of)
    return Conducted(of, (*names, COIN), described(pd.concat(parts, ignore_index=True), known, EASY), known, coin)


def first_trials(made: Conducted, count: int = PUBLISHED_TRIALS) -> Conducted:
    """The same with its first trials only."""
    seeds = sorted(made.runs["seed"].unique())[:count]
    runs = made.runs[made.runs["seed"].isin(seeds)].reset_index(drop=True)
    return replace(made, runs=described(runs, made.known, made.baseline))


def beside_easy(
    bench: Bench, of: Experiment, named: dict[str, pd.DataFrame], easy: pd.DataFrame, cluster: str = CLUSTERS[0]
) -> pd.DataFrame:
    """Trials by name, compared with EASY's.

    Rows of :func:`pipelines.workflows.cluster_experiments.compared` over all applications, and ``skipped``, a share.
    """
    parts = [easy, *(runs.assign(scheduler=name) for name, runs in named.items())]
    runs = described(pd.concat(parts, ignore_index=True), bench.known(cluster, of), EASY)
    found = compared(by_trial(runs), EASY)
    found = found[found["application"] == ALL]
    return found.assign(skipped=[asking_rate(runs, str(name)) for name in found["scheduler"]])


def ladder(bench: Bench, seeds: range) -> pd.DataFrame:
    """Every cutoff on ADAA, and the one of highest F1."""
    of = EXPERIMENTS["ADAA"]
    easy = bench.runs(of, EASY, seeds)
    named = {f"{cutoff:g}": bench.runs(of, rush(CHOSEN), seeds, cutoff=cutoff) for cutoff in CUTOFFS}
    named["highest F1"] = bench.runs(of, rush(bench.classifier), seeds)
    return beside_easy(bench, of, named, easy)


def choice(found: pd.DataFrame) -> float:
    """Choose the cutoff that leaves the fewest runs with variation at the price.

    By control runs, with makespan and mean wait at most :data:`PRICE` longer; if none is so cheap, the one of least price.
    """
    rows = looked_up(found)
    prices, left = {}, {}
    for cutoff in CUTOFFS:
        name = f"{cutoff:g}"
        prices[cutoff] = max(rows[name, ALL, metric]["relative"] for metric in ("makespan_s", "wait_s"))
        left[cutoff] = rows[name, ALL, "varied"]["mean"]
    cheap = [cutoff for cutoff in CUTOFFS if prices[cutoff] <= PRICE]
    return min(cheap, key=lambda cutoff: left[cutoff]) if cheap else min(CUTOFFS, key=lambda cutoff: prices[cutoff])


def thresholds(bench: Bench, cutoff: float) -> pd.DataFrame:
    """How often a job may be skipped, on ADAA."""
    of = EXPERIMENTS["ADAA"]
    named = {str(skips): bench.runs(of, rush(CHOSEN, skips), bench.seeds, cutoff=cutoff) for skips in SKIPS}
    return beside_easy(bench, of, named, bench.runs(of, EASY, bench.seeds))


def oracles(bench: Bench) -> pd.DataFrame:
    """What the oracle calls variation, on ADAA."""
    of = EXPERIMENTS["ADAA"]
    named = {f"{beyond:g}": bench.runs(of, ORACLE, bench.seeds, beyond=beyond) for beyond in LIMITS}
    return beside_easy(bench, of, named, bench.runs(of, EASY, bench.seeds))


def lasting(bench: Bench) -> dict[str, pd.DataFrame]:
    """Conduct ADAA where disturbances last longer or shorter.

    The model with its own cutoff, nowcast and oracle, by how many times as long.
    """
    of, found = EXPERIMENTS["ADAA"], {}
    for times in LASTING:
        cluster = f"{CLUSTERS[0]} x{times:g}" if times != 1 else CLUSTERS[0]
        named = {
            bench.classifier: bench.runs(of, rush(bench.classifier), bench.seeds, cluster=cluster),
            "nowcast": bench.runs(of, NOWCAST, bench.seeds, cluster=cluster),
            "oracle": bench.runs(of, ORACLE, bench.seeds, cluster=cluster),
        }
        found[f"{times:g}"] = beside_easy(bench, of, named, bench.runs(of, EASY, bench.seeds, cluster=cluster), cluster)
    return found


def month(bench: Bench, cutoff: float, days: float) -> pd.DataFrame:
    """Simulate continuous load under EASY, the model and the oracle.

    A row each, with seconds of simulation, one after the other.
    """
    cluster, of = machine(CLUSTERS[0]), EXPERIMENTS["ADAA"]

    def one(load: float, scheduler: str) -> pd.DataFrame:
        known = bench.known(CLUSTERS[0], of)
        limits = {(str(kind[0]), int(kind[1])): float(limit) for kind, limit in zip(known.index, known["limit_s"], strict=True)}
        advisers = {CHOSEN: bench.adviser(CLUSTERS[0], ALL_APPLICATIONS, cutoff)} if CHOSEN in scheduler else {}
        jobs = continuous(days, _MONTH_SEED, procs=cluster.procs, load=load)
        begun = time.perf_counter()
        made = simulate_on(cluster, jobs, scheduler=scheduler, seed=_MONTH_SEED, advisers=advisers, limits=limits)
        seconds = time.perf_counter() - begun
        runs = judged(made.runs, known)
        end = float((runs["start_s"] + runs["runtime_s"]).max() - runs["submit_s"].min())
        worked = float((runs["runtime_s"] * runs["nodes"]).sum())
        kind = pd.MultiIndex.from_frame(runs[["application", "nodes"]])
        relative = runs["runtime_s"].to_numpy() / known["mean_s"].reindex(kind).to_numpy()
        row = {
            "load": load,
            "scheduler": scheduler,
            "jobs": len(runs),
            "varied": int(runs["varied"].sum()),
            "wait_s": float(runs["wait_s"].mean()),
            "runtime": float(relative.mean()),
            "worst": float(np.quantile(relative, 0.99)),
            "utilization": worked / (cluster.procs * end),
            "asked": made.asked,
            "skipped": made.skipped,
            "seconds": seconds,
        }
        return pd.DataFrame([row])

    parts = []
    for load in LOADS:
        for scheduler in (EASY, rush(CHOSEN), ORACLE):
            identity = (
                cluster,
                load,
                scheduler,
                days,
                bench.days,
                *((bench.classifier, bench.scope, cutoff) if CHOSEN in scheduler else ()),
            )
            what = f"{days:g} days of load {load:g}, {scheduler}"
            parts.append(bench.kept(what, identity, lambda load=load, scheduler=scheduler: one(load, scheduler)))  # type: ignore[misc]
    return pd.concat(parts, ignore_index=True)


def timed(bench: Bench, cutoff: float) -> pd.DataFrame:
    """Seconds that one trial of ADAA takes, medians of a few."""

    def make() -> pd.DataFrame:
        cluster, of = machine(CLUSTERS[0]), EXPERIMENTS["ADAA"]
        jobs = trial(of, _MEASURE_FROM)
        adviser = {CHOSEN: bench.adviser(CLUSTERS[0], of.trained_on, cutoff)}
        asked = {
            "EASY, no counters": {},
            "EASY, all 90 counters of 512 nodes, features of every job": {"features": np.ones(len(jobs), bool)},
            "RUSH, the counters its model looks at": {"scheduler": rush(CHOSEN), "advisers": adviser},
        }
        rows = []
        for what, given in asked.items():
            seconds = []
            for _ in range(_TIMED + 1):
                begun = time.perf_counter()
                simulate_on(cluster, jobs, seed=_MEASURE_FROM, **given)  # type: ignore[arg-type]
                seconds.append(time.perf_counter() - begun)
            rows.append({"what": what, "seconds": statistics.median(seconds[1:])})  # the first loads compiled code
        return pd.DataFrame(rows)

    return bench.kept("time of a trial", (bench.classifier, bench.scope, cutoff, bench.days), make)


def main(argv: Sequence[str] | None = None) -> None:
    from benchmarks.papers.rush_page import draw, parts, write

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=100, help=f"of each experiment; the first {PUBLISHED_TRIALS} are shown apart")
    parser.add_argument("--chosen-on", type=int, default=40, help="trials that the cutoff is chosen on")
    parser.add_argument("--days", type=float, default=30.0, help="of continuous load that control runs are of")
    parser.add_argument("--month", type=float, default=30.0, help="days of continuous load under each scheduler")
    parser.add_argument("--classifier", choices=CLASSIFIERS, default="lightgbm")
    parser.add_argument("--scope", choices=["own", "all"], default="own")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=HOUSE / ".queuecast" / "rush", help="where results are kept")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/studies/rush.md, and its pictures")
    options = parser.parse_args(argv)
    if min(options.trials, options.chosen_on) < PUBLISHED_TRIALS:
        raise InputError(f"at least {PUBLISHED_TRIALS} trials")
    bench = Bench(options.keep, options.classifier, options.scope, options.trials, options.chosen_on, options.days, options.threads)
    chosen_on = ladder(bench, bench.other_seeds)
    cutoff = choice(chosen_on)
    made = {of.name: conducted(bench, of, cutoff) for of in EXPERIMENTS.values()}
    stormy = conducted(bench, EXPERIMENTS["ADAA"], cutoff, CLUSTERS[1])
    tables = parts(
        bench,
        cutoff,
        made,
        stormy,
        chosen_on=chosen_on,
        measured=ladder(bench, bench.seeds),
        thresholds=thresholds(bench, cutoff),
        oracles=oracles(bench),
        lasting=lasting(bench),
        month=month(bench, cutoff, options.month),
        timed=timed(bench, cutoff),
    )
    tables["settings"] += "\n\n" + made_by("papers.rush", argv)
    if not options.write:
        print("\n\n".join(tables.values()))
        return
    write(tables)
    draw(list(made.values()), STUDIES)


if __name__ == "__main__":
    main()
