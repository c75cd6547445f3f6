"""The experiments of Nichols et al. (RUSH): control runs train a model, trials ask it.

Everything is simulated. Trials are paired by their seed, which decides the submissions, the background and each run's own noise;
so differences within trials are compared, with intervals from a bootstrap over trials (:mod:`features.statistics`). A run counts
as varied in two ways: by what is usual for control runs on the same cluster, and by mean and sigma of the baseline's runs of the
same experiment, pooled over its trials. The paper must have counted in the second way: 1.5 to 3.5 of the 27 runs an application
beyond 1.5 sigma, with maxima a few per cent apart, are impossible with a sigma like figure 1's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from features.errors import InputError
from features.monitoring.labels import baselines
from features.statistics import FEWEST_BLOCKS, drawn, remark, tail
from models.variability.classifiers import CLASSIFIERS
from sim.cluster.advisers import Adviser
from sim.cluster.experiments import control_runs, judged, learn, trials, usual
from sim.cluster.presets import Cluster
from sim.cluster.simulate import ClusterRun
from sim.cluster.workloads import ALL_APPLICATIONS, Experiment
from sim.names import ANY_SKIPS, UNTRAINED
from sim.names import scheduler as named_scheduler

BASELINE = "EASY"
CONTROL_RUNS, DELAY_RUNS = 500, 4000
"""Control runs of each application to learn from: two to three a day from August to February, and for :data:`DELAYED` more."""
DELAYED = "ordinal"
"""The classifier of delays: it learns from more runs, and reads counters of all nodes by default."""
TRIALS = 5
REGISTERED, ORACLE, NOWCAST, COIN = "registered", "oracle", "nowcast", "coin"
UNLEARNED = UNTRAINED
ALL = "all"
WAYS = {"varied": "by control runs", "varied_pooled": "by the baseline's runs"}
"""Both ways of counting a run as varied."""
STRATA = (ALL, "without storm", "with storm")
"""Trials that are compared together: all, and those without and with a storm on the file system in the baseline's run."""
_RESAMPLES = 2000
_CONFIDENCE = 0.95

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
        each = DELAY_RUNS if DELAYED in to_learn else CONTROL_RUNS
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
                scope = plan.scope or ("all" if name == DELAYED else "own")
                runs = control if name == DELAYED else some_of(control, CONTROL_RUNS, plan.learning_seed)
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
    names = control.runs["application"]
    order = np.random.default_rng([seed, 4]).permutation(len(names))
    chosen = np.sort(order[names.iloc[order].groupby(names.iloc[order]).cumcount().to_numpy() < each])
    parts = {part: getattr(control, part).iloc[chosen].reset_index(drop=True) for part in ("runs", "own", "all", "situation")}
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


def asking_rate(runs: pd.DataFrame, scheduler: str) -> float:
    """Return skipped over asked, of all trials under ``scheduler``; 0 without decisions."""
    of_trial = runs[runs["scheduler"] == scheduler].drop_duplicates("seed")
    asked = int(of_trial["asked"].sum())
    return int(of_trial["skipped"].sum()) / asked if asked else 0.0


