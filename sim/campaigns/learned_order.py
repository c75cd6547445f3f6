"""Learn an order of waiting jobs for a trace: xNES over the parameters of a score.

Every week of submissions is simulated by itself, as Legrand, Trystram & Zrigui (2018) do. The earlier weeks are for learning,
each in several copies with shaken submissions: one schedule is one sample of many (:mod:`features.jobs.workload_changes`), and a search
would learn the accidents of one. The later weeks are held out, and simulated once under the learned order and under the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.clock import Clock
from features.errors import InputError
from features.jobs.schema import fingerprint
from features.jobs.workload_changes import moves, shaken
from features.statistics import CONFIDENCE, FEWEST_BLOCKS, Ratio, interval_of_change
from models.policies import PolicyEvidence, Trained
from sim.campaigns.maps import threads
from sim.campaigns.sweep import PreparedSweep
from sim.campaigns.windows import Window, split_windows
from sim.outcome import TRACE_SECONDS
from sim.policy import Policy
from sim.schedulers.scores import Score, score
from sim.settings import Learning

BASELINE = "SAF"
"""The best pure policy of Legrand, Trystram & Zrigui, with which a learned order is compared."""
_AREA = "r*n"
ALGORITHM, BACKFILL = "EASY", "SPF"
_COLUMNS = ["mean_bounded_slowdown", "max_wait_s"]
FEWEST_WEEKS = 3 + FEWEST_BLOCKS
"""Min weeks for learning: three to learn from, and those held out for an interval."""


class LearnedOrder(NamedTuple):
    """A score, how it was learned, and its gain on the held-out weeks.

    There is no evidence if the baseline has no interval.
    """

    score: Score
    trained: Trained
    evidence: PolicyEvidence | None


def learn_order(
    jobs: pd.DataFrame,
    learning: Learning,
    *,
    trace: str,
    procs: int,
    clock: Clock = TRACE_SECONDS,
    until_s: int | None = None,
) -> LearnedOrder:
    """Learn an order on the earlier weeks of ``jobs``, and judge it on the later ones.

    ``jobs`` are canonical, in order of submission; weeks that end after ``until_s``, seconds of the trace, are not read. Week 0
    and jobs that cross weeks are left out. The weeks are distributed over one thread per core. Raises
    InputError for fewer than ``FEWEST_WEEKS`` weeks.
    """
    weeks = last_weeks(jobs, learning, until_s)
    if len(weeks) < FEWEST_WEEKS:
        raise InputError(f"{trace}: {len(weeks)} whole weeks with jobs are too few to learn from; {FEWEST_WEEKS} are needed")
    first = len(weeks) - max(round(len(weeks) * learning.held_out), FEWEST_BLOCKS)
    measure = _Measure(learning, procs, clock)
    learned, trials = _learned(measure, weeks[:first])
    numbers = [tuple(week.number for week in part) for part in (weeks[:first], weeks[first:])]
    read = pd.concat([week.jobs for week in weeks], ignore_index=True)
    objective = (
        f"sum over weeks of the mean bounded slowdown relative to {BASELINE}, over {learning.copies} shaken copies of the weeks"
    )
    trained = Trained(trace, numbers[0], objective, learning.tau_s, learning.seed, trials, fingerprint(read))
    return LearnedOrder(learned, trained, _evidence(measure, learned, weeks[first:]))


def evolve(
    objective: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    *,
    step: float,
    budget: int,
    seed: int,
    population: int | None = None,
    closest: float = 0.0,
) -> None:
    """Minimise ``objective`` by xNES from ``start``, two or more numbers.

    The search is that of Glasmachers et al. (2010). ``objective`` takes one generation of ``population`` points [points,
    numbers], by default 4 + floor(3 ln numbers), and returns a value for each; at most ``budget`` points are tried. The first
    generation has the standard deviation ``step``. The search ends earlier if the library reports that it has converged or
    diverged, or if no number varies by more than ``closest`` within a generation.
    """
    from cmaes import XNES  # imports all of scipy.stats, a tenth of a run's imports, and not every run searches

    ask_and_tell(XNES(mean=start, sigma=step, seed=seed, population_size=population), objective, budget, closest)


def ask_and_tell(search: Any, objective: Callable[[np.ndarray], np.ndarray], budget: int, closest: float = 0.0) -> None:
    """Minimise ``objective`` by an optimiser of ``cmaes``; arguments as in :func:`evolve`."""
    while budget > 0:
        points = np.array([search.ask() for _ in range(search.population_size)])[:budget]
        values = objective(points)
        budget -= len(points)
        if len(points) < search.population_size:
            return
        search.tell(list(zip(points, values.tolist(), strict=True)))
        if search.should_stop() or np.ptp(points, axis=0).max() < closest:
            return


def last_weeks(jobs: pd.DataFrame, learning: Learning, until_s: int | None = None) -> list[Window]:
    """Return the weeks that :func:`learn_order` reads: the last that end by ``until_s``.

    Together they have at most ``most_jobs`` jobs, but there are at least ``FEWEST_WEEKS`` weeks if the trace has as many.
    """
    whole = [week for week in split_windows(jobs, "weeks").windows if until_s is None or week.end_s <= until_s]
    together = np.cumsum([len(week.jobs) for week in reversed(whole)])
    return whole[-max(int((together <= learning.most_jobs).sum()), FEWEST_WEEKS) :]


@dataclass(frozen=True)
class _Measure:
    """Weekly mean bounded slowdowns of scores."""

    learning: Learning
    procs: int
    clock: Clock

    def copies(self, weeks: Sequence[Window], count: int) -> list[pd.DataFrame]:
        """Return the jobs of each week ``count`` times, the first as recorded, the others shaken."""
        seed, shake_s = self.learning.seed, self.learning.shake_s
        return [
            shaken(week.jobs, moves(len(week.jobs), shake_s if copy else 0, seed + 1000 * week.number + copy))[0]
            for week in weeks
            for copy in range(count)
        ]

    def prepared(self, copies: Sequence[pd.DataFrame], formula: str) -> list[PreparedSweep]:
        """Return the copies prepared for simulation in the order of ``formula``."""
        policy = Policy(f"SCORE({formula})-{ALGORITHM}-{BACKFILL}", starvation_s=self.learning.starvation_s)
        taus_s = (self.learning.tau_s,)
        return [PreparedSweep(jobs, procs=self.procs, policy=policy, clock=self.clock, taus_s=taus_s) for jobs in copies]

    def table(self, sweeps: Sequence[PreparedSweep], parameters: np.ndarray) -> np.ndarray:
        """Return mean bounded slowdown and max wait, s, float64 [scores, copies, 2]."""
        values = np.empty((len(parameters), len(sweeps), len(_COLUMNS)))
        for place, measured in threads()(partial(_measured, sweeps, parameters), range(len(sweeps))):
            values[:, place] = measured
        return values


def _measured(sweeps: Sequence[PreparedSweep], parameters: np.ndarray, place: int) -> tuple[int, np.ndarray]:
    return place, sweeps[place].measure(parameters)[_COLUMNS].to_numpy(np.float64)


def _learned(measure: _Measure, weeks: Sequence[Window]) -> tuple[Score, int]:
    """Return the score with the least objective on ``weeks``, and the number of scores tried."""
    learning, formula = measure.learning, score(measure.learning.formula)
    copies = measure.copies(weeks, learning.copies)
    sweeps, start = measure.prepared(copies, str(formula)), np.array(formula.values)
    base = measure.table(measure.prepared(copies, _AREA), np.empty((1, 0)))[..., 0].sum()
    points: list[np.ndarray] = []
    values: list[np.ndarray] = []

    def objective(tried: np.ndarray) -> np.ndarray:
        slowdown = measure.table(sweeps, start + tried * learning.step)[..., 0].sum(axis=1)
        points.append(tried)
        values.append(np.log(slowdown / base) + learning.shrink * (tried**2).sum(axis=1))
        return values[-1]

    evolve(objective, np.zeros(len(start)), step=1.0, budget=learning.budget, seed=learning.seed)
    best = np.concatenate(points)[int(np.concatenate(values).argmin())]
    return formula.with_values((start + best * learning.step).round(3).tolist()), sum(map(len, points))


def _evidence(measure: _Measure, learned: Score, weeks: Sequence[Window]) -> PolicyEvidence | None:
    """Return the change by ``learned`` on ``weeks`` against the baseline."""
    replicates = measure.learning.replicates
    copies = measure.copies(weeks, replicates)
    slowdowns, waits = [], []
    for formula, parameters in ((str(learned), learned.values), (_AREA, ())):
        table = measure.table(measure.prepared(copies, formula), np.array([parameters]))[0]
        by_week = table[:, 0].reshape(len(weeks), replicates).T
        slowdowns.append(Ratio(by_week, np.ones_like(by_week)))
        waits.append(float(table[:, 1].max()))
    interval = interval_of_change(slowdowns[0], slowdowns[1])
    if interval.low is None or interval.high is None:
        return None
    return PolicyEvidence(
        against=f"{BASELINE}-{ALGORITHM}-{BACKFILL}",
        relative=slowdowns[0].value() / slowdowns[1].value() - 1.0,
        low=interval.low,
        high=interval.high,
        weeks=tuple(week.number for week in weeks),
        replicates=replicates,
        confidence=CONFIDENCE,
        max_wait_s=waits[0],
        baseline_max_wait_s=waits[1],
    )
