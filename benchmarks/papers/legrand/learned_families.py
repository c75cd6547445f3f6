"""Learn a queue order on training weeks: families of scores, objectives, an honest split.

A family is a formula whose parameters start at a known policy (SAF, or Smith's index where the runtimes' weights are predicted); CMA-ES
moves them. Every training week is simulated at several offsets of days and with shaken submissions, as one schedule is one draw
of many (:mod:`features.jobs.shaking`) and a search would learn the accidents of one. A penalty on the distance from the start
shrinks towards it. Testing weeks never enter: :func:`copies` is given the range of weeks and cuts all others off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import cmaes
import numpy as np
import pandas as pd

from features.clock import DAY_S, WEEK_S, Clock
from features.errors import InputError
from features.jobs.shaking import moves, shaken
from sim.campaigns.maps import Map, threads
from sim.campaigns.sweep import PreparedSweep
from sim.policy import Policy
from sim.schedulers.scores import Score, score

TAUS_S = (10.0, 60.0)
STARVATION_S = 200_000


@dataclass(frozen=True)
class Family:
    """A formula with its parameters at the start, and the step by which each is first moved.

    ``predicted``: ``r`` is a prediction and orders alone, while jobs are planned by their requests.
    """

    text: str
    steps: tuple[float, ...]
    predicted: bool = False

    @property
    def start(self) -> Score:
        return score(self.text)

    def scheduler(self, chosen: Score) -> str:
        """Return the name of the scheduler with this score, shortest jobs backfilled first."""
        return f"SCORE({chosen})-{'EASY(plans=requested)' if self.predicted else 'EASY'}-SPF"


_WEIGHT = "log(requested)+a*log(n)+b*(2*log(r)-log(requested))"
FAMILIES: dict[str, Family] = {
    "powers": Family("log(requested)+a*log(n);a=1", (0.5,)),
    "fit": Family("log(requested)+a*log(n)+b*(n>free);a=1;b=0", (0.5, 0.5)),
    "large": Family(
        "log(requested)+a*log(n)+b*(n>=0.3*procs)*(requested>=7200)+c*(n>free);a=1;b=0;c=0",
        (0.3, 0.7, 0.5),
    ),
    "aging": Family("log(requested)+a*log(n)+b*log(wait+60)+c*log(1+wait/requested);a=1;b=0;c=0", (0.5, 0.1, 0.1)),
    "submission": Family("requested**a*n**b/1000+exp(c)*log(1+submit);a=1;b=1;c=-4", (0.3, 0.3, 2.0)),
    "shape": Family(
        "log(requested)+a*log(n)+b*(log(n)-2)**2+c*(log(requested)-8)**2+d*(log(requested)-8)*(log(n)-2)+(n>free)*(e+f*(log(requested)-8))"
        "+log(queue)*(g*(log(n)-2)+h*(log(requested)-8));a=1;b=0;c=0;d=0;e=0;f=0;g=0;h=0",
        (0.5, 0.1, 0.05, 0.1, 0.5, 0.2, 0.1, 0.1),
    ),
    "network": Family(
        "log(requested)+log(n)+u*tanh(a*(log(n)-2)+b*(log(requested)-8)+c*(n>free)+d*(log(queue)-2))"
        "+v*tanh(e*(log(n)-2)+f*(log(requested)-8)+g*(n>free)+h*(log(queue)-2))"
        ";u=0;a=0.3;b=0;c=0.5;d=0;v=0;e=0;f=0.3;g=0;h=0.5",
        (0.5, 0.3, 0.3, 0.3, 0.3, 0.5, 0.3, 0.3, 0.3, 0.3),
    ),
    "weight": Family(f"{_WEIGHT}+c*(n>free);a=1;b=1;c=0", (0.5, 0.5, 0.5), True),
    "weight, large": Family(f"{_WEIGHT}+c*(n>free)+d*(n>=0.3*procs)*(requested>=7200);a=1;b=1;c=0;d=0", (0.5, 0.5, 0.5, 0.7), True),
}
"""Families by name. ``r`` of the predicted ones is :func:`benchmarks.papers.legrand.learned_weights.index_s`, so that 2 log(r) - log(requested) is the
logarithm of 1 / weight, and the start is Smith's rule, requested n / weight."""


