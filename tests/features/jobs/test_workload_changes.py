"""Shaken, scaled and squeezed traces: what changes, what does not, and that a seed does something or is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from features.jobs.cleaning import clean
from features.jobs.workload_changes import moves, scaled, shaken
from models.runtime.names import predictor, takes_seed
from sim import Campaign, campaign_schedules, evaluate, run_campaign, simulate
from sim.workloads.workload import Workload as GeneratedWorkload
from sim.workloads.workload import generate
from tests.support.workloads import Workload, crowd

PROCS = 64
SPEC = GeneratedWorkload(jobs=1500, procs=PROCS, users=15, load=0.9, seed=3)
JOBS = clean(generate(SPEC)).jobs
POLICY = {"scheduler": "EASY-SJBF", "predictor": "last2", "correction": "tsafrir"}


def test_every_move_within_bounds_is_as_likely_and_a_seed_draws_the_same_again():
    by = moves(70_000, 3, 5)
    values, counts = np.unique(by, return_counts=True)
    assert values.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert np.abs(counts - 10_000).max() < 500
    assert (by == moves(70_000, 3, 5)).all()
    assert (by != moves(70_000, 3, 0)).any()
    assert not moves(9, 0, 1).any()
    for wrong in ((9, -1, 0), (9, 60, -1)):
        with pytest.raises(InputError):
            moves(*wrong)


def test_shaken_jobs_are_in_order_of_their_submission_and_otherwise_as_recorded():
    by = moves(len(JOBS), 600, 1)
    table, rows = shaken(JOBS, by)
    assert table["submit_s"].is_monotonic_increasing
    assert sorted(rows) == list(range(len(JOBS)))
    assert (rows != np.arange(len(JOBS))).any()
    assert (table["submit_s"].to_numpy() == (JOBS["submit_s"].to_numpy() + by)[rows]).all()
    others = JOBS.columns.drop("submit_s")
    pd.testing.assert_frame_equal(table[others], JOBS[others].iloc[rows].reset_index(drop=True))


def test_with_dependencies_no_job_comes_before_the_one_it_names():
    few = JOBS.head(3).assign(submit_s=[0, 10, 20], job_id=[1, 2, 3], preceding_job=[-1, 1, -1], think_s=[-1, 0, -1])
    by = np.array([15, -5, 0])
    assert shaken(few, by)[1].tolist() == [1, 0, 2]
    table, rows = shaken(few, by, dependencies=True)
    assert rows.tolist() == [0, 1, 2]
    assert table["submit_s"].tolist() == [15, 15, 20]


def test_a_shaken_schedule_is_that_of_the_moved_jobs_in_the_order_of_the_trace():
    schedule = simulate(JOBS, procs=PROCS, seed=4, shake_s=60, **POLICY)
    table, rows = shaken(JOBS, moves(len(JOBS), 60, 4))
    plain = simulate(table, procs=PROCS, **POLICY)
    assert (schedule.jobs["job_id"].to_numpy() == JOBS["job_id"].to_numpy()).all()
    assert np.abs(schedule.jobs["submit_s"] - JOBS["submit_s"]).max() == 60
    for column in plain.jobs:
        assert (schedule.jobs[column].to_numpy()[rows] == plain.jobs[column].to_numpy()).all(), column
    assert (schedule.seed, schedule.shake_s) == (4, 60)
    assert not schedule.jobs["start_s"].equals(simulate(JOBS, procs=PROCS, **POLICY).jobs["start_s"])
    again, other = (simulate(JOBS, procs=PROCS, seed=seed, shake_s=60, **POLICY) for seed in (4, 0))
    pd.testing.assert_frame_equal(again.jobs, schedule.jobs)
    assert not other.jobs["start_s"].equals(schedule.jobs["start_s"])


def test_predictions_known_beforehand_follow_their_jobs():
    given = JOBS["runtime_s"].to_numpy(float)
    schedule = simulate(JOBS, procs=PROCS, seed=1, shake_s=3600, predictor=given)
    assert (schedule.jobs["predicted_s"] == schedule.jobs["runtime_s"]).all()
    expected = simulate(JOBS, procs=PROCS, seed=1, shake_s=3600, predictor="clairvoyant")
    assert (schedule.jobs["start_s"] == expected.jobs["start_s"]).all()


@pytest.mark.slow
def test_a_learner_takes_the_seed_and_keeps_its_name():
    assert [takes_seed(name) for name in ("quantile", "lightgbm(trees=9)", "quantile(seed=1)", "sp3", "sp(seed=0.5)", "knn")] == [
        *(True, True, False),
        *(False, False, False),
    ]
    assert predictor("lightgbm(trees=9)", seed=7).name == "lightgbm(trees=9)"
    by_setting, by_name, other = (
        simulate(JOBS, procs=PROCS, predictor=name, seed=seed)
        for name, seed in (("quantile", 5), ("quantile(seed=5)", 0), ("quantile", 0))
    )
    assert by_setting.predictor == "quantile"
    assert by_setting.jobs["predicted_s"].equals(by_name.jobs["predicted_s"])
    assert not by_setting.jobs["predicted_s"].equals(other.jobs["predicted_s"])


def test_a_campaign_shakes_each_seed_alike_for_all_policies():
    asked = Campaign(
        schedulers=("EASY", "EASY-SJBF"), predictors=("requested", "last2"), corrections=("tsafrir",), seeds=(0, 3), shake_s=60
    )
    schedules = campaign_schedules(JOBS, asked, procs=PROCS)
    assert {schedule.shake_s for schedule in schedules} == {60}
    submits = {schedule.seed: schedule.jobs["submit_s"].to_numpy() for schedule in schedules}
    assert (submits[0] != submits[3]).any()
    for schedule in schedules:
        assert (schedule.jobs["submit_s"].to_numpy() == submits[schedule.seed]).all()
    [one] = [each for each in schedules if (each.scheduler, each.predictor, each.seed) == ("EASY-SJBF", "last2", 3)]
    alone = simulate(JOBS, procs=PROCS, seed=3, shake_s=60, **POLICY)
    pd.testing.assert_frame_equal(one.jobs, alone.jobs)
    table = run_campaign(JOBS, asked, procs=PROCS, map_points=map)
    [row] = table[(table[["scheduler", "predictor", "seed"]] == ["EASY-SJBF", "last2", 3]).all(axis=1)].to_dict("records")
    assert row["shake_s"] == 60
    for metric in ("mean_wait_s", "awf_s", "mean_bounded_slowdown"):
        assert row[metric] == pytest.approx(evaluate(alone)[metric], rel=1e-12)


LOAD = Workload(4, [100, 107, 121], [10, 3, 1], [1, 2, 4], [12, 7, 2], ["a", "b", "a"], [10, 3, 1], wait=[0, 0, 5])
CROWD = crowd(np.random.default_rng(2), 200)


def test_a_load_divides_times_between_submissions_alone() -> None:
    table = scaled(LOAD.table(), load=2)
    assert table["submit_s"].tolist() == [100, 103, 110]
    assert table["runtime_s"].tolist() == LOAD.runtime
    assert table["wait_s"].isna().all()
    others = table.columns.drop(["submit_s", "wait_s"])
    pd.testing.assert_frame_equal(table[others], LOAD.table()[others])


def test_a_squeeze_divides_all_times_to_whole_seconds_of_at_least_one() -> None:
    table = scaled(LOAD.table(), squeeze=7)
    assert table[["submit_s", "runtime_s", "requested_s"]].to_numpy().T.tolist() == [[100, 101, 103], [1, 1, 1], [2, 1, 1]]
    assert scaled(LOAD.table(), load=2, squeeze=3.5)["submit_s"].tolist() == [100, 101, 103]
    assert LOAD.table()["submit_s"].tolist() == LOAD.submit


def test_what_is_simulated_is_the_changed_trace_and_is_called_so() -> None:
    schedule = simulate(CROWD.table(), procs=64, predictor="clairvoyant", load=1.5, squeeze=2, trace="toy")
    plain = simulate(scaled(CROWD.table(), 1.5, 2), procs=64, predictor="clairvoyant")
    pd.testing.assert_frame_equal(schedule.jobs, plain.jobs)
    assert (schedule.trace, schedule.load, schedule.squeeze) == ("toy (load 1.5, squeeze 2)", 1.5, 2)
    denser = evaluate(simulate(CROWD.table(), procs=64, load=3.0))
    assert denser["mean_wait_s"] > 2 * evaluate(simulate(CROWD.table(), procs=64))["mean_wait_s"]


def test_predictions_of_the_recorded_runtimes_are_refused_of_squeezed_ones() -> None:
    with pytest.raises(InputError, match="squeeze divides runtimes, and given predictions are of the runtimes as recorded"):
        CROWD.schedule("EASY", squeeze=7)
    assert CROWD.schedule("EASY", load=7.0).load == 7
