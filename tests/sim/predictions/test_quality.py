"""Judging schedules: groups of jobs counted by hand, figures against plain ones, differences paired, and what cannot be said is not said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S, WEEK_S
from features.errors import InputError
from features.jobs.schema import REQUIRED, conform
from models.runtime.distribution import runtimes_so_far
from models.runtime.quantile import USUAL
from sim import Schedule
from sim.predictions.quality import MONTH_S, judge
from sim.predictions.sharpness import CONSTANT, NO_FEATURES, RANDOM, REFERENCES, outside, update_rate
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


def clock(jobs: pd.DataFrame) -> np.ndarray:
    return jobs["submit_s"].to_numpy(np.int64)


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
    quality = judge(jobs, pair, clock(jobs))
    for replayed in pair:
        done = completed_by_hand(jobs, replayed)
        accuracy = np.minimum(
            *(lambda r, p: (r / p, p / r))(replayed.jobs["runtime_s"].to_numpy(), replayed.jobs["predicted_s"].to_numpy())
        )
        stages = rows(quality, replayed.predictor, "experience")
        bins = rows(quality, replayed.predictor, "completed")
        expected = {"first": done == 0, "learning": (done > 0) & (done <= 25), "experienced": done > 25}
        for name, chosen in expected.items():
            assert stages.loc[name, "jobs"] == chosen.sum()
            assert stages.loc[name, "value"] == pytest.approx(accuracy[chosen].mean())
        for name, chosen in {
            "0": done == 0,
            "1": done == 1,
            "3-4": (done >= 3) & (done <= 4),
            "33-64": (done > 32) & (done <= 64),
        }.items():
            assert bins.loc[name, "jobs"] == chosen.sum()
            assert bins.loc[name, "value"] == pytest.approx(accuracy[chosen].mean())
        assert bins["jobs"].sum() == stages["jobs"].sum() == len(jobs)
        month = jobs["submit_s"].to_numpy() // MONTH_S
        by_month = rows(quality, replayed.predictor, "month")
        assert by_month["jobs"].tolist() == np.bincount(month).tolist()
        assert by_month["value"].tolist() == pytest.approx([accuracy[month == number].mean() for number in range(month.max() + 1)])
        assert by_month[["low", "high"]].isna().all(axis=None)
    assert not (completed_by_hand(jobs, pair[0]) == completed_by_hand(jobs, pair[1])).all(), "or nothing was tried"


def test_differences_are_paired_and_over_jobs_of_the_same_stage_in_both(jobs, pair):
    quality = judge(jobs, pair, clock(jobs))
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


def test_halves_share_out_the_jobs_and_what_is_left_out_is_not_judged(jobs, pair):
    leave_out = np.arange(len(jobs)) % 3 == 0
    parts = {part: judge(jobs, pair, clock(jobs), part=part, leave_out=leave_out) for part in ("all", "first-half", "second-half")}
    assert parts["all"].jobs == (~leave_out).sum() == parts["first-half"].jobs + parts["second-half"].jobs
    half = len(jobs) // 2
    chosen = ~leave_out & (np.arange(len(jobs)) >= half)
    error = np.abs(pair[1].jobs["predicted_s"] - pair[1].jobs["runtime_s"])[chosen].mean()
    assert rows(parts["second-half"], "better", "all", "mae_s").loc["all", "value"] == pytest.approx(error)
    # months keep counting from the first submission of the trace
    assert rows(parts["second-half"], "better", "month").index[0] == str(jobs["submit_s"][half] // MONTH_S + 1)
    with pytest.raises(InputError, match=r"no job is left to judge predictions by \(part all, 600 of all 600 left out\)"):
        judge(jobs, pair, clock(jobs), leave_out=np.ones(len(jobs), bool))


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
    quality = judge(jobs, list(schedules.values()), clock(jobs))
    curve = quality.calibration.set_index(["predictor", "level"])
    for level in levels:
        row = curve.loc["true", level]
        assert row["at_most_low"] < level < row["at_most_high"]
        assert curve.loc[("short", level), "at_most_high"] < level
    windows = quality.sharpness.windows.groupby("predictor")["inside"].mean()
    assert windows["true"] > 0.9
    assert windows["short"] < 0.4
    rates = quality.sharpness.windows
    one = rates[(rates["predictor"] == "true") & (rates["level"] == 0.9)].iloc[1]
    chosen = jobs["submit_s"].to_numpy() // MONTH_S == 1
    error = pd.Series((jobs["runtime_s"].to_numpy() > true[2]) - 0.1)[chosen]
    by_user_and_day = error.groupby([jobs["user"].astype(str)[chosen], jobs["submit_s"][chosen] // DAY_S]).sum()
    assert one["high"] - 0.1 == pytest.approx(2.5758293 * np.sqrt((by_user_and_day**2).sum()) / chosen.sum())
    score = quality.sharpness.scores.set_index("predictor")["crps_s"]
    assert score["true"] < score["short"]


def forecasts(jobs: pd.DataFrame) -> list[Schedule]:
    """Of one schedule: requests, a point, and a distribution that knows each job's runtime to a factor, calibrated as ``quantile`` says it is."""
    runtime = jobs["runtime_s"].to_numpy(float)
    noise = np.exp(0.5 * np.random.default_rng(11).normal(size=len(jobs)))
    spread = np.exp(0.5 * np.array([-1.2815516, -0.6744898, 0.0, 0.6744898, 0.8416212, 1.6448536]))
    table = pd.DataFrame(np.outer(runtime * noise, spread), columns=[0.1, 0.25, 0.5, 0.75, 0.8, 0.95])
    points = [schedule(jobs, jobs["requested_s"].to_numpy(float), "requested"), schedule(jobs, runtime * noise, "last2")]
    return [*points, replace(schedule(jobs, runtime * noise, "quantile"), quantiles=table)]


