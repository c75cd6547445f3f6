"""Paired intervals against a slow, plain jackknife of jobs, and against what they promise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from features.clock import WEEK_S
from features.errors import InputError
from features.statistics import Ratio
from sim.metrics.comparison import by_week_and_user, compare
from sim.metrics.names import COMPARED
from sim.metrics.schedule_metrics import evaluate
from sim.schedule import Schedule
from tests.sim.metrics.test_schedule_metrics import schedule_of

MEANS = COMPARED[:8]


def pair_of(rng: np.random.Generator, weeks: int, jobs_a_week: int = 20) -> tuple[Schedule, Schedule]:
    """A baseline and another schedule of the same jobs; weeks differ in load, and the other's waits are about 0.8 of the baseline's."""
    jobs = weeks * jobs_a_week
    submit = np.sort(rng.integers(0, weeks * WEEK_S, jobs))
    submit[0] = 0
    runtime, procs = rng.integers(1, 5000, jobs), rng.integers(1, 9, jobs)
    load = rng.gamma(4.0, 250.0, weeks)[submit // WEEK_S]
    base = rng.exponential(load).astype(int)
    other = (base * 0.8 + rng.exponential(0.1 * load)).astype(int)
    predicted = runtime * rng.uniform(0.5, 3.0, jobs)
    common = {"runtime": runtime, "procs": procs, "predicted": predicted}
    return schedule_of(submit, base, **common), replace(schedule_of(submit, other, **common), scheduler="EASY-SJBF")


def row(table: pd.DataFrame, scheduler: str, metric: str) -> pd.Series:
    return table[(table["scheduler"] == scheduler) & (table["metric"] == metric)].iloc[0]


def slow_metric(metric: str, jobs: pd.DataFrame) -> float:
    """A metric over a table in which resampled jobs stand as often as they were drawn."""
    wait = (jobs["start_s"] - jobs["submit_s"]).astype(float)
    runtime, procs = jobs["runtime_s"].astype(float), jobs["procs"].astype(float)
    response = wait + runtime
    if metric == "awf_s":
        return float(np.average(response, weights=procs * runtime))
    if metric == "longest_wait_s":
        return float(wait.groupby(jobs["submit_s"] // WEEK_S).max().mean())
    if metric == "p2sf_s":
        return float(0.75 * (procs * (response**4 - wait**4)).sum() / (procs * (response**3 - wait**3)).sum())
    return {
        "mean_wait_s": wait.mean(),
        "mean_response_s": response.mean(),
        "mean_slowdown": (response / runtime).mean(),
        "mean_bounded_slowdown": np.maximum(1.0, response / np.maximum(runtime, 10.0)).mean(),
        "underprediction_rate": (jobs["predicted_s"] < runtime).mean(),
    }[metric]


@pytest.mark.slow
@pytest.mark.parametrize("weeks", [5, 30])
def test_intervals_leave_out_the_jobs_of_one_week_at_a_time(weeks):
    base, other = pair_of(np.random.default_rng(1), weeks)
    table = compare([base, other], confidence=0.9)
    week = base.jobs["submit_s"] // WEEK_S
    for metric in MEANS[:-1]:  # both underpredict the same jobs
        without = np.log(
            [slow_metric(metric, other.jobs[week != each]) / slow_metric(metric, base.jobs[week != each]) for each in range(weeks)]
        )
        squares = (without - without.mean()) ** 2
        freedom = squares.sum() ** 2 / (squares**2).sum()
        reach = stats.t.ppf(0.95, freedom) * np.sqrt((weeks - 1) / weeks * squares.sum())
        change = row(table, "EASY-SJBF", metric)
        centre = np.log1p(change["relative"])
        assert [change["low"], change["high"]] == pytest.approx(np.expm1([centre - reach, centre + reach]), rel=1e-7), metric
        assert change["weeks"] == weeks


def test_values_and_changes_are_those_of_evaluate():
    base, other = pair_of(np.random.default_rng(2), 10)
    table = compare([base, other])
    ours, theirs = evaluate(other), evaluate(base)
    for metric in COMPARED:
        change = row(table, "EASY-SJBF", metric)
        if metric == "underprediction_rate":
            assert change["value"] == ours["underpredicted_jobs"] / ours["jobs"]
            continue
        assert (change["value"], change["baseline"]) == (ours[metric], theirs[metric])
        assert change["relative"] == ours[metric] / theirs[metric] - 1
    assert list(table["metric"]) == [*COMPARED, *COMPARED]


@pytest.mark.parametrize(
    ("weeks", "note"),
    [
        *((weeks, f"no interval: {words} too few") for weeks, words in ((1, "1 week is"), (2, "2 weeks are"), (4, "4 weeks are"))),
        *((weeks, f"rough interval: only {weeks} weeks") for weeks in (5, 7)),
        (8, ""),
    ],
)
def test_a_change_of_few_weeks_has_a_rough_interval_or_none(weeks, note):
    table = compare(pair_of(np.random.default_rng(11), weeks), metrics=("awf_s",))
    assert (table["note"] == note).all()
    assert (table[["low", "high"]].isna() == (weeks < 5)).all(axis=None)
    assert table["relative"].notna().all()
    assert (table["weeks"] == weeks).all()


def test_sums_by_week_and_user_are_those_of_their_jobs():
    over_jobs = Ratio(np.array([1.0, 2.0, 4.0, 8.0]), np.ones(4))
    sums = by_week_and_user(over_jobs, np.array([0, 0, 1, 1]), np.array([2, -1, 0, 2]))
    assert sums.numerator.tolist() == [[2, 0, 0, 1], [0, 4, 0, 8]]
    assert sums.denominator.tolist() == [[1, 0, 0, 1], [0, 1, 0, 1]]


def test_a_baseline_of_zero_gives_no_change_and_says_so():
    submit, common = np.arange(6) * WEEK_S, ([10] * 6, [1] * 6)
    base = schedule_of(submit, [0] * 6, *common)
    other = replace(schedule_of(submit, [5, 0, 0, 0, 0, 0], *common), scheduler="late")
    change = row(compare([base, other]), "late", "mean_wait_s")
    assert change["value"] > 0
    assert change[["relative", "low", "high"]].isna().all()
    assert change["note"] == "no change: the baseline is 0"
    sometimes = row(compare([replace(other, scheduler="EASY"), replace(base, scheduler="late")]), "late", "mean_wait_s")
    assert sometimes["relative"] == -1.0
    assert sometimes["note"] == "no interval: the baseline is 0 without one week or user"


def change_one(schedule: Schedule, column: str, scheduler: str = "other") -> Schedule:
    jobs = schedule.jobs.copy()
    jobs.loc[3, column] += 1
    return replace(schedule, jobs=jobs, scheduler=scheduler)


@pytest.mark.parametrize("column", ["job_id", "submit_s", "procs", "runtime_s"])
def test_schedules_of_other_jobs_are_refused(column):
    base, _ = pair_of(np.random.default_rng(13), 3)
    with pytest.raises(InputError, match=rf"other / requested and EASY / requested .* {column} of row 3"):
        compare([base, change_one(base, column)])


def test_bad_requests_are_refused_with_what_there_is():
    base, other = pair_of(np.random.default_rng(14), 3)
    fewer = replace(other, jobs=other.jobs.iloc[:-1])
    with pytest.raises(InputError, match="hold 59 and 60 jobs"):
        compare([base, fewer])
    with pytest.raises(
        InputError, match=r"no schedule of the baseline FCFS / requested .* EASY / requested; EASY-SJBF / requested"
    ):
        compare([base, other], baseline=("FCFS", "requested"))
    with pytest.raises(InputError, match=r"unknown metric 'speed'; known: mean_wait_s"):
        compare([base, other], metrics=("speed",))
    with pytest.raises(InputError, match="two schedules are of EASY / requested / requested"):
        compare([base, base])
    with pytest.raises(InputError, match="EASY / requested with starvation_s None and 3600 are not replicates"):
        compare([base, replace(base, seed=1, starvation_s=3600)])


def test_replicates_are_compared_with_the_baseline_of_their_seed_and_widen_the_interval():
    rng = np.random.default_rng(15)
    pairs = [pair_of(np.random.default_rng(16), 20)]
    for seed in range(1, 4):  # the same jobs, other waits
        base, other = (
            replace(
                each, seed=seed, jobs=each.jobs.assign(start_s=each.jobs["submit_s"] + (waits * rng.uniform(0.5, 2)).astype(int))
            )
            for each in pairs[0]
            for waits in [each.jobs["start_s"] - each.jobs["submit_s"]]
        )
        pairs.append((base, other))
    change = row(compare([each for pair in pairs for each in pair]), "EASY-SJBF", "mean_wait_s")
    singly = [row(compare(list(pair)), "EASY-SJBF", "mean_wait_s") for pair in pairs]
    assert change["replicates"] == 4
    assert singly[0]["replicates"] == 1
    assert change["value"] == pytest.approx(np.mean([each["value"] for each in singly]))
    assert change["baseline"] == pytest.approx(np.mean([each["baseline"] for each in singly]))
    changes = [each["relative"] for each in singly]
    assert (change["least"], change["most"]) == (min(changes), max(changes))
    assert change["high"] - change["low"] > max(each["high"] - each["low"] for each in singly)
    with pytest.raises(InputError, match="has a replicate of seed 2, and the baseline has none"):
        compare([pairs[0][0], pairs[2][1]])
