"""Trials on the simulated cluster: pairing, variation, and comparison with intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.papers.nichols.workloads import Workload, trial
from features.clock import WEEK_S
from sim.cluster.experiments import VARIES, as_schedules, compare_trials, trials, usual
from sim.cluster.presets import CONGESTED, Level
from sim.cluster.simulate import STORM, simulate_on
from sim.policy import Policy

ORACLE = "EASY+RUSH(model=oracle,skips=10)"
SMALL = CONGESTED.but(name="small", nodes=128, nodes_per_leaf=16, noise_leaves=2, uplink=40.0, storage=20.0)
WORKLOAD = Workload(150, ("Laghos", "LBANN", "PENNANT"))
SEEDS = range(100, 103)
SUBMITTED = {seed: trial(WORKLOAD, seed) for seed in SEEDS}


@pytest.fixture(scope="module")
def baselines() -> pd.DataFrame:
    return usual(SMALL, WORKLOAD.nodes, days=0.4, seed=2)


@pytest.fixture(scope="module")
def runs(baselines: pd.DataFrame) -> pd.DataFrame:
    return trials(SMALL, SUBMITTED, [Policy("EASY"), Policy(ORACLE)], usual_times=baselines)


def test_trials_of_all_schedulers_are_of_the_same_jobs_with_the_same_luck(runs: pd.DataFrame) -> None:
    alone = runs.pivot(index=["seed", "job_id"], columns="scheduler", values="work_s")
    assert set(alone.columns) == {"EASY", ORACLE}
    assert (alone.nunique(axis=1) == 1).all()
    assert len(runs) == 2 * 3 * 150


def test_a_run_varies_beyond_the_sigma_of_control_runs(runs: pd.DataFrame, baselines: pd.DataFrame) -> None:
    for name, rows in runs.groupby("application"):
        of_kind = baselines.loc[(name, 16)]
        assert (rows["varied"] == (rows["runtime_s"] > of_kind["mean_s"] + VARIES * of_kind["sigma_s"])).all()
    assert runs["varied"].any()


@pytest.mark.thorough
def test_a_comparison_is_what_anybody_would_count_in_the_schedules(baselines: pd.DataFrame) -> None:
    submitted = {}
    for week, seed in enumerate(range(200, 206)):
        jobs = trial(WORKLOAD, seed)
        submitted[seed] = jobs.assign(submit_s=jobs["submit_s"] + week * WEEK_S)
    policies = [
        Policy("EASY"),
        Policy("EASY-SJBF", "clairvoyant", "tsafrir"),
        Policy(ORACLE),
        Policy(f"EASY-SJBF{ORACLE[4:]}", "clairvoyant", "tsafrir"),
    ]
    rows = trials(SMALL, submitted, policies, usual_times=baselines)
    keys = [policy[:3] for policy in policies]
    table = compare_trials(as_schedules(rows, SMALL.procs, "small"), {keys[3]: [keys[1], keys[2]]})

    def counted(key: tuple[str, str, str]) -> dict[str, float]:
        mine = [row for row in rows.to_dict("records") if (row["scheduler"], row["predictor"], row["correction"]) == key]
        by_trial = [[row for row in mine if row["seed"] == seed] for seed in submitted]
        areas = [row["nodes"] * row["work_s"] for row in mine]  # the same under each policy
        responses = [row["end_s"] - row["submit_s"] for row in mine]
        slowdowns = [max(1, response / max(row["work_s"], 10)) for row, response in zip(mine, responses, strict=True)]
        return {
            "mean_bounded_slowdown": np.mean(slowdowns),
            "mean_wait_s": np.mean([row["start_s"] - row["submit_s"] for row in mine]),
            "awf_s": np.dot(areas, responses) / np.sum(areas),
            "makespan_s": np.mean([max(row["end_s"] for row in rows) - min(row["submit_s"] for row in rows) for rows in by_trial]),
            "varied_runs": np.mean([sum(row["varied"] for row in rows) for rows in by_trial]),
            "largest_runtime": np.mean([max(row["relative"] for row in rows) for rows in by_trial]),
        }

    labels = {f"{key[0]} / {key[1]}": key for key in keys}
    assert (table.groupby("metric")["compared_with"].count() == 6).all()
    for row in table[table["metric"].isin(counted(keys[0]))].to_dict("records"):
        value, baseline = (
            counted(key)[row["metric"]]
            for key in ((row["scheduler"], row["predictor"], row["correction"]), labels[row["compared_with"]])
        )
        assert (row["value"], row["baseline"], row["relative"]) == pytest.approx((value, baseline, value / baseline - 1)), row
        assert row["replicates"] == 6
        assert row["low"] <= row["relative"] <= row["high"]


def test_a_prediction_never_knows_a_contended_end_before_it_has_come() -> None:
    """Of two machines, one of which slows jobs more: a user's last two runtimes are those that had ended in that very schedule."""
    jobs = trial(WORKLOAD, 7).assign(user=lambda table: table["executable"].astype("category"))
    first_ends, predicted = [], []
    for gain in (0.5, 4.0):
        run = simulate_on(
            SMALL.but(network_gain=gain, storage_gain=gain),
            jobs,
            Policy("EASY-SJBF", predictor="last2", correction="tsafrir", seed=7),
        )
        rows = run.schedule.jobs
        for row in rows.to_dict("records"):
            ended = rows[(rows["user"] == row["user"]) & (rows["end_s"] <= row["submit_s"])].sort_values("end_s")
            last = ended["runtime_s"].tail(2).mean() if len(ended) > 1 else row["requested_s"]
            assert row["predicted_s"] == pytest.approx(min(last, row["requested_s"]), abs=0.5)
        first_ends.append(rows["end_s"].min())
        predicted.append(rows["predicted_s"])
    early = (jobs["submit_s"] < min(first_ends)).to_numpy()
    assert early.any()
    assert (predicted[0][early] == predicted[1][early]).all()
    assert (predicted[0] != predicted[1]).any()


def test_a_storm_is_where_others_alone_ask_for_more_than_its_share_of_the_file_system() -> None:
    def storm_s(level: Level) -> tuple[float, float]:
        run = simulate_on(SMALL.but(storage_background=level), trial(WORKLOAD, 1), Policy(seed=1))
        return run.storm_s, (run.runs["start_s"] + run.runs["runtime_s"]).max()

    whole, lasted = storm_s(Level(STORM + 0.01))
    assert lasted <= whole < lasted + SMALL.tick_s
    assert storm_s(Level(STORM - 0.01))[0] == 0
    now_and_then, lasted = storm_s(Level(STORM - 0.01, pause_s=600, lasting_s=300, height=0.5))
    assert 0 < now_and_then < lasted
