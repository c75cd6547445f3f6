"""Learn an order of waiting jobs for a trace: xNES over the parameters of a score.

Every week of submissions is simulated by itself, as Legrand, Trystram & Zrigui (2018) do. The earlier weeks are for
learning, each in several copies with shaken submissions: one schedule is one sample of many
(:mod:`features.jobs.workload_changes`), and a search would learn the accidents of one. The later weeks are held out,
and simulated once under the learned order and under the baseline.

A sweep measures thousands of mixed policies or scores on one workload. They take hardly more time than the simulations.
Legrand, Trystram & Zrigui (JSSPP 2018) search the space of weights week by week; that takes 10^5 to 10^6 simulations.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from models.runtime.dispatch import OUTSIDE
from models.runtime.memory import Memory
from models.runtime.protocol import CompiledPredictor
from sim.campaigns.maps import threads
from sim.campaigns.windows import Window, split_windows
from sim.inputs.estimates import as_estimates, as_predictor, planned_by
from sim.inputs.prepare import NO_DEPENDENCIES, NO_SWEEP, inputs, prepare, scoring_of
from sim.kernel.loop import LoopInputs, Settings
from sim.kernel.orders import NO_WEIGHTS
from sim.kernel.run import run
from sim.kernel.scratch import Scratch, WorkArrays
from sim.kernel.state import FREE, Estimates, Jobs
from sim.metrics.names import TAU_S
from sim.metrics.schedule_metrics import UserJobs, as_columns, ratios_of_times, slowdowns
from sim.outcome import TRACE_SECONDS, check_usable, load_kernel, room_for
from sim.policy import Policy, applied, kernel_settings
from sim.schedulers.scores import Score, score
from sim.settings import Learning

MIXED = Policy("MIXED(1,0,0)-EASY-SPF")
"""The default policies of a sweep, those of Legrand, Trystram & Zrigui."""
SWEPT = ("EASY", "JustBF", "List", "Strict")
"""Algorithms of a sweep."""
MEASURED = ("mean_wait_s", "mean_bounded_slowdown", "awf_s", "p2sf_s", "max_wait_s")
_TOGETHER = 1 << 16
"""Jobs of schedules that are measured together."""


def random_weights(count: int, features: int = 3, seed: int = 0) -> np.ndarray:
    """Draw weights [count, features] uniformly from the unit sphere of the L1 norm.

    Absolute values are uniform on the simplex, signs random.
    """
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(features), count) * rng.choice([-1.0, 1.0], (count, features))


class Ready(NamedTuple):
    """The kernel's arguments for simulations in one thread.

    ``untrained`` is the initial memory of the predictor.
    """

    settings: Settings
    jobs: Jobs
    estimates: Estimates
    work: WorkArrays
    memory: Memory
    untrained: Memory


class PreparedSweep:
    """One workload under a policy with many weights or parameters.

    Prepared once, measured many times. ``policy`` is one of ``MIXED(...)`` or ``SCORE(...)`` with EASY, JustBF, List or
    Strict and any order behind; its own weights or parameters do not matter. The predictor must be a table or compiled,
    and not retrained each night. Several threads may measure at the same time. InputError as :func:`sim.simulate`.
    """

    def __init__(
        self,
        jobs: pd.DataFrame,
        *,
        procs: int,
        policy: Policy = MIXED,
        clock: Clock = TRACE_SECONDS,
        taus_s: Sequence[float] = (TAU_S,),
    ) -> None:
        self.plan = plan = policy.plan()
        if (
            plan.order.name not in ("MIXED", "SCORE")
            or plan.algorithm not in SWEPT
            or plan.rush is not None
            or not policy.as_recorded
        ):
            raise InputError(
                f"a sweep takes MIXED(...) or SCORE(...) with {', '.join(SWEPT)} on the jobs as recorded, not {policy.scheduler}"
            )
        self.policy, self._clock, self.jobs = applied(policy, plan), clock, jobs
        self.procs, self._source = procs, as_predictor(policy.predictor)
        self._workload = prepare(jobs, procs)
        self._given = inputs(self._workload, self._source, self.policy, clock, plan)
        if self._given.code == OUTSIDE:
            raise InputError(f"a sweep takes a predictor that is a table or compiled, and {self._source.name} is written in Python")
        self.taus_s = taus_s
        if isinstance(self._source, CompiledPredictor) and self._source.retrain is not None:
            raise InputError(f"a sweep takes a predictor that is not retrained each night, and {self._source.name} is")
        self._mine = threading.local()
        load_kernel()

    def checked(self, parameters: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
        """Return weights or parameters in the kernel's form, float64 [policies, numbers]."""
        table = np.asarray(parameters, np.float64)
        if self.plan.order.score is not None:
            wanted = len(self.plan.order.score.parameters)
            if table.ndim != 2 or table.shape[1] != wanted or not np.isfinite(table).all():
                raise InputError(f"a sweep of {self.plan.order.score.formula} takes finite parameters [policies, {wanted}]")
            return np.ascontiguousarray(table)
        if table.ndim != 2 or table.shape[1] not in (3, 6) or not np.isfinite(table).all() or not table.any(axis=1).all():
            raise InputError("a sweep takes finite weights of shape [policies, 3 or 6], with no row of zeros alone")
        full = np.zeros((len(table), len(NO_WEIGHTS)))
        full[:, : table.shape[1]] = table
        return full

    def starts(self, full: np.ndarray) -> np.ndarray:
        """Return the starts under each row of :meth:`checked`, int64 [policies, jobs].

        They are simulated in one call of the kernel.
        """
        starts = np.empty((len(full), len(self.jobs)), np.int64)
        ready = self.ready(self.plan.order.score is None and bool(full[:, 4].any()))
        ready.work.state.counters[FREE] = self.procs  # also after an aborted simulation
        sweep = NO_SWEEP._replace(starts=starts, weights=full, memory=ready.untrained)
        inputs = LoopInputs(ready.jobs, ready.estimates, NO_DEPENDENCIES, ready.memory)
        run(ready.settings, inputs, ready.work, 0, sweep)
        check_usable(ready.work.state, self._source.name, self.jobs)
        return starts

    def ready(self, changing: bool) -> Ready:
        """Return the kernel's arguments for this thread.

        ``changing``: the order of waiting jobs can change. Made once; a simulation leaves them ready for the next one.
        """
        held: dict[bool, Ready] = self._mine.__dict__.setdefault("ready", {})
        if changing not in held:
            held[changing] = self._made_ready(changing)
        return held[changing]

    def _made_ready(self, changing: bool) -> Ready:
        inputs, workload, order = self._given, self._workload, self.plan.order
        estimates = planned_by(as_estimates(self._source, self.jobs, inputs.arrays, self._clock)[0], inputs.arrays, self.plan)
        if order.score is None:
            # one scheduler represents all: only the weights differ, and whether any of them lets the order change
            order = replace(order, weights=(*NO_WEIGHTS[:4], float(changing), NO_WEIGHTS[5]))
        plan = replace(self.plan, order=order)
        scoring = scoring_of(plan, workload, self._clock)
        settings = kernel_settings(self.policy, plan, inputs.code, inputs.bits, workload.origin, scoring=scoring)
        work = Scratch().work(len(self.jobs), workload.procs, **room_for(plan, settings))
        return Ready(settings, inputs.arrays, estimates, work, inputs.memory.copied(), inputs.memory)

    def measure(self, parameters: Sequence[Sequence[float]] | np.ndarray) -> pd.DataFrame:
        """Return the metrics of the policy with other weights or parameters, one row for each.

        Columns: ``mean_wait_s mean_bounded_slowdown awf_s p2sf_s max_wait_s``; with several ``taus_s`` one column of
        bounded slowdown each, ``mean_bounded_slowdown_10`` and so on. ``parameters`` are the weights of ``MIXED``,
        [policies, 3 or 6] on (n, r, wait[, r/n, expansion, r n]), or the parameters of ``SCORE``, [policies,
        parameters].
        """
        full, step = self.checked(parameters), max(_TOGETHER // max(len(self.jobs), 1), 1)
        parts = [self._measured(self.starts(full[first : first + step])) for first in range(0, len(full), step)]
        return pd.concat(parts, ignore_index=True)

    def _measured(self, starts: np.ndarray) -> pd.DataFrame:
        jobs, none = self._given.arrays, np.zeros(0)
        columns = as_columns(UserJobs(jobs.user, jobs.submit, starts, jobs.runtime, jobs.procs, jobs.requested), none, none)
        metrics = {name: ratio.by_row() for name, ratio in ratios_of_times(columns).items()}
        metrics["max_wait_s"] = columns.wait.max(axis=-1)
        names = ["mean_bounded_slowdown", *(f"mean_bounded_slowdown_{tau_s:g}" for tau_s in self.taus_s[1:])]
        metrics |= {
            name: slowdowns(columns, tau_s)["mean_bounded_slowdown"] for name, tau_s in zip(names, self.taus_s, strict=True)
        }
        table = pd.DataFrame({name: metrics[name] for name in (*MEASURED, *names[1:])})
        return table.rename(columns={names[0]: f"{names[0]}_{self.taus_s[0]:g}"}) if names[1:] else table


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

    ``jobs`` are canonical, in order of submission; weeks that end after ``until_s``, seconds of the trace, are not
    read. Week 0 and jobs that cross weeks are left out. The weeks are distributed over one thread per core. Raises
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

    The search is that of Glasmachers et al. (2010). ``objective`` takes one generation of ``population`` points
    [points, numbers], by default 4 + floor(3 ln numbers), and returns a value for each; at most ``budget`` points are
    tried. The first generation has the standard deviation ``step``. The search ends earlier if the library reports that
    it has converged or diverged, or if no number varies by more than ``closest`` within a generation.
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

    Together they have at most ``most_jobs`` jobs, but there are at least ``FEWEST_WEEKS`` weeks if the trace has as
    many.
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
