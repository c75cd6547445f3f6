"""Metrics against published numbers, exact rational arithmetic and hand-made schedules."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim.metrics.names import METRICS
from sim.metrics.schedule_metrics import bounded_slowdown, evaluate, ratios
from sim.schedule import Schedule
from tests.conftest import SHARED, needs_shared


def schedule_of(submit, wait, runtime, procs, *, predicted=None, requested=None, user=None, machine=10, **fields) -> Schedule:
    submit, wait, runtime = (np.asarray(values, np.int64) for values in (submit, wait, runtime))
    jobs = pd.DataFrame(
        {
            "job_id": np.arange(1, len(submit) + 1),
            "submit_s": submit,
            "start_s": submit + wait,
            "end_s": submit + wait + runtime,
            "procs": np.asarray(procs, np.int64),
            "runtime_s": runtime,
            "requested_s": runtime if requested is None else np.asarray(requested, np.int64),
            "user": pd.Categorical(["u"] * len(submit) if user is None else user),
            "predicted_s": np.asarray(runtime if predicted is None else predicted, np.float64),
            "corrections": np.zeros(len(submit), np.int64),
        }
    )
    return Schedule(jobs=jobs, procs=machine, **fields)


def reference(name: str, column: str, machine: int = 100) -> Schedule:
    """A schedule of the reference material, ``start_<column>`` of ``<name>.parquet``."""
    table = pd.read_parquet(SHARED / "schedules" / f"{name}.parquet")
    predicted = table.get(f"predicted_{column}", table["requested"])
    wait = table[f"start_{column}"] - table["submit"]
    schedule = schedule_of(
        table["submit"],
        wait,
        table["runtime"],
        table["procs"],
        predicted=predicted,
        requested=table["requested"],
        user=table["user"],
        machine=machine,
    )
    schedule.jobs["corrections"] = table.get(f"corrections_{column}", 0)
    return schedule


def exact_p2sf(schedule: Schedule) -> Fraction:
    above = below = Fraction(0)
    for job in schedule.jobs.itertuples():
        wait = int(job.start_s - job.submit_s)
        response = wait + int(job.runtime_s)
        above += int(job.procs) * (response**4 - wait**4)
        below += int(job.procs) * (response**3 - wait**3)
    return Fraction(3, 4) * above / below


jobs_of_any_size = st.lists(
    st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 10**7), st.integers(1, 10**5)), min_size=1, max_size=8
)


def test_every_metric_of_two_jobs_worked_out_by_hand():
    # Job 1: 4 processors, starts at once, runs 100 s. Job 2: 2 processors, waits 90 s, runs 5 s (below tau).
    schedule = schedule_of(
        [0, 10], [0, 90], [100, 5], [4, 2], predicted=[100, 4], user=["a", "b"], clamped_predictions=3, simulate_s=0.5
    )
    schedule.jobs["corrections"] = [0, 2]
    record = evaluate(schedule)
    above, below = 4 * 100**4 + 2 * (95**4 - 90**4), 4 * 100**3 + 2 * (95**3 - 90**3)
    expected = {
        "jobs": 2,
        "mean_wait_s": 45.0,
        "mean_response_s": (100 + 95) / 2,
        "mean_slowdown": (1 + 19) / 2,
        "mean_bounded_slowdown": (1 + 9.5) / 2,
        "max_bounded_slowdown": 9.5,
        "awf_s": (400 * 100 + 10 * 95) / 410,
        "p2sf_s": 0.75 * above / below,
        "longest_wait_s": 90.0,
        "max_wait_s": 90.0,
        "utilization": 410 / (10 * 105),
        "makespan_s": 105,
        "throughput_per_day": 2 * 86_400 / 105,
        "carried_load": 410 / (10 * 105),
        "underpredicted_jobs": 1,
        "corrections": 2,
        "nuwt_mean": (0 + 90 / 10) / 2,
        "nuwt_sd": 4.5,
        "clamped_predictions": 3,
        "simulate_s": 0.5,
    }
    assert list(record.index) == list(expected)
    assert record.to_dict() == pytest.approx(expected, rel=1e-14)


def test_the_longest_wait_is_that_of_each_week_of_submission_on_the_mean():
    week = 7 * 86_400
    submit, wait = [50, 50 + week - 1, 50 + week, 60 + 3 * week], [10, 40, 7, 100]  # no job in the third week
    assert evaluate(schedule_of(submit, wait, [5] * 4, [1] * 4))["longest_wait_s"] == (40 + 7 + 100) / 3


def test_a_metric_that_a_schedule_does_not_have_is_nan():
    record = evaluate(schedule_of([0], [5], [10], [1], user=pd.Categorical.from_codes([-1], categories=["x"])))
    assert record.index[record.isna()].tolist() == ["nuwt_mean", "nuwt_sd"]


def test_bounded_slowdown_is_at_least_one_and_takes_tau_from_the_caller():
    schedule = schedule_of([0, 0, 0], [0, 3, 90], [1, 1, 10], [1, 1, 1])
    np.testing.assert_array_equal(bounded_slowdown(schedule), [1.0, 1.0, 10.0])
    np.testing.assert_array_equal(bounded_slowdown(schedule, tau_s=1.0), [1.0, 4.0, 10.0])
    assert evaluate(schedule, tau_s=1.0)["mean_bounded_slowdown"] == 5.0


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(jobs_of_any_size)
def test_p2sf_agrees_with_exact_fractions(jobs):
    schedule = schedule_of(*zip(*jobs, strict=True))
    assert evaluate(schedule)["p2sf_s"] == pytest.approx(float(exact_p2sf(schedule)), rel=1e-13)


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(jobs_of_any_size)
def test_ratios_of_sums_give_the_metrics(jobs):
    schedule = schedule_of(*zip(*jobs, strict=True), predicted=[100.0] * len(jobs))
    record = evaluate(schedule)
    for name, ratio in ratios(schedule).items():
        expected = record["underpredicted_jobs"] / record["jobs"] if name == "underprediction_rate" else record[name]
        assert ratio.numerator.sum() / ratio.denominator.sum() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("schedule", "cause"),
    [
        (schedule_of([], [], [], []), "has no jobs"),
        (schedule_of([0, 9], [0, -1], [1, 1], [1, 1], trace="t"), "of t: job 2 starts before its submission"),
        (schedule_of([0, 9], [0, 0], [0, 1], [1, 1]), "job 1 has no runtime"),
    ],
)
def test_a_schedule_that_cannot_be_measured_is_refused(schedule, cause):
    with pytest.raises(InputError, match=cause):
        evaluate(schedule)


@needs_shared
@pytest.mark.parametrize(
    ("name", "column", "expected"),
    [
        ("kth-sp2", "easy_requested", {"mean_response_s": 15696.80, "awf_s": 75545.78, "p2sf_s": 140657.81}),
        ("kth-sp2", "sjbf_clairvoyant", {"awf_s": 74462.66, "p2sf_s": 138628.28}),
        ("kth-sp2-per-second", "strict_fcfs", {"mean_bounded_slowdown": 6814.9733, "mean_wait_s": 353776.4091}),
        ("kth-sp2-per-second", "list_fcfs", {"mean_bounded_slowdown": 71.4535, "mean_wait_s": 5719.3615}),
        ("kth-sp2-per-second", "easy_requested", {"mean_bounded_slowdown": 92.6877, "mean_wait_s": 6834.5873}),
        ("kth-sp2-per-second", "sjbf_requested", {"mean_bounded_slowdown": 69.3936}),
        ("kth-sp2-per-second", "justbf_requested", {"mean_bounded_slowdown": 101.83, "awf_s": 74724, "p2sf_s": 132225}),
    ],
)
def test_metrics_of_reference_schedules_are_the_verified_ones(name, column, expected):
    schedule = reference(name, column)
    record = evaluate(schedule)
    for metric, value in expected.items():
        digits = len(str(value).partition(".")[2])
        assert round(record[metric], digits) == value, metric


def test_jobs_that_do_not_wait_are_better_by_every_metric_that_differs():
    submit, runtime, procs, user = [0, 100, 200, 86_400], [3600, 60, 600, 7200], [1, 2, 4, 2], ["a", "b", "a", "c"]

    def measured(wait: list[int]) -> dict:
        return dict(evaluate(schedule_of(submit, wait, runtime, procs, user=user)))

    prompt, late = measured([0] * 4), measured([9000, 20_000, 30_000, 90_000])
    differ = {name for name in METRICS if name in prompt and abs(prompt[name] - late[name]) > 0}
    assert {"mean_wait_s", "utilization", "throughput_per_day", "carried_load", "nuwt_mean"} <= differ
    assert {name for name in differ if (prompt[name] < late[name]) != METRICS[name].lower_is_better} == set()


def test_nuwt_is_total_wait_over_processor_seconds_used_by_known_users():
    schedule = schedule_of([0, 0, 5, 5], [10, 80, 2, 9], [100, 50, 4, 1], [2, 1, 1, 1], user=["a", "b", "a", None])
    values = [12 / 204, 80 / 50]
    assert evaluate(schedule)[["nuwt_mean", "nuwt_sd"]].tolist() == pytest.approx([np.mean(values), np.std(values)])
