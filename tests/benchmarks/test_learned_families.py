"""Learning stays on its training weeks, starts at SAF, and finds what is there to be found."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.papers.legrand.learned_families import (
    FAMILIES,
    Site,
    Training,
    copies,
    cross_validate,
    folds,
    follow_the_best,
)
from features.clock import WEEK_S, Clock
from sim import simulate
from sim.campaigns.sweep import PreparedSweep
from sim.policy import Policy
from sim.schedule import Schedule
from tests.support.learning import workload

PROCS = 16


def site(weeks: range = range(1, 5)) -> Site:
    jobs = workload(jobs=900, weeks=6, seed=3)[0]
    jobs = jobs.assign(procs=np.minimum(jobs["procs"], PROCS), requested_s=jobs["requested_s"] * 4, runtime_s=jobs["runtime_s"] * 4)
    jobs["wait_s"] = pd.array([pd.NA] * len(jobs), dtype="Int64")
    return Site("small", jobs, PROCS, Clock(), weeks)


def slowdown(schedule: Schedule) -> float:
    jobs = schedule.jobs
    wait, runtime = jobs["start_s"] - jobs["submit_s"], jobs["runtime_s"]
    return float(np.maximum(1.0, (wait + runtime) / np.maximum(runtime, 10)).mean())


def test_no_job_of_other_weeks_is_in_any_copy() -> None:
    mine = site(range(2, 4))
    submit = mine.jobs["submit_s"].to_numpy(np.int64)
    week = (submit - submit[0]) // WEEK_S
    samples = copies("small", mine.jobs, mine.weeks, offsets=(0, 3), seed=1)
    rows = np.unique(np.concatenate([copy.rows for copy in samples]))
    assert set(week[rows]) == {2, 3}
    assert len(samples) == 3, "two weeks, and one of seven days between them"
    for copy in samples:
        same = mine.jobs.iloc[copy.rows]
        assert (copy.jobs["runtime_s"].to_numpy() == same["runtime_s"].to_numpy()).all(), "rows name the jobs of the whole trace"
        assert np.abs(copy.jobs["submit_s"].to_numpy() - same["submit_s"].to_numpy()).max() <= 600


def test_training_measures_what_a_simulation_says_of_the_copy_and_counts_it() -> None:
    mine = site()
    index = np.sqrt(mine.jobs["requested_s"].to_numpy(np.float64) * 30)
    training = Training([Site(mine.name, mine.jobs, PROCS, mine.clock, mine.weeks, index)], FAMILIES["weight"], offsets=(0, 2))
    values = np.array([[1.0, 1.0, 0.0], [0.5, 2.0, 1.0]])
    measured = training.slowdowns(values, np.array([1, 3]))
    for row, numbers in zip(measured, values, strict=True):
        for at, score in zip((1, 3), row, strict=True):
            copy = training.copies[at]
            name = training.family.scheduler(training.family.start.with_values(numbers))
            expected = simulate(copy.jobs, procs=PROCS, scheduler=name, predictor=index[copy.rows], starvation_s=200_000)
            assert score == pytest.approx(slowdown(expected), rel=1e-12)
    assert (training.trials, training.simulations) == (2, 4)


def test_what_is_left_out_is_not_learned_on() -> None:
    mine = site()
    training = Training([mine], FAMILIES["fit"], offsets=(0, 3))
    for learned, left in folds(training, [mine], 2):
        for inside in training.begin[learned]:
            assert (np.abs(training.begin[left] - inside) >= 0.99).all(), "copies of one side share no day with the other's"
    table = cross_validate(training, [mine], count=2, budget=8)
    assert list(table["fold"]) == [0, 1]
    assert (table["saf"] > 0).all()


def test_the_best_so_far_is_followed_and_never_the_week_itself() -> None:
    weekly = pd.DataFrame({"SAF": [10.0, 10, 10, 10], "other": [20.0, 1, 1, 30]}, index=[5, 6, 7, 8])
    assert follow_the_best(weekly).tolist() == ["SAF", "SAF", "other", "other"]


def test_scores_of_a_family_can_be_swept() -> None:
    for family in FAMILIES.values():
        policy = Policy(family.scheduler(family.start))
        sweep = PreparedSweep(site().jobs.head(60), procs=PROCS, policy=policy)
        assert len(sweep.measure([family.start.values])) == 1
