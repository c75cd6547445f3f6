"""Trials of a champion on the small simulated cluster, beside plain EASY and an oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from pipelines.workflows.cluster_experiments import ORACLE, REGISTERED, Conducted, Plan, conduct
from sim.cluster.comparison import ALL, by_trial, compared
from sim.cluster.presets import Cluster

if TYPE_CHECKING:
    from models.variability.model import VariabilityModel

TRIALS_TABLE, TRIALS_PAGE = "cluster_experiments", "variability/{}.html"
"""The table of trials, and the page about them under ``reports`` in the home directory."""
TRIALS = 20
"""Trials of an experiment; five, as in the paper, hardly give an interval."""
SCHEDULERS = ("EASY", f"EASY+RUSH(model={REGISTERED})", f"EASY+RUSH(model={ORACLE})")
"""Schedulers of the trials: without start decisions, with the champion, and with an oracle as the bound."""


def trial_plan(trials: int, seed: int) -> Plan:
    """Return experiment ADAA of Nichols et al. on the small simulated cluster, in proportion.

    Its control runs are of other times than those used for training.
    """
    from pipelines.sources.simulated_site import DAYS, small_cluster
    from sim.cluster.workloads import experiment

    cluster, whole = small_cluster(), experiment("ADAA")
    of = replace(whole, jobs=round(whole.jobs * cluster.procs / Cluster().procs))
    return Plan(cluster, (of,), SCHEDULERS, trials=trials, days=DAYS, seed=seed)


def try_model(plan: Plan, model: VariabilityModel, scope: str) -> tuple[Conducted, pd.DataFrame]:
    """Run the trials of ``plan`` with ``model``; return them with the comparison.

    The comparison is :func:`pipelines.workflows.cluster_experiments.compared`.
    """
    from sim.cluster.advisers import Adviser

    conducted = conduct(plan, registered=Adviser(model, scope))[0]
    return conducted, compared(by_trial(conducted.runs), conducted.baseline, plan.seed)


def first_trial(plan: Plan) -> pd.DataFrame:
    """Simulate the plan's first trial under its baseline; return its runs."""
    from sim.cluster.simulate import simulate_on
    from sim.cluster.workloads import trial

    seed, of = plan.trial_seeds[0], plan.experiments[0]
    return simulate_on(plan.cluster, trial(of, seed), scheduler=plan.schedulers[0], seed=seed, scaling=of.scaling).runs


def over_all(table: pd.DataFrame) -> pd.DataFrame:
    """Return all applications together, a row a scheduler and a column a mean over trials.

    ``table`` comes from :func:`try_model`.
    """
    rows = table[table["application"] == ALL]
    return rows.pivot_table(index="scheduler", columns="metric", values="mean", sort=False).reset_index()
