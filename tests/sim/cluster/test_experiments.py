"""Trials on the simulated cluster: pairing, variation, and comparison with intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sim.cluster.background import Level
from sim.cluster.comparison import ALL, by_trial, compared
from sim.cluster.experiments import VARIES, trials, usual
from sim.cluster.presets import CONGESTED
from sim.cluster.simulate import STORM, simulate_on
from sim.cluster.workloads import Workload, trial

ORACLE = "EASY+RUSH(model=oracle,skips=10)"
SMALL = CONGESTED.but(name="small", nodes=128, nodes_per_leaf=16, noise_leaves=2, uplink=40.0, storage=20.0)
WORKLOAD = Workload(150, ("Laghos", "LBANN", "PENNANT"))
SEEDS = range(100, 103)


@pytest.fixture(scope="module")
def baselines() -> pd.DataFrame:
    return usual(SMALL, WORKLOAD, days=0.4, seed=2)


@pytest.fixture(scope="module")
def runs(baselines: pd.DataFrame) -> pd.DataFrame:
    return trials(SMALL, WORKLOAD, ("EASY", ORACLE), SEEDS, usual_times=baselines)


def test_trials_of_all_schedulers_are_of_the_same_jobs_with_the_same_luck(runs: pd.DataFrame) -> None:
    alone = runs.pivot(index=["seed", "job_id"], columns="scheduler", values="work_s")
    assert set(alone.columns) == {"EASY", ORACLE}
    assert (alone.nunique(axis=1) == 1).all()
    assert len(runs) == 2 * 3 * 150


def test_a_scheduler_that_may_not_skip_is_easy(baselines: pd.DataFrame) -> None:
    both = trials(SMALL, WORKLOAD, ("EASY", "EASY+RUSH(model=oracle,skips=0)"), SEEDS[:1], usual_times=baselines)
    first, second = (rows.drop(columns=["scheduler", "asked"]) for _, rows in both.groupby("scheduler", sort=False))
    pd.testing.assert_frame_equal(first.reset_index(drop=True), second.reset_index(drop=True))


def test_a_run_varies_beyond_the_sigma_of_control_runs(runs: pd.DataFrame, baselines: pd.DataFrame) -> None:
    for name, rows in runs.groupby("application"):
        of_kind = baselines.loc[(name, 16)]
        assert (rows["varied"] == (rows["runtime_s"] > of_kind["mean_s"] + VARIES * of_kind["sigma_s"])).all()
    assert runs["varied"].any()


def test_what_is_measured_of_a_trial_is_what_anybody_would_count(runs: pd.DataFrame, baselines: pd.DataFrame) -> None:
    values = by_trial(runs)
    seed = values.index[1]
    rows = [row for row in runs.to_dict("records") if row["seed"] == seed and row["scheduler"] == ORACLE]
    of_trial = values.loc[seed, ORACLE]
    assert of_trial[ALL, "makespan_s"] == max(row["start_s"] + row["runtime_s"] for row in rows)
    assert of_trial[ALL, "varied"] == sum(row["varied"] for row in rows)
    laghos = [row for row in rows if row["application"] == "Laghos"]
    assert of_trial["Laghos", "wait_s"] == pytest.approx(np.mean([row["start_s"] - row["submit_s"] for row in laghos]))
    longest = max(row["runtime_s"] for row in laghos)
    assert of_trial["Laghos", "worst"] == pytest.approx(longest / baselines.loc[("Laghos", 16), "mean_s"])


def shifted(trials: int, by: np.ndarray) -> pd.DataFrame:
    """Values of ``trials`` trials that differ wildly, and under B by ``by`` from those under A."""
    first = np.random.default_rng(1).uniform(100, 1000, trials)
    columns = pd.MultiIndex.from_tuples([("A", ALL, "wait_s"), ("B", ALL, "wait_s")], names=["scheduler", "application", "metric"])
    return pd.DataFrame(np.column_stack([first, first + by]), columns=columns)


def of_b(table: pd.DataFrame) -> pd.Series:
    return table.set_index("scheduler").loc["B"]


def test_differences_are_paired_by_trial() -> None:
    row = of_b(compared(shifted(20, np.full(20, 10.0)), "A"))
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((10, 10, 10))
    assert row["relative_low"] < 10 / row["baseline"] < row["relative_high"]


def test_standard_errors_are_those_of_paired_differences() -> None:
    by = np.random.default_rng(3).normal(5.0, 20.0, 400)
    values = shifted(400, by)
    base = values["A", ALL, "wait_s"].to_numpy()
    row = of_b(compared(values, "A"))
    assert row["error"] == pytest.approx(by.std(ddof=1) / 20, rel=0.1)
    assert row["mean_error"] == pytest.approx((base + by).std(ddof=1) / 20, rel=0.1)
    spread = (by - row["relative"] * base).std(ddof=1) / 20 / base.mean()  # of a ratio of means, by its linear part
    assert row["relative_error"] == pytest.approx(spread, rel=0.1)


def test_with_fewer_than_five_trials_there_is_no_interval_and_it_is_said(runs: pd.DataFrame) -> None:
    table = compared(by_trial(runs), "EASY")
    assert table[["low", "relative_low", "error"]].isna().all(axis=None)
    assert set(table["note"]) == {"no interval: 3 trials are too few"}
    assert np.isfinite(table.loc[table["metric"] == "makespan_s", "difference"]).all()


def test_a_storm_is_where_others_alone_ask_for_more_than_its_share_of_the_file_system() -> None:
    def storm_s(level: Level) -> tuple[float, float]:
        run = simulate_on(SMALL.but(storage_background=level), trial(WORKLOAD, 1), seed=1)
        return run.storm_s, (run.runs["start_s"] + run.runs["runtime_s"]).max()

    whole, lasted = storm_s(Level(STORM + 0.01))
    assert lasted <= whole < lasted + SMALL.tick_s
    assert storm_s(Level(STORM - 0.01))[0] == 0
    now_and_then, lasted = storm_s(Level(STORM - 0.01, pause_s=600, lasting_s=300, height=0.5))
    assert 0 < now_and_then < lasted
