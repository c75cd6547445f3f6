"""Walk-forward prediction: what a week's model saw, and that nothing later reaches it."""

from __future__ import annotations

import numpy as np
import pytest

from features.clock import WEEK_S
from models.registry.walk_forward import ENOUGH_JOBS, walk_forward
from models.runtime.evaluation import evaluate_predictions
from models.runtime.gradient_boosting import GradientBoosting, fit, predict
from tests.support.learning import inputs_of, workload


@pytest.fixture(scope="module")
def trace():
    jobs, start = workload()
    return jobs, start, inputs_of(jobs, start), start + jobs["runtime_s"].to_numpy()


def test_a_week_is_predicted_by_a_model_of_the_jobs_ended_before_it_began(trace):
    jobs, _, inputs, end = trace
    submit = jobs["submit_s"].to_numpy()
    walked = walk_forward(jobs, inputs, end)
    begin = submit[0] + 3 * WEEK_S
    ended, asked = np.flatnonzero(end < begin), np.flatnonzero((submit >= begin) & (submit < begin + WEEK_S))
    booster = fit(GradientBoosting(), inputs.iloc[ended], jobs["runtime_s"].to_numpy()[ended])
    np.testing.assert_array_equal(walked.predicted_s[asked], predict(booster, inputs.iloc[asked]))
    assert walked.models.loc[walked.model[asked[0]], "trained_jobs"] == len(ended)


def test_weeks_without_enough_ended_jobs_predict_the_request_and_are_counted(trace):
    jobs, _, inputs, end = trace
    walked = walk_forward(jobs, inputs, end)
    submit = jobs["submit_s"].to_numpy()
    early = submit < submit[0] + WEEK_S
    assert (end < submit[0]).sum() < ENOUGH_JOBS
    np.testing.assert_array_equal(walked.predicted_s[early], jobs["requested_s"].to_numpy()[early])
    assert walked.fallback_jobs == early.sum() > 0


def test_runtimes_of_jobs_not_ended_when_a_week_begins_do_not_reach_its_model(trace):
    jobs, _, inputs, end = trace
    submit, random = jobs["submit_s"].to_numpy(), np.random.default_rng(2)
    begin = submit[0] + 3 * WEEK_S
    later = end >= begin
    changed = jobs.assign(runtime_s=np.where(later, random.integers(1, 999, len(jobs)), jobs["runtime_s"]))
    before = submit < begin + WEEK_S
    other = walk_forward(changed, inputs, np.where(later, end + random.integers(0, 99_999, len(end)), end))
    np.testing.assert_array_equal(other.predicted_s[before], walk_forward(jobs, inputs, end).predicted_s[before])


@pytest.mark.parametrize("row", [900, 1700, 2900])
def test_a_prediction_does_not_change_when_everything_after_the_submission_does(trace, row):
    jobs, start, inputs, end = trace
    submit, random = jobs["submit_s"].to_numpy(), np.random.default_rng(3)
    now = submit[row]
    unknown = end > now  # this job itself among them
    runtime = np.where(unknown, jobs["requested_s"].to_numpy() * 7 + random.integers(1, 9999, len(jobs)), jobs["runtime_s"])
    runtime = np.where(unknown, np.maximum(runtime, now - start + 1), runtime)
    after = submit > now
    changed = jobs.assign(
        runtime_s=runtime,
        procs=np.where(after, 99, jobs["procs"]),
        requested_s=np.where(after, 77_777, jobs["requested_s"]),
        user=jobs["user"].where(~after, "user0"),
    )
    changed_start = np.where(start > now, start + random.integers(0, 5000, len(jobs)), start)
    again = walk_forward(changed, inputs_of(changed, changed_start), changed_start + runtime)
    assert again.predicted_s[row] == walk_forward(jobs, inputs, end).predicted_s[row]
    assert not np.array_equal(again.predicted_s[row + 1 :], walk_forward(jobs, inputs, end).predicted_s[row + 1 :])


def test_learning_beats_the_request_and_stays_within_it(trace):
    jobs, _, inputs, end = trace
    walked, runtime, requested = walk_forward(jobs, inputs, end), jobs["runtime_s"].to_numpy(), jobs["requested_s"].to_numpy()
    assert ((walked.predicted_s >= 1) & (walked.predicted_s <= requested)).all()
    assert (
        evaluate_predictions(walked.predicted_s, runtime)["accuracy"] > evaluate_predictions(requested, runtime)["accuracy"] + 0.1
    )


def test_the_booster_is_the_same_whatever_the_number_of_threads(trace):
    jobs, _, inputs, _ = trace
    one, two = (fit(GradientBoosting(trees=5, threads=n), inputs, jobs["runtime_s"].to_numpy()) for n in (1, 2))
    np.testing.assert_array_equal(predict(one, inputs), predict(two, inputs))


def test_a_booster_refuses_inputs_of_other_columns(trace):
    jobs, _, inputs, _ = trace
    booster = fit(GradientBoosting(trees=1), inputs, jobs["runtime_s"].to_numpy())
    with pytest.raises(ValueError, match="other columns"):
        predict(booster, inputs[inputs.columns[::-1]])


def test_progress_is_told_of_every_week(trace):
    jobs, _, inputs, end = trace
    told = []
    walk_forward(jobs, inputs, end, config=GradientBoosting(trees=1), progress=lambda done, of: told.append((done, of)))
    assert told == [(n, 6) for n in range(1, 7)]
