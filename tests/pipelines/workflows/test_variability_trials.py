"""Trials of a registered model on the simulated cluster: what is refused, what is asked, and the page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from models.variability.model import fit
from pipelines.report.cluster import by_application, overall, render_cluster
from pipelines.workflows.variability_trials import SCHEDULERS, Plan, first_trial, trial_plan, try_model
from sim.cluster.advisers import Adviser
from sim.cluster.comparison import ALL
from sim.cluster.experiments import control_runs
from sim.metrics.formats import signed
from sim.metrics.names import TRIAL
from tests.support.answers import numbers_from_nowhere

PLAN = replace(trial_plan(2, 0), days=0.2)


@pytest.fixture(scope="module")
def adviser() -> Adviser:
    run = control_runs(PLAN.cluster, days=0.2, seed=1)
    slow = (run.runs["contention"] > run.runs["contention"].quantile(0.7)).astype(np.int64).to_numpy()
    return Adviser(fit("decision-forest", run.own, slow, seed=1, columns=list(run.own.columns)))


@pytest.fixture(scope="module")
def tried(adviser: Adviser) -> tuple[pd.DataFrame, pd.DataFrame]:
    return try_model(PLAN, adviser)


@pytest.mark.parametrize(
    ("schedulers", "error"),
    [
        (SCHEDULERS[::-1], "is the baseline and takes no start decisions"),
        (("EASY", "EASY"), "twice"),
        (("EASY", "EASY+RUSH(model=unknown)"), "known models: registered, oracle, nowcast"),
        (("EASY", "EASY+RUSH"), "known models"),
        (("EASY", "nothing"), "unknown scheduler"),
    ],
)
def test_schedulers_that_cannot_be_compared_are_refused(schedulers: tuple[str, ...], error: str) -> None:
    with pytest.raises(InputError, match=error):
        replace(PLAN, schedulers=schedulers)


def test_the_registered_model_is_asked_and_must_be_given(tried: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    runs, table = tried
    asked = runs.drop_duplicates("scheduler").set_index("scheduler")["asked"]
    assert asked["EASY"] == 0
    assert asked[SCHEDULERS[1]] > 0
    assert set(table["trials"]) == {2}
    with pytest.raises(InputError, match="none is given"):
        try_model(PLAN)
    pd.testing.assert_series_equal(first_trial(PLAN)["start_s"], runs[runs["seed"] == 100]["start_s"].iloc[: PLAN.workload.jobs])


def test_other_seeds_are_other_trials_and_the_workload_is_in_proportion_to_the_cluster() -> None:
    assert not set(trial_plan(9_000, 0).trial_seeds) & set(trial_plan(9_000, 1).trial_seeds)
    assert PLAN.workload.jobs == round(190 * PLAN.cluster.procs / 480)


@pytest.mark.slow
def test_the_page_says_that_it_is_simulated_and_prints_what_was_found(tried: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    runs, table = tried
    page = render_cluster(PLAN, runs, table, {"model": "models:/variability-simulated/1"})
    assert "Simulated: cluster, counters and runtimes" in page
    assert page.count("data:image/svg+xml;base64,") == 1
    assert numbers_from_nowhere(page) == set()
    row = table[(table["application"] == ALL) & (table["metric"] == "makespan_s") & (table["scheduler"] == SCHEDULERS[2])].iloc[0]
    assert f"{row['mean']:,.0f}<small" in page
    assert signed(row["difference"], ",.0f") in page
    assert "no interval: 2 trials are too few" in page.lower()
    assert [each.text for each in overall(table, "EASY").heads[1:]] == [metric.title for metric in TRIAL.values()]
    assert len(by_application(table, "EASY").rows) == 7


def test_the_plan_of_a_command_is_that_of_the_asset() -> None:
    assert trial_plan(2, 0) == Plan(PLAN.cluster, PLAN.workload, trial_plan(2, 0).days, SCHEDULERS, 2, 0)
