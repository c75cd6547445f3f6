"""Trials of a registered model on the simulated cluster, beside EASY and an oracle.

Everything but the model is simulated. What is measured of a trial, and how trials are compared, is in :mod:`sim.cluster.comparison`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from features.errors import InputError
from sim.cluster.advisers import Adviser
from sim.cluster.comparison import ALL, by_trial, compared
from sim.cluster.experiments import trials, usual
from sim.cluster.presets import CONGESTED, Cluster
from sim.cluster.simulate import simulate_on
from sim.cluster.workloads import Workload, trial
from sim.names import scheduler as named_scheduler

TRIALS_TABLE, TRIALS_PAGE = "cluster_experiments", "variability/{}.html"
"""The table of trials, and the page about them under ``reports`` in the home directory."""
TRIALS = 200
"""Default number of trials; five, as in Nichols et al., hardly give an interval."""
REGISTERED = "registered"
"""Name of the registered model in schedulers."""
_MODELS = (REGISTERED, "oracle", "nowcast")
SCHEDULERS = ("EASY", f"EASY+RUSH(model={REGISTERED})", "EASY+RUSH(model=oracle)")
"""Default: without start decisions, with the champion, and with an oracle as the bound."""
JOBS = 190
"""Number of jobs of a trial of Nichols et al. on a cluster of the size of ``congested``."""


@dataclass(frozen=True)
class Plan:
    """The simulations: ``trials`` trials of ``workload`` under each of ``schedulers``.

    The first is the baseline. Usual runtimes come from ``days`` days of control runs on ``cluster``. ``seed`` fixes all draws.
    """

    cluster: Cluster
    workload: Workload
    days: float
    schedulers: tuple[str, ...] = SCHEDULERS
    trials: int = TRIALS
    seed: int = 0

    def __post_init__(self) -> None:
        if named_scheduler(self.schedulers[0]).rush is not None:
            raise InputError(f"the first scheduler is the baseline and takes no start decisions, unlike {self.schedulers[0]}")
        if len(set(self.schedulers)) < len(self.schedulers):
            raise InputError("a scheduler is named twice")
        for name in self.schedulers[1:]:
            rush = named_scheduler(name).rush
            if rush is not None and rush.model not in _MODELS:
                raise InputError(f"scheduler {name!r}; known models: {', '.join(_MODELS)}")

    @property
    def baseline(self) -> str:
        return self.schedulers[0]

    @property
    def asks_registered(self) -> bool:
        """Tell whether a scheduler asks the registered model."""
        rushes = [named_scheduler(name).rush for name in self.schedulers]
        return any(rush is not None and rush.model == REGISTERED for rush in rushes)

    @property
    def usual_seed(self) -> int:
        """Return the seed of the control runs that give the usual runtimes."""
        return 10_000 * self.seed + 2

    @property
    def trial_seeds(self) -> range:
        first = 10_000 * self.seed + 100
        return range(first, first + self.trials)


def trial_plan(trials: int, seed: int, schedulers: tuple[str, ...] = SCHEDULERS) -> Plan:
    """Return experiment ADAA of Nichols et al. on the small simulated cluster, in proportion.

    Its control runs are from other times than those used for training.
    """
    from pipelines.sources.simulated_site import CLUSTER, DAYS

    workload = Workload(round(JOBS * CLUSTER.procs / CONGESTED.procs))
    return Plan(CLUSTER, workload, DAYS, schedulers, trials, seed)


def try_model(
    plan: Plan, adviser: Adviser | None = None, progress: Callable[[int, int], None] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulate the trials of ``plan``, in which ``adviser`` is the registered model.

    Returns runs as of :func:`sim.cluster.experiments.trials`, and the comparison as of :func:`sim.cluster.comparison.compared`.
    ``progress`` receives the trials done and in total. Raises InputError if a scheduler asks a model that is not given.
    """
    if plan.asks_registered and adviser is None:
        raise InputError(f"a scheduler asks the model {REGISTERED}, and none is given")
    usual_runtimes = usual(plan.cluster, plan.workload, days=plan.days, seed=plan.usual_seed)
    advisers = {REGISTERED: adviser} if adviser is not None else {}
    runs = trials(
        plan.cluster,
        plan.workload,
        plan.schedulers,
        plan.trial_seeds,
        usual_times=usual_runtimes,
        advisers=advisers,
        progress=progress,
    )
    return runs, compared(by_trial(runs), plan.baseline, plan.seed)


def first_trial(plan: Plan) -> pd.DataFrame:
    """Simulate the plan's first trial under its baseline; return its runs."""
    seed, of = plan.trial_seeds[0], plan.workload
    return simulate_on(plan.cluster, trial(of, seed), scheduler=plan.baseline, seed=seed, scaling=of.scaling).runs


def over_all(table: pd.DataFrame) -> pd.DataFrame:
    """Return means over trials of all applications, a row per scheduler, a column per metric.

    ``table`` is the comparison of :func:`try_model`.
    """
    rows = table[table["application"] == ALL]
    return rows.pivot_table(index="scheduler", columns="metric", values="mean", sort=False).reset_index()
