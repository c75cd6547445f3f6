"""The experiments of Nichols et al. (RUSH): control runs train a model, trials ask it.

Everything is simulated. What is compared, and how, is in :mod:`sim.cluster.comparison`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from features.errors import InputError
from models.variability.classifiers import CLASSIFIERS, ORDINAL
from sim.cluster.advisers import Adviser
from sim.cluster.comparison import asking_rate, by_trial, compared, described, stratified
from sim.cluster.experiments import chosen_runs, control_runs, learn, trials, usual
from sim.cluster.presets import Cluster
from sim.cluster.simulate import ClusterRun
from sim.cluster.workloads import ALL_APPLICATIONS, Experiment
from sim.names import ANY_SKIPS, UNTRAINED
from sim.names import scheduler as named_scheduler

BASELINE = "EASY"
CONTROL_RUNS, DELAY_RUNS = 500, 4000
"""Control runs of each application to learn from: two to three a day from August to February, and for the classifier of delays more."""
TRIALS = 5
REGISTERED, ORACLE, NOWCAST, COIN = "registered", "oracle", "nowcast", "coin"
UNLEARNED = UNTRAINED
WAYS = {"varied": "by control runs", "varied_pooled": "by the baseline's runs"}
"""Both ways of counting a run as varied."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """What to run: ``trials`` trials of each of ``experiments`` under each of ``schedulers``.

    The first scheduler is the baseline; ``NAME@PLACEMENT`` is one with another placement than the cluster's.
    Models learned from ``days`` days on ``cluster`` over the counters of ``scope`` nodes, "" for each classifier's default.
    All random numbers follow from ``seed``.
    """

    cluster: Cluster
    experiments: tuple[Experiment, ...]
    schedulers: tuple[str, ...]
    trials: int = TRIALS
    days: float = 30.0
    scope: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.trials < 1 or self.days <= 0:
            raise InputError("at least one trial, and more than no days")
        if named_scheduler(split(self.schedulers[0])[0]).rush is not None:
            raise InputError(f"the first scheduler is the baseline and takes no start decisions, unlike {self.schedulers[0]}")
        if len(set(self.schedulers)) < len(self.schedulers):
            raise InputError("a scheduler is named twice")
        for name in self.schedulers[1:]:
            self.cluster.but(placement=split(name)[1] or self.cluster.placement)
            rush = named_scheduler(split(name)[0]).rush
            if rush is not None and rush.model not in (REGISTERED, *UNLEARNED, *CLASSIFIERS):
                raise InputError(f"scheduler {name!r}; known models: {', '.join((*CLASSIFIERS, *UNLEARNED, REGISTERED))}")
        if COIN in map(asked_of, self.schedulers) and not self.models:
            raise InputError("the coin skips as often as a model does: name a scheduler with a model, too")

    @property
    def models(self) -> tuple[str, ...]:
        """Return the trained models that schedulers ask."""
        named = dict.fromkeys(asked_of(name) for name in self.schedulers)
        return tuple(name for name in named if name not in ("", *UNLEARNED))

    @property
    def learning_seed(self) -> int:
        """Return the seed of the control runs for training; those of the baselines have the next."""
        return 10_000 * self.seed + 1

    @property
    def trial_seeds(self) -> range:
        first = 10_000 * self.seed + 100
        return range(first, first + self.trials)


@dataclass(frozen=True)
class Conducted:
    """The results of one experiment.

    ``runs``: a row a run, as of :func:`sim.cluster.experiments.trials`, with ``varied_pooled`` and ``relative`` (runtime over the
    mean of control runs of its kind). ``coin`` is the probability with which the coin skipped, NaN without one.
    """

    experiment: Experiment
    schedulers: tuple[str, ...]
    runs: pd.DataFrame
    known: pd.DataFrame
    coin: float = float("nan")
    notes: tuple[str, ...] = field(default=())

    @property
    def baseline(self) -> str:
        return self.schedulers[0]

    @property
    def trials(self) -> int:
        return int(self.runs["seed"].nunique())

    @cached_property
    def values(self) -> pd.DataFrame:
        """Return :func:`by_trial` of it."""
        return by_trial(self.runs)

    @cached_property
    def found(self) -> pd.DataFrame:
        """Return :func:`compared` of it."""
        return compared(self.values, self.baseline)

    @cached_property
    def strata(self) -> pd.DataFrame:
        """Return :func:`stratified` of it: ``found``, and trials without and with a storm."""
        return stratified(self.runs, self.baseline)


def split(scheduler: str) -> tuple[str, str]:
    """Return name and placement of ``NAME[@PLACEMENT]``; "" for the cluster's placement."""
    name, _, placement = scheduler.partition("@")
    return name, placement


def asked_of(scheduler: str) -> str:
    """Return the model that a scheduler asks; "" without start decisions."""
    rush = named_scheduler(split(scheduler)[0]).rush
    return "" if rush is None else rush.model


def counts_harm(scheduler: str) -> bool:
    """Tell whether a scheduler also holds starts that make running jobs vary."""
    rush = named_scheduler(split(scheduler)[0]).rush
    return rush is not None and rush.harm


