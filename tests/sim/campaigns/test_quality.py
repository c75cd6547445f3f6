"""Judging schedules: groups of jobs counted by hand, figures against plain ones, differences paired, and what cannot be said is not said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from features.clock import WEEK_S
from features.errors import InputError
from features.jobs.schema import REQUIRED, conform
from sim import Schedule
from sim.campaigns.quality import MONTH_S, judge
from sim.schedule import schedule_table


def trace(rng: np.random.Generator, weeks: int = 12, size: int = 600, users: int = 9) -> pd.DataFrame:
    """A canonical table of short jobs, so that most of a user's jobs have ended at the next submission."""
    submit = np.sort(rng.integers(0, weeks * WEEK_S, size))
    submit[0] = 0
    runtime = np.exp(rng.normal(7, 1.5, size)).astype(int).clip(1, 200_000)
    columns = {"job_id": range(1, size + 1), "submit_s": submit, "runtime_s": runtime, "procs": np.ones(size, int)}
    columns |= {"requested_s": runtime * 4, "user": [f"u{number}" for number in rng.integers(0, users, size)]}
    return conform(columns, size).astype(dict.fromkeys(REQUIRED, "int64"))


def schedule(jobs: pd.DataFrame, predicted: np.ndarray, name: str, wait: int = 0) -> Schedule:
    return Schedule(schedule_table(jobs, jobs["submit_s"].to_numpy() + wait, predicted), procs=1000, predictor=name)


def rows(quality, predictor: str, by: str, measure: str = "accuracy") -> pd.DataFrame:
    table = quality.measures
    return table[(table["predictor"] == predictor) & (table["by"] == by) & (table["measure"] == measure)].set_index("group")


@pytest.fixture(scope="module")
def jobs() -> pd.DataFrame:
    return trace(np.random.default_rng(1))


@pytest.fixture(scope="module")
def pair(jobs: pd.DataFrame) -> list[Schedule]:
    rng = np.random.default_rng(2)
    runtime = jobs["runtime_s"].to_numpy(float)
    better, worse = (np.maximum(runtime * np.exp(rng.normal(0, spread, len(jobs))), 1.0) for spread in (0.4, 1.2))
    return [schedule(jobs, worse, "last2"), schedule(jobs, better, "better", wait=30_000)]


def completed_by_hand(jobs: pd.DataFrame, replayed: Schedule) -> np.ndarray:
    users, ends, submit = (jobs["user"].to_numpy(), replayed.jobs["end_s"].to_numpy(), jobs["submit_s"].to_numpy())
    return np.array([int(((users == users[j]) & (ends <= submit[j])).sum()) for j in range(len(jobs))])


def test_jobs_are_grouped_by_what_had_ended_in_the_predictors_own_simulation(jobs, pair):
    quality = judge(jobs, pair)
    for replayed in pair:
        done = completed_by_hand(jobs, replayed)
        accuracy = np.minimum(
            *(lambda r, p: (r / p, p / r))(replayed.jobs["runtime_s"].to_numpy(), replayed.jobs["predicted_s"].to_numpy())
        )
        stages = rows(quality, replayed.predictor, "experience")
        expected = {"first": done == 0, "learning": (done > 0) & (done <= 25), "experienced": done > 25}
        for name, chosen in expected.items():
            assert stages.loc[name, "jobs"] == chosen.sum()
            assert stages.loc[name, "value"] == pytest.approx(accuracy[chosen].mean())
        assert stages["jobs"].sum() == len(jobs)
        month = jobs["submit_s"].to_numpy() // MONTH_S
        by_month = rows(quality, replayed.predictor, "month")
        assert by_month["jobs"].tolist() == np.bincount(month).tolist()
        assert by_month["value"].tolist() == pytest.approx([accuracy[month == number].mean() for number in range(month.max() + 1)])
        assert by_month[["low", "high"]].isna().all(axis=None)
    assert not (completed_by_hand(jobs, pair[0]) == completed_by_hand(jobs, pair[1])).all(), "or nothing was tried"


def test_differences_are_paired_and_over_jobs_of_the_same_stage_in_both(jobs, pair):
    quality = judge(jobs, pair)
    done = [completed_by_hand(jobs, each) for each in pair]
    accuracy = [np.minimum(a := each.jobs["predicted_s"].to_numpy() / each.jobs["runtime_s"].to_numpy(), 1 / a) for each in pair]
    everyone = rows(quality, "better", "all").loc["all"]
    assert quality.baseline == "last2"
    assert everyone["difference"] == pytest.approx((accuracy[1] - accuracy[0]).mean())
    assert everyone["difference_low"] > 0, "better than the baseline, and surely"
    both = (done[0] == 0) & (done[1] == 0)
    assert rows(quality, "better", "experience").loc["first", "difference"] == pytest.approx(
        (accuracy[1] - accuracy[0])[both].mean()
    )
    assert (quality.measures.loc[quality.measures["predictor"] == "last2", "difference"].dropna() == 0).all()


def test_what_is_left_out_is_not_judged(jobs, pair):
    leave_out = np.arange(len(jobs)) % 3 == 0
    quality = judge(jobs, pair, leave_out=leave_out)
    error = np.abs(pair[1].jobs["predicted_s"] - pair[1].jobs["runtime_s"])[~leave_out].mean()
    assert quality.jobs == (~leave_out).sum()
    assert rows(quality, "better", "all", "mae_s").loc["all", "value"] == pytest.approx(error)
    with pytest.raises(InputError, match=r"no job is left to judge predictions by \(600 of all 600 left out\)"):
        judge(jobs, pair, leave_out=np.ones(len(jobs), bool))


@pytest.mark.slow
def test_a_true_distribution_is_calibrated_over_all_and_a_biased_one_is_caught():
    rng = np.random.default_rng(5)
    jobs = trace(rng, weeks=26, size=6000, users=60)
    levels = np.array([0.1, 0.5, 0.9])
    true = np.exp(7 + 1.5 * np.sqrt(2) * np.array([-0.9061938, 0.0, 0.9061938]))  # of the lognormal runtimes above
    schedules = {}
    for name, bias in (("true", 1.0), ("short", 0.6)):
        table = pd.DataFrame(np.tile(bias * true, (len(jobs), 1)), columns=list(levels))
        plain = schedule(jobs, jobs["requested_s"].to_numpy(), name)
        schedules[name] = replace(plain, quantiles=table)
    quality = judge(jobs, list(schedules.values()), levels=levels)
    for level in levels:
        group = f"{level:g}"
        true_share, short_share = (quality.figures(name, "level", group)["at_most"] for name in ("true", "short"))
        assert true_share["low"] < level < true_share["high"]
        assert short_share["high"] < level


def test_bad_requests_are_refused_with_what_there_is(jobs, pair):
    with pytest.raises(InputError, match="baseline 'sp2' is not among the judged predictors: last2, better"):
        judge(jobs, pair, baseline="sp2")
    with pytest.raises(InputError, match="each predictor is judged once; last2 is given twice"):
        judge(jobs, [pair[0], pair[0]])
    with pytest.raises(InputError, match=r"quantile levels must be above 0 and below 1, not 1\.5"):
        judge(jobs, pair, levels=(0.5, 1.5))
    assert judge(jobs, [replace(pair[0], predictor="a"), replace(pair[1], predictor="b")]).baseline == "a"
