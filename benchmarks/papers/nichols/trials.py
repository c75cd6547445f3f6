"""Trials of RUSH (Nichols et al.) on simulated clusters, kept under a digest of code and settings.

A setting is a scheduler with a placement and the model that it asks; models are learned only where something is missing. Control
runs are of best fit, and of first fit where the model is asked under that: other placements are asked the model of best fit.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.pages import kept
from benchmarks.papers.nichols.experiments import CONTROL_RUNS, EXPERIMENTS, Experiment, learn, machine
from benchmarks.papers.nichols.workloads import trial
from features.clock import DAY_S
from features.monitoring.samplers import DELAY_FEATURES
from sim.cluster.experiments import VARIES, control_runs, judged, trials, usual
from sim.cluster.simulate import Adviser, ClusterRun, Observed, StartAdvice, simulate_on
from sim.cluster.users import ALL_APPLICATIONS, continuous
from sim.policy import Policy
from sim.schedulers.names import UNTRAINED
from sim.schedulers.names import scheduler as named_scheduler

_LEARN_SEED, _USUAL_SEED, MEASURE_FROM, CHOOSE_FROM, _MONTH_SEED = 11, 12, 200_000, 50_000, 91_000
"""Control runs of seeds 1 and 2 and trials from 100 on were looked at while features were found: nothing is judged on them."""
_TIMED = 5
_KEPT = ("scheduler", "seed", "application", "nodes", "submit_s", "start_s", "wait_s", "runtime_s", "work_s", "skips", "varied")
_KEPT += ("asked", "skipped", "storm_s", "relative")
"""Columns of runs that are kept."""


@dataclass(frozen=True)
class Learner:
    """A classifier and what it learned from: ``each`` control runs of every application of ``days`` days."""

    classifier: str = "lightgbm"
    scope: str = "own"
    days: float = 20.0
    each: int | None = CONTROL_RUNS
    columns: tuple[str, ...] | None = None


LEARNERS = {"shipped": Learner(), "model": Learner("ordinal", "all", days=30.0, each=4000, columns=DELAY_FEATURES)}
"""By the name that schedulers ask."""


@dataclass(frozen=True)
class Setting:
    """A scheduler, ``NAME`` or ``NAME@PLACEMENT``, and what its model is told.

    ``cutoff`` is that of a learned model (None: of highest F1), ``beyond`` the z beyond which oracle and nowcast call a run varied, ``coin``
    the probability with which a coin skips.
    """

    scheduler: str
    cutoff: float | None = None
    beyond: float = VARIES
    coin: float = 0.0

    @property
    def learner(self) -> str:
        """Return the learned model that is asked; "" for none."""
        rush = named_scheduler(self.name).rush
        return "" if rush is None or rush.model in UNTRAINED else rush.model

    @property
    def name(self) -> str:
        """Return the scheduler without its placement."""
        return self.scheduler.partition("@")[0]

    @property
    def placement(self) -> str:
        """Return the placement; "" for best fit."""
        return self.scheduler.partition("@")[2]

    @property
    def identity(self) -> tuple[object, ...]:
        """Return what results depend on."""
        return self.scheduler, (LEARNERS[self.learner], self.cutoff) if self.learner else (self.beyond, self.coin)


@dataclass
class Bench:
    """Where results are kept, and how many trials there are."""

    folder: Path
    trials: int = 400
    chosen_on: int = 200
    days: float = 30.0
    threads: int = 2
    quiet: bool = False
    _control: dict[tuple[object, ...], ClusterRun] = field(default_factory=dict)
    _models: dict[tuple[object, ...], Adviser] = field(default_factory=dict)

    @property
    def seeds(self) -> range:
        return range(MEASURE_FROM, MEASURE_FROM + self.trials)

    @property
    def other_seeds(self) -> range:
        return range(CHOOSE_FROM, CHOOSE_FROM + self.chosen_on)

    def say(self, text: str) -> None:
        if not self.quiet:
            print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    def kept(self, what: str, identity: Sequence[object], make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """Return a table, from the folder if the same code made it for ``identity`` before.

        Else it is made and put there.
        """

        def announced() -> pd.DataFrame:
            self.say(what)
            return make()

        return kept(self.folder, "papers.nichols.trials", (what, *identity), announced)

    def control(self, cluster: str, placement: str, learner: Learner) -> ClusterRun:
        """Return control runs to learn from; the last ones are kept in memory."""
        key = cluster, placement, learner.days, learner.each
        if key not in self._control:
            self._control.clear()
            self.say(f"{cluster}{f', {placement}' if placement else ''}: control runs of {learner.days:g} days")
            run = control_runs(machine(cluster, placement), days=learner.days, seed=_LEARN_SEED, per_application=learner.each)
            self._control[key] = run
        return self._control[key]

    def adviser(self, cluster: str, placement: str, setting: Setting, trained_on: tuple[str, ...]) -> Adviser:
        """Return the model that a setting asks, learned from control runs of ``trained_on``, with its cutoff."""
        learner = LEARNERS[setting.learner]
        key = cluster, placement, learner, trained_on
        if key not in self._models:
            run = self.control(cluster, placement, learner)
            self.say(f"{cluster}: {setting.learner} learns from {', '.join(trained_on)}")
            self._models[key] = learn(
                run,
                classifier=learner.classifier,
                scope=learner.scope,
                applications=trained_on,
                columns=learner.columns,
                seed=_LEARN_SEED,
            )
        adviser = self._models[key]
        return adviser if setting.cutoff is None else replace(adviser, model=adviser.model.with_cutoff(setting.cutoff))

    def usual_for(self, cluster: str, of: Experiment) -> pd.DataFrame:
        """Return what is usual for an experiment's jobs, under EASY with the placement that is the default."""
        identity = machine(cluster), of.nodes, of.scaling, self.days
        make = lambda: usual(machine(cluster), of.nodes, days=self.days, seed=_USUAL_SEED, scaling=of.scaling)  # noqa: E731
        return self.kept(f"{cluster}, {of.name}: what is usual", identity, make)

    def advisers(self, cluster: str, setting: Setting, trained_on: tuple[str, ...]) -> dict[str, Adviser]:
        """Return the model that a setting asks by its name; empty without one."""
        if not setting.learner:
            return {}
        placement = setting.placement if setting.placement == "first-fit" else ""
        return {setting.learner: self.adviser(cluster, placement, setting, trained_on)}

    def runs(self, of: Experiment, setting: Setting, seeds: range, cluster: str) -> pd.DataFrame:
        """Run trials under one setting; a row a run, as of :func:`sim.cluster.experiments.trials`."""

        def make() -> pd.DataFrame:
            usual_times = self.usual_for(cluster, of)
            limited = usual_times.assign(limit_s=usual_times["mean_s"] + setting.beyond * usual_times["sigma_s"])
            advisers = self.advisers(cluster, setting, of.trained_on)
            given = {
                "usual_times": limited,
                "scaling": of.scaling,
                "advisers": advisers,
                "coin": setting.coin,
                "threads": self.threads,
            }
            submitted = {seed: trial(of, seed) for seed in seeds}
            return trials(machine(cluster, setting.placement), submitted, [Policy(setting.name)], **given)[list(_KEPT)]  # type: ignore[arg-type]

        identity = machine(cluster), of, setting.identity, seeds, self.days
        return self.kept(f"{cluster}, {of.name}: {len(seeds)} trials, {setting.scheduler}", identity, make)

    def month(self, load: float, setting: Setting, days: float, cluster: str) -> pd.DataFrame:
        """Simulate continuous load under one setting; a row a day of submission, with sums over its jobs.

        ``asked skipped seconds worst utilization`` are of the whole month.
        """

        def make() -> pd.DataFrame:
            usual_times = self.usual_for(cluster, EXPERIMENTS["ADAA"])
            limits = {
                (str(kind[0]), int(kind[1])): float(limit)
                for kind, limit in zip(usual_times.index, usual_times["limit_s"], strict=True)
            }
            on = machine(cluster, setting.placement)
            jobs = continuous(days, _MONTH_SEED, procs=on.procs, load=load)
            advisers = self.advisers(cluster, setting, ALL_APPLICATIONS)
            begun = time.perf_counter()
            run = simulate_on(on, jobs, Policy(setting.name, seed=_MONTH_SEED), advice=StartAdvice(advisers, limits))
            seconds = time.perf_counter() - begun
            return by_day(run, usual_times, on.procs).assign(load=load, seconds=seconds)

        identity = machine(cluster), load, setting.identity, days, self.days
        return self.kept(f"{cluster}: {days:g} days of load {load:g}, {setting.scheduler}", identity, make)

    def timed(self, cluster: str, asked: Mapping[str, Setting | None]) -> pd.DataFrame:
        """Return seconds that one trial of ADAA takes, medians of a few; None is EASY with all counters and features."""

        def make() -> pd.DataFrame:
            of, rows = EXPERIMENTS["ADAA"], []
            jobs, usual_times = trial(of, MEASURE_FROM), self.usual_for(cluster, of)
            limits = {
                (str(kind[0]), int(kind[1])): float(limit)
                for kind, limit in zip(usual_times.index, usual_times["limit_s"], strict=True)
            }
            for what, setting in asked.items():
                observed = Observed(np.ones(len(jobs), bool) if setting is None else None)
                advisers = {} if setting is None else self.advisers(cluster, setting, of.trained_on)
                scheduler = "EASY" if setting is None else setting.scheduler
                seconds = []
                for _ in range(_TIMED + 1):
                    begun = time.perf_counter()
                    simulate_on(
                        machine(cluster),
                        jobs,
                        Policy(scheduler, seed=MEASURE_FROM),
                        observed=observed,
                        advice=StartAdvice(advisers, limits),
                    )
                    seconds.append(time.perf_counter() - begun)
                rows.append({"what": what, "seconds": statistics.median(seconds[1:])})  # the first loads compiled code
            return pd.DataFrame(rows)

        return self.kept("time of a trial", [each and each.identity for each in asked.values()], make)


def by_day(run: ClusterRun, usual_times: pd.DataFrame, procs: int) -> pd.DataFrame:
    """Return sums over the jobs of each day of submission, and figures of the whole."""
    runs = judged(run.runs, usual_times)
    days = runs.assign(day=runs["submit_s"] // DAY_S, jobs=1, runtime=runs["relative"]).groupby("day")
    end = float((runs["start_s"] + runs["runtime_s"]).max() - runs["submit_s"].min())
    worked = float((runs["runtime_s"] * runs["nodes"]).sum())
    whole = {"asked": run.asked, "skipped": run.skipped, "worst": float(np.quantile(runs["relative"], 0.99))}
    return days[["jobs", "varied", "wait_s", "runtime"]].sum().reset_index().assign(**whole, utilization=worked / (procs * end))