def label(scheduler: str) -> str:
    """Return a scheduler's short name."""
    scheduler, placement = split(scheduler)
    plan, where = named_scheduler(scheduler), [placement.replace("-", " ")] * bool(placement)
    if plan.rush is None:
        return ", ".join([scheduler, *where])
    model = plan.rush.model if plan.rush.model in (ORACLE, COIN) else f"RUSH {plan.rush.model}"
    order = "" if plan.name == BASELINE or scheduler.upper().startswith("EASY+") else f"{scheduler.split('+')[0]} "
    return ", ".join(
        [
            f"{order}{model}",
            *["harm"] * plan.rush.harm,
            *([] if plan.rush.cutoff is None else [f"from {plan.rush.cutoff:g}"]),
            *[f"{plan.rush.patience:,} s"] * (plan.rush.patience > 0),
            *[f"{plan.rush.skips} skips"] * (plan.rush.skips not in (10, ANY_SKIPS)),
            *["little too"] * (plan.rush.classes != "variation"),
            *where,
        ]
    )


def conduct(
    plan: Plan,
    *,
    control: ClusterRun | None = None,
    registered: Adviser | None = None,
    threads: int = 2,
    progress: Progress | None = None,
) -> list[Conducted]:
    """Run all experiments of ``plan``.

    ``control`` are control runs with features to learn from, simulated if not given; ``registered`` is the model of that name.
    ``progress`` receives the current step's name, steps done and in all.
    """
    say = progress or (lambda what, done, total: None)
    to_learn = [name for name in plan.models if name != REGISTERED]
    if REGISTERED in plan.models and registered is None:
        raise InputError(f"a scheduler asks the model {REGISTERED}, and none is given")
    if to_learn and control is None:
        say("control runs to learn from", 0, 1)
        each = DELAY_RUNS if ORDINAL in to_learn else CONTROL_RUNS
        control = control_runs(plan.cluster, days=plan.days, seed=plan.learning_seed, each=each)
        say("control runs to learn from", 1, 1)
    learned: dict[tuple[str, tuple[str, ...]], Adviser] = {}
    done = []
    for of in plan.experiments:
        advisers: dict[str, Adviser] = {REGISTERED: registered} if registered else {}
        notes: list[str] = []
        for name in to_learn:
            if (name, of.trained_on) not in learned:
                say(f"{of.name}: learning, {name}", 0, 1)
                assert control is not None
                scope = plan.scope or ("all" if name == ORDINAL else "own")
                runs = control if name == ORDINAL else some_of(control, CONTROL_RUNS, plan.learning_seed)
                given = {"scope": scope, "applications": of.trained_on, "seed": plan.learning_seed}
                learned[name, of.trained_on] = learn(runs, classifier=name, **given)  # type: ignore[arg-type]
            advisers[name] = learned[name, of.trained_on]
        if registered is not None and of.trained_on != ALL_APPLICATIONS:
            notes.append(f"{of.name}: the registered model may have learned from the applications it is not to know here")
        say(f"{of.name}: what is usual", 0, 1)
        known = usual(plan.cluster, of, days=plan.days, seed=plan.learning_seed + 1)
        made = held(
            plan.cluster, of, plan.schedulers, plan.trial_seeds, known=known, advisers=advisers, threads=threads, progress=say
        )
        done.append(replace(made, notes=tuple(notes)))
    return done


def some_of(control: ClusterRun, each: int, seed: int) -> ClusterRun:
    """Return ``each`` control runs of every application at random, or all of them."""
    chosen = chosen_runs(control.runs["application"].to_numpy(), each, np.random.default_rng([seed, 4]))
    parts = {part: getattr(control, part)[chosen].reset_index(drop=True) for part in ("runs", "own", "all", "situation")}
    return replace(control, **parts)


def held(
    cluster: Cluster,
    of: Experiment,
    schedulers: Sequence[str],
    seeds: Sequence[int],
    *,
    known: pd.DataFrame,
    advisers: Mapping[str, Adviser],
    threads: int = 2,
    progress: Progress | None = None,
) -> Conducted:
    """Run the trials ``seeds`` of one experiment under ``schedulers``.

    The first scheduler is the baseline; a coin's trials come last, as it skips as often as the first scheduler with a model.
    ``known`` comes from :func:`sim.cluster.experiments.usual`.
    """
    first = [name for name in schedulers if asked_of(name) != COIN]
    coins = [name for name in schedulers if asked_of(name) == COIN]

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(f"{of.name}: trials", done, total)

    runs = trials(cluster, of, first, seeds, known=known, advisers=advisers, threads=threads, progress=report)
    coin = float("nan")
    if coins:
        coin = asking_rate(runs, next(name for name in first if asked_of(name) not in ("", *UNLEARNED)))
        tossed = trials(cluster, of, coins, seeds, known=known, coin=coin, threads=threads, progress=report)
        runs = pd.concat([runs, tossed], ignore_index=True)
    return Conducted(of, tuple(schedulers), described(runs, known, schedulers[0]), known, coin)