def described(runs: pd.DataFrame, known: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return ``runs`` with ``varied_pooled`` and ``relative``.

    The former is by mean and sigma of the baseline's runs of their kind in all trials.
    """
    of_baseline = runs[runs["scheduler"] == baseline]
    tables = []
    for nodes, rows in of_baseline.groupby("nodes"):
        table = baselines(rows["application"], rows["runtime_s"])
        tables.append(table.set_index(pd.Index([nodes] * len(table), name="nodes"), append=True))
    pooled = judged(runs[["application", "nodes", "runtime_s"]], pd.concat(tables))
    kind = pd.MultiIndex.from_frame(runs[["application", "nodes"]])
    relative = runs["runtime_s"].to_numpy() / known["mean_s"].reindex(kind).to_numpy()
    return runs.assign(z_pooled=pooled["z"], varied_pooled=pooled["varied"], relative=relative)


def by_trial(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the metrics :data:`sim.metrics.names.TRIAL`, float64, a row a trial.

    Index ``seed``, columns (``scheduler``, ``application`` or ``all``, metric).
    """
    parts = []
    for application, rows in [(ALL, runs), *runs.groupby("application", sort=True)]:
        groups = rows.groupby(["scheduler", "seed"], sort=False)
        later = rows[rows["submit_s"] > 0].groupby(["scheduler", "seed"], sort=False)
        table = pd.DataFrame(
            {
                "varied": groups["varied"].sum(),
                "varied_pooled": groups["varied_pooled"].sum(),
                "wait_s": groups["wait_s"].mean(),
                "wait_later_s": later["wait_s"].mean(),
                "runtime": groups["relative"].mean(),
                "worst": groups["relative"].max(),
            },
            dtype=np.float64,
        )
        if application == ALL:
            end = (rows["start_s"] + rows["runtime_s"]).groupby([rows["scheduler"], rows["seed"]], sort=False)
            table["makespan_s"] = end.max() - groups["submit_s"].min()
        wide = {
            (scheduler, application, metric): table.loc[scheduler, metric]
            for metric in table.columns
            for scheduler in table.index.unique("scheduler")
        }
        parts.append(pd.DataFrame(wide).rename_axis(columns=["scheduler", "application", "metric"]))
    return pd.concat(parts, axis=1).sort_index()


def stratified(runs: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return :func:`compared` of all trials, and of those without and with a storm.

    ``runs`` come from :func:`described`. A trial has a storm if there is one on the file system while the baseline's jobs are there.
    """
    values = by_trial(runs)
    storm = runs[runs["scheduler"] == baseline].groupby("seed")["storm_s"].first().reindex(values.index).to_numpy() > 0
    strata = zip(STRATA, (np.ones(len(values), bool), ~storm, storm), strict=True)
    return pd.concat([compared(values[rows], baseline, stratum=name) for name, rows in strata if rows.any()], ignore_index=True)


def compared(values: pd.DataFrame, baseline: str, seed: int = 0, stratum: str = ALL) -> pd.DataFrame:
    """Return means over trials and paired differences from the ``baseline``'s.

    ``values`` come from :func:`by_trial`. Columns: ``scheduler application metric mean baseline difference low high relative
    relative_low relative_high trials note stratum mean_error error relative_error``; ends of 95 % intervals and standard errors (of
    the mean, of the difference and of ``relative``) from a bootstrap over trials, NaN with fewer than five, ``relative`` NaN where
    the baseline's mean is 0.
    """
    columns: list[Any] = list(values.columns)
    count = len(values)
    own = values.to_numpy()
    base = values[[(baseline, application, metric) for _, application, metric in columns]].to_numpy()
    mean, reference = own.mean(axis=0), base.mean(axis=0)
    found = pd.DataFrame(columns, columns=["scheduler", "application", "metric"])
    found = found.assign(mean=mean, baseline=reference, difference=mean - reference)
    draws, cut, wide = np.full((1, count), np.nan), 0.0, 1.0
    if count >= FEWEST_BLOCKS:
        draws, cut = drawn(count, _RESAMPLES, seed), tail(_CONFIDENCE, count)
        wide = (count / (count - 1)) ** 0.5  # resamples spread as the sample does, trials a little more
    means, references, differences = (draws @ each / count for each in (own, base, own - base))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(reference == 0, np.nan, mean / reference - 1.0)
        ratios = np.where((references == 0).any(axis=0), np.nan, differences / references)
    ends = [np.quantile(each, [cut, 1.0 - cut], axis=0) for each in (differences, ratios)]
    errors = [wide * each.std(axis=0) for each in (means, differences, ratios)]
    return found.assign(
        low=ends[0][0],
        high=ends[0][1],
        relative=relative,
        relative_low=ends[1][0],
        relative_high=ends[1][1],
        trials=count,
        note=remark(count, "trial"),
        stratum=stratum,
        mean_error=errors[0],
        error=errors[1],
        relative_error=errors[2],
    )


def maxima(runs: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return the largest runtime of all trials by application and nodes, a row a scheduler.

    ``max_s`` and ``improvement``, the share by which it is below the baseline's.
    """
    largest = runs.groupby(["scheduler", "application", "nodes"], sort=False)["runtime_s"].max().rename("max_s").reset_index()
    of_baseline = largest[largest["scheduler"] == baseline].set_index(["application", "nodes"])["max_s"]
    reference = of_baseline.reindex(pd.MultiIndex.from_frame(largest[["application", "nodes"]])).to_numpy()
    return largest.assign(improvement=1.0 - largest["max_s"].to_numpy() / reference)


def decisions(runs: pd.DataFrame, schedulers: Sequence[str]) -> pd.DataFrame:
    """Return how often starts were asked about and skipped, means over trials, by scheduler.

    Columns ``asked skipped share most_skips jobs_skipped``, the last two the most skips of a job in any trial and the jobs
    skipped at all, a trial.
    """
    rows = []
    for scheduler in schedulers:
        of_scheduler = runs[runs["scheduler"] == scheduler]
        of_trial = of_scheduler.drop_duplicates("seed")
        rows.append(
            {
                "scheduler": scheduler,
                "asked": of_trial["asked"].mean(),
                "skipped": of_trial["skipped"].mean(),
                "share": asking_rate(runs, scheduler),
                "most_skips": int(of_scheduler["skips"].max()),
                "jobs_skipped": float((of_scheduler["skips"] > 0).sum() / len(of_trial)),
            }
        )
    return pd.DataFrame(rows)
