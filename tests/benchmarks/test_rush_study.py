"""The study of RUSH: what is counted, what is chosen, which settings are asked, and that its tables and figures can be made."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.papers.nichols import figures, rush, tables
from benchmarks.papers.nichols.calibrations import quiet, variation, volta
from benchmarks.papers.nichols.experiments import (
    ALL,
    EXPERIMENTS,
    STRATA,
    Conducted,
    asking_rate,
    machine,
    pooled,
    stratified,
    values_of,
)
from benchmarks.papers.nichols.published import statements
from benchmarks.papers.nichols.trials import LEARNERS, by_day
from sim.cluster.experiments import judged, trials, usual
from sim.cluster.simulate import simulate_on
from sim.cluster.workloads import continuous
from sim.names import ANY_SKIPS, Rush
from sim.names import scheduler as named_scheduler
from tests.conftest import SHARED, needs_shared

ORACLE = "EASY+RUSH(model=oracle,skips=10)"
SMALL = machine("congested").but(name="small", nodes=128, nodes_per_leaf=16, noise_leaves=2, uplink=40.0, storage=20.0)
ADAA = EXPERIMENTS["ADAA"]


@pytest.fixture(scope="module")
def conducted() -> Conducted:
    runtimes = usual(SMALL, ADAA, days=0.4, seed=2)
    runs = trials(SMALL, ADAA, ("EASY", ORACLE), range(100, 103), usual_times=runtimes)
    return Conducted(ADAA, pooled(runs.replace({"scheduler": {ORACLE: "model"}})), runtimes)


def test_runs_vary_by_the_baselines_own_runs_too(conducted: Conducted) -> None:
    for _, rows in conducted.runs.groupby("application"):
        easy = rows.loc[rows["scheduler"] == "EASY", "runtime_s"].to_numpy()
        assert (rows["varied_pooled"] == (rows["runtime_s"] > easy.mean() + 1.5 * easy.std())).all()
    later = conducted.runs.query("submit_s > 0 and scheduler == 'model' and application == 'AMG' and seed == 101")
    values = values_of(conducted.runs).loc[101, "model"]
    assert values["AMG", "wait_later_s"] == pytest.approx(later["wait_s"].mean())
    assert values["AMG", "varied_pooled"] == later["varied_pooled"].sum() + (
        conducted.runs.query("submit_s == 0 and scheduler == 'model' and application == 'AMG' and seed == 101")[
            "varied_pooled"
        ].sum()
    )


def test_trials_with_a_storm_under_the_baseline_are_a_stratum_of_their_own(conducted: Conducted) -> None:
    runs = conducted.runs
    struck = runs["seed"].unique()[1:]
    runs = runs.assign(storm_s=np.where(runs["seed"].isin(struck) & (runs["scheduler"] == "EASY"), 10, 0))
    values = values_of(runs)["model", ALL, "varied"]
    table = stratified(runs)
    means = [tables.looked_up(table, stratum)["model", ALL, "varied"]["mean"] for stratum in STRATA]
    assert means == [values.mean(), values.drop(struck).mean(), values[struck].mean()]


def tried(rows: dict[rush.Choice, tuple[float, float, float]]) -> tuple[pd.DataFrame, dict[str, rush.Choice]]:
    """What ``rush.choice`` sees: by choice, runs with variation, and relative changes of makespan and wait."""
    table = [
        {"scheduler": str(name), "application": ALL, "stratum": ALL, "metric": metric, "mean": mean, "relative": change}
        for name, (varied, makespan, wait) in rows.items()
        for metric, mean, change in (("varied", varied, 0.0), ("makespan_s", 1.0, makespan), ("wait_s", 1.0, wait))
    ]
    return pd.DataFrame(table), {str(name): name for name in rows}


def test_the_cutoff_chosen_leaves_fewest_runs_with_variation_at_no_more_than_the_price() -> None:
    first, second, third = rush.Choice(0.5, 300), rush.Choice(0.5, 600), rush.Choice(0.6, 300)
    dear = 2 * rush.PRICE
    assert rush.choice(*tried({first: (1, 0.0, dear), second: (2, 0.0, rush.PRICE), third: (3, 0.0, 0.0)})) == second
    assert rush.choice(*tried({first: (1, 1.5 * dear, dear), second: (2, 2 * dear, 0.0)})) == first


def test_every_setting_is_a_scheduler_with_a_model_that_can_be_learned() -> None:
    settings = rush.Settings(rush.Choice(0.5, 300), rush.Choice(0.2, 600))
    asked = {**settings.conducted(), **settings.apart(), **settings.steps()["model"], **settings.steps()["oracle"]}
    for setting in asked.values():
        assert named_scheduler(setting.name).rush is not None or setting.name == "EASY"
        assert machine("stormy x3", setting.placement).storage_background.pause_s == 32_400
        assert setting.learner in ("", *LEARNERS)
    assert named_scheduler(settings.harm().scheduler).rush == Rush("model", ANY_SKIPS, "variation", 600, rush.EVERY, True)


def test_sums_over_days_are_those_of_the_runs() -> None:
    jobs = continuous(2.0, 1, procs=SMALL.procs, load=0.3)
    run = simulate_on(SMALL, jobs, seed=1)
    runtimes = usual(SMALL, ADAA, days=0.4, seed=2)
    days = by_day(run, runtimes, SMALL.procs)
    assert days["day"].tolist() == [0, 1]
    late = run.runs["submit_s"] >= 86_400
    assert days["varied"].iloc[1] == judged(run.runs[late], runtimes)["varied"].sum()
    both = pd.concat([days.assign(scheduler="EASY", load=0.3, seconds=1.0), days.assign(scheduler="B", load=0.3, seconds=1.0)])
    assert tables.month(both).count("\n") == 3


@pytest.mark.slow
def test_tables_statements_and_figures_can_be_made(conducted: Conducted) -> None:
    assert rush.first_trials(conducted, 2).trials == 2
    row = tables.looked_up(conducted.strata)["model", ALL, "varied_pooled"]
    measured = {what: here for what, _, here in statements([conducted], "model")}
    assert measured["figure 5, ADAA: runs with variation a trial, by EASY's runs"].startswith(
        f"{row['baseline']:.1f} to {row['mean']:.1f}"
    )
    assert f"{asking_rate(conducted.runs, 'model'):.0%}".replace("%", " %") in tables.experiments(
        [Conducted(ADAA, conducted.runs.assign(storm_s=10.0 * (conducted.runs["seed"] % 2)), conducted.usual_times)]
    )
    assert len(figures.published([conducted])) == 5


@needs_shared
def test_quiet_spreads_as_real_runs_do() -> None:
    real, simulated = volta(SHARED), quiet(0, days=0.3)
    assert (len(variation(real)), len(variation(simulated))) == (17, 21)
    for share in (0.25, 0.5, 0.75):
        assert 0.6 < variation(simulated).quantile(share) / variation(real).quantile(share) < 1.6