@dataclass(frozen=True)
class Copy:
    """A training week, or seven days at an offset of it, with shaken submissions.

    ``begin`` counts weeks from the trace's first submission; ``rows`` are the jobs' rows in the whole trace.
    """

    trace: str
    begin: float
    jobs: pd.DataFrame
    rows: np.ndarray


def copies(
    trace: str,
    jobs: pd.DataFrame,
    weeks: range,
    *,
    offsets: Sequence[int] = (0, 2, 4, 6),
    shake_s: int = 600,
    seed: int = 0,
) -> list[Copy]:
    """Return shaken windows of seven days inside ``weeks`` of a trace.

    At ``offsets`` of days from each week, each with its own draw of moves. Weeks count from the first submission. No job submitted
    outside of ``weeks`` is in any copy, and none whose recorded start and end lie in different windows, as in
    :func:`~sim.campaigns.windows.split_windows`.
    """
    submit = jobs["submit_s"].to_numpy(np.int64)
    start = submit + jobs["wait_s"].fillna(0).to_numpy(np.int64)
    end = start + jobs["runtime_s"].to_numpy(np.int64)
    windows = []
    for offset in offsets:
        for number in weeks:
            begin = submit[0] + number * WEEK_S + offset * DAY_S
            if begin + WEEK_S > submit[0] + weeks.stop * WEEK_S:
                continue
            inside = (submit >= begin) & (submit < begin + WEEK_S) & ((start - begin) // WEEK_S == (end - begin) // WEEK_S)
            rows = np.flatnonzero(inside)
            if len(rows):
                by_s = moves(len(rows), shake_s, seed + 1000 * offset + number)
                moved, order = shaken(jobs.iloc[rows].reset_index(drop=True), by_s)
                windows.append(Copy(trace, number + offset / 7, moved, rows[order]))
    return windows


@dataclass(frozen=True)
class Site:
    """A trace to learn on: its machine, and its weeks.

    ``index_s`` is the predicted index of each job of the whole trace, s.
    """

    name: str
    jobs: pd.DataFrame
    procs: int
    clock: Clock
    weeks: range
    index_s: np.ndarray | None = None


class Training:
    """All copies of the training weeks of some sites, ready to be simulated.

    Under the scores of one family. ``trials`` are policies measured so far, ``simulations`` windows simulated so far;
    ``map_pieces`` shares the copies, by default among a thread a core.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        family: Family,
        *,
        offsets: Sequence[int] = (0, 2, 4, 6),
        seed: int = 0,
        map_pieces: Map | None = None,
    ) -> None:
        self.family, self._map = family, map_pieces or threads()
        self.trials = self.simulations = 0
        self.copies: list[Copy] = []
        self._sweeps: list[PreparedSweep] = []
        baseline = []
        for site in sites:
            if family.predicted and site.index_s is None:
                raise InputError(f"{site.name} has no predicted index, and the family {family.text} needs one")
            for copy in copies(site.name, site.jobs, site.weeks, offsets=offsets, seed=seed):
                policy = Policy(family.scheduler(family.start), starvation_s=STARVATION_S)
                if family.predicted and site.index_s is not None:
                    policy = policy._replace(predictor=site.index_s[copy.rows])
                self.copies.append(copy)
                self._sweeps.append(_prepared(site, copy, policy))
                saf = _prepared(site, copy, Policy("SCORE(requested*n)-EASY-SPF", starvation_s=STARVATION_S))
                baseline.append(saf.measure(np.zeros((1, 0))).iloc[0])
        self.baseline = pd.DataFrame(baseline).reset_index(drop=True)
        self.trace = np.array([copy.trace for copy in self.copies])
        self.begin = np.array([copy.begin for copy in self.copies])

    def slowdowns(self, parameters: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return mean bounded slowdowns, float64 [policies, copies].

        Of policies [policies, parameters] on the ``chosen`` copies.
        """
        column = f"mean_bounded_slowdown_{TAUS_S[0]:g}"
        self.trials += len(parameters)
        self.simulations += len(parameters) * len(chosen)
        slowdowns = np.empty((len(parameters), len(chosen)))
        trials = [_Trial(place, int(number), parameters) for place, number in enumerate(chosen)]
        for place, values in self._map(partial(_measured, self._sweeps, column), trials):
            slowdowns[:, place] = values
        return slowdowns

    def objective(self, of: str, chosen: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function of parameters [policies, parameters] to minimise.

        0 for SAF; the mean over traces.
        """
        saf = self.baseline[f"mean_bounded_slowdown_{TAUS_S[0]:g}"].to_numpy(np.float64)[chosen]
        rows = [np.flatnonzero(self.trace[chosen] == trace) for trace in dict.fromkeys(self.trace[chosen])]

        def value(parameters: np.ndarray) -> np.ndarray:
            mine = self.slowdowns(parameters, chosen)
            each = [OBJECTIVES[of](mine[:, part], saf[part]) for part in rows]
            return np.asarray(np.mean(each, axis=0), np.float64)

        return value


class _Trial(NamedTuple):
    """Policies [policies, parameters] to measure on the copy ``number``, for the column ``place``."""

    place: int
    number: int
    parameters: np.ndarray


def _measured(sweeps: Sequence[PreparedSweep], column: str, trial: _Trial) -> tuple[int, np.ndarray]:
    return trial.place, sweeps[trial.number].measure(trial.parameters)[column].to_numpy()


def _prepared(site: Site, copy: Copy, policy: Policy) -> PreparedSweep:
    return PreparedSweep(copy.jobs, procs=site.procs, policy=policy, clock=site.clock, taus_s=TAUS_S)


def _sum(mine: np.ndarray, saf: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(mine.sum(axis=1) / saf.sum()), np.float64)


def _each_week(mine: np.ndarray, saf: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(mine / saf).mean(axis=1), np.float64)


def _median(mine: np.ndarray, saf: np.ndarray) -> np.ndarray:
    return np.asarray(np.median(np.log(mine / saf), axis=1), np.float64)


def _worst_quarter(mine: np.ndarray, saf: np.ndarray) -> np.ndarray:
    """The mean of the worst quarter of changes, each counted by its share of SAF's sum."""
    change = np.sort((mine - saf) / saf.mean(), axis=1)
    return np.asarray(change[:, -max(len(saf) // 4, 1) :].mean(axis=1) + 0.1 * change.mean(axis=1), np.float64)


OBJECTIVES: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "sum": _sum,
    "each week": _each_week,
    "median": _median,
    "worst quarter": _worst_quarter,
}
"""Objectives of slowdowns [policies, copies] and SAF's [copies]: the sum of weekly means (the paper's), or robust ones."""


@dataclass(frozen=True)
class Learned:
    """The parameters found, with the objective of SAF's distance at each generation.

    ``value`` is the objective without penalty in training.
    """

    score: Score
    value: float
    trials: int
    history: tuple[float, ...]


def learn(
    training: Training,
    chosen: np.ndarray | None = None,
    *,
    objective: str = "sum",
    budget: int = 120,
    shrink: float = 0.002,
    seed: int = 1,
) -> Learned:
    """Move a family's parameters by CMA-ES from its start; return its last mean.

    ``chosen`` are the copies to learn on, by default all; ``budget`` counts policies; ``shrink`` times the squared distance from
    the start, in steps, is the penalty. The mean, not the best policy seen: the best of many noisy ones is the luckiest.
    """
    family = training.family
    chosen = np.arange(len(training.copies)) if chosen is None else chosen
    value = training.objective(objective, chosen)
    start, steps = np.array(family.start.values), np.array(family.steps)
    before, history = training.trials, []
    if len(steps) == 1:
        grid = np.linspace(-3.0, 3.0, 25)[:, None]
        values = value(start + grid * steps) + shrink * (grid**2).sum(axis=1)
        point, history = grid[int(values.argmin())], [float(values.min())]
    else:
        search = cmaes.CMA(mean=np.zeros(len(steps)), sigma=1.0, seed=seed)
        while training.trials - before < budget:
            points = np.array([search.ask() for _ in range(search.population_size)])
            values = value(start + points * steps) + shrink * (points**2).sum(axis=1)
            search.tell(list(zip(points, values.tolist(), strict=True)))
            history.append(float(values.min()))
        point = np.asarray(search.mean)
    learned = family.start.with_values((start + point * steps).round(3).tolist())
    return Learned(learned, float(value(np.array([learned.values]))[0]), training.trials - before, tuple(history))


def folds(training: Training, sites: Sequence[Site], count: int = 4) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (learned on, left out) copies of each fold.

    Blocks of consecutive weeks of every trace. A copy that reaches into the block left out is in neither.
    """
    pairs = []
    for fold in range(count):
        learned, left = np.zeros(len(training.copies), bool), np.zeros(len(training.copies), bool)
        for site in sites:
            low, high = (site.weeks.start + len(site.weeks) * part // count for part in (fold, fold + 1))
            mine = training.trace == site.name
            learned |= mine & ((training.begin + 1 <= low + 0.01) | (training.begin >= high - 0.01))
            left |= mine & (training.begin >= low - 0.01) & (training.begin + 1 <= high + 0.01)
        pairs.append((np.flatnonzero(learned), np.flatnonzero(left)))
    return pairs


def cross_validate(training: Training, sites: Sequence[Site], *, count: int = 4, **asked: object) -> pd.DataFrame:
    """Learn without each block of weeks and measure on it.

    One row a fold and trace: ``fold trace score inside slowdown saf``, sums of mean bounded slowdowns over the copies left out, and
    the ratio to SAF's on those learned on.
    """
    saf = training.baseline[f"mean_bounded_slowdown_{TAUS_S[0]:g}"].to_numpy(np.float64)
    rows = []
    for fold, (learned_on, left_out) in enumerate(folds(training, sites, count)):
        learned = learn(training, learned_on, **asked)  # type: ignore[arg-type]
        for site in sites:
            out = left_out[training.trace[left_out] == site.name]
            inside = learned_on[training.trace[learned_on] == site.name]
            parameters = np.array([learned.score.values])
            ratio = float(training.slowdowns(parameters, inside).sum() / saf[inside].sum())
            slowdown = float(training.slowdowns(parameters, out).sum())
            rows.append(
                {
                    "fold": fold,
                    "trace": site.name,
                    "score": str(learned.score),
                    "inside": ratio,
                    "slowdown": slowdown,
                    "saf": float(saf[out].sum()),
                }
            )
    return pd.DataFrame(rows)


def follow_the_best(weekly: pd.DataFrame, memory: float = 1.0, prior: float = 1.0) -> pd.Series:
    """Return for each week the best policy of a small set in the weeks before.

    By the discounted mean of logarithms of ratios to the first. ``weekly`` [weeks, policies] are mean bounded slowdowns in order of
    time; all of the set are simulated on each past week, so this is a bandit that sees every arm. ``prior`` weeks of a tie come
    first; of equals the first column is taken.
    """
    ratio = np.log(weekly.to_numpy(np.float64) / weekly.to_numpy(np.float64)[:, :1])
    seen = np.zeros(ratio.shape[1]) + np.arange(ratio.shape[1]) * 1e-12
    total, picked = prior, []
    for row in ratio:
        picked.append(weekly.columns[int((seen / total).argmin())])
        seen, total = seen * memory + row, total * memory + 1.0
    return pd.Series(picked, index=weekly.index)