def test_a_distribution_is_scored_beside_the_request_points_and_what_knows_nothing(jobs):
    schedules = forecasts(jobs)
    judged = judge(jobs, schedules, clock(jobs)).sharpness
    runtime = jobs["runtime_s"].to_numpy(float)
    scores = judged.scores.set_index("predictor")
    assert scores["kind"].to_dict() == {
        "requested": "point",
        "last2": "point",
        "quantile": "distribution",
        **dict.fromkeys(REFERENCES, "reference"),
    }
    # of a point the score is its absolute error, and the difference is to the bare request
    assert scores.at["requested", "crps_s"] == pytest.approx(np.abs(jobs["requested_s"] - runtime).mean())
    assert scores.at["last2", "crps_s"] == pytest.approx(np.abs(schedules[1].jobs["predicted_s"] - runtime).mean())
    assert scores["difference"].to_numpy() == pytest.approx((scores["crps_s"] - scores.at["requested", "crps_s"]).to_numpy())
    assert scores.at["quantile", "difference_high"] < 0
    assert scores["crps_s"].idxmin() == "quantile"
    loss = judged.losses.set_index(["predictor", "level"])["pinball_s"]
    short = runtime - schedules[2].quantiles[0.5]
    assert loss["quantile", 0.5] == pytest.approx(np.abs(short).mean() / 2)
    assert loss["requested", 0.95] == pytest.approx(0.05 * (3 * runtime).mean())
    so_far = runtimes_so_far(
        clock(jobs), schedules[2].jobs["end_s"].to_numpy(), runtime, jobs["requested_s"].to_numpy(), np.array([0.8])
    )
    short = runtime - so_far[:, 0]
    assert loss[NO_FEATURES, 0.8] == pytest.approx(np.maximum(0.8 * short, -0.2 * short).mean())


def test_coverage_is_told_by_tenths_of_the_request_by_width_and_by_work(jobs):
    wide = jobs.assign(procs=np.where(np.arange(len(jobs)) % 3 == 0, 6, 1))
    schedules = [replace(each, jobs=each.jobs.assign(procs=wide["procs"])) for each in forecasts(jobs)]
    table = judge(wide, schedules, clock(jobs)).sharpness.coverage
    mine = table[(table["predictor"] == "quantile") & (table["level"] == 0.8)]
    runtime, request = jobs["runtime_s"].to_numpy(float), jobs["requested_s"].to_numpy()
    holds = runtime <= schedules[2].quantiles[0.8].to_numpy()
    work = runtime * wide["procs"].to_numpy()
    whole = mine[mine["by"] == "all"].iloc[0]
    assert whole["at_most"] == pytest.approx(holds.mean())
    assert whole["work_at_most"] == pytest.approx((work * holds).sum() / work.sum())
    width = mine[mine["by"] == "width"].set_index("begin")
    assert width["jobs"].to_dict() == {1.0: (wide["procs"] == 1).sum(), 5.0: (wide["procs"] == 6).sum()}
    assert width.at[5.0, "at_most"] == pytest.approx(holds[wide["procs"] == 6].mean())
    tenths = mine[mine["by"] == "request"]
    assert tenths["jobs"].sum() == len(jobs)
    longest = tenths.iloc[-1]
    assert longest["at_most"] == pytest.approx(holds[request >= longest["begin"]].mean())


def test_only_where_levels_are_updated_is_there_a_band_with_feedback(jobs):
    schedules = forecasts(jobs)
    frozen = replace(schedules[2], predictor="quantile(rate=0)")
    rates = judge(jobs, [schedules[0], schedules[2], frozen], clock(jobs)).sharpness.windows
    band = rates.assign(band=rates["feedback_low"].notna()).groupby("predictor")["band"].agg(["all", "any"])
    assert band["all"].to_dict() == band["any"].to_dict()
    assert band["all"].to_dict() == {"quantile": True, "quantile(rate=0)": False, NO_FEATURES: False, CONSTANT: True, RANDOM: True}
    counted = outside(rates).set_index(["predictor", "level"])
    assert counted["with_feedback"].isna().sum() == 6
    mine = rates[(rates["predictor"] == "quantile") & (rates["level"] == 0.8)]
    assert counted.at[("quantile", 0.8), "by_chance"] == (~mine["inside"]).sum()
    assert counted.at[("quantile", 0.8), "rate"] == pytest.approx((jobs["runtime_s"] > schedules[2].quantiles[0.8]).mean())
    assert [update_rate(name) for name in ("quantile", "quantile(order=accuracy,rate=0.02)", "nag", "quantile(rate=0)")] == [
        float(USUAL["rate"]),
        0.02,
        0.0,
        0.0,
    ]


def test_bad_requests_are_refused_with_what_there_is(jobs, pair):
    with pytest.raises(InputError, match="baseline 'sp2' is not among the judged predictors: last2, better"):
        judge(jobs, pair, clock(jobs), baseline="sp2")
    with pytest.raises(InputError, match="each predictor is judged once; last2 is given twice"):
        judge(jobs, [pair[0], pair[0]], clock(jobs))
    with pytest.raises(InputError, match="unknown part 'third'; known: all, first-half, second-half"):
        judge(jobs, pair, clock(jobs), part="third")
    with pytest.raises(InputError, match=r"quantile levels must be above 0 and below 1, not 1\.5"):
        judge(jobs, pair, clock(jobs), levels=(0.5, 1.5))
    assert judge(jobs, [replace(pair[0], predictor="a"), replace(pair[1], predictor="b")], clock(jobs)).baseline == "a"
