"""Blocks of time: what runs of the same hours share, the machine's state, tells nothing of runs that are judged."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features.errors import InputError
from features.monitoring.samplers import WINDOW_S
from models.variability.evaluation import ClassifierTraining, eliminate, folds, forward, measured, predictions
from models.variability.model import Times, apart, blocked, stretches, times_of

NAMES = ("A", "B", "C")
PERIOD_S = 6 * 3600
OPTIONS = {"extra-trees": {"trees": 8}, "lightgbm": {"trees": 8}}


@pytest.fixture(scope="module")
def signatures() -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Features, runs and periods: every six hours have noise of their own, that every counter shows, and slow runs down or not, at random."""
    rng = np.random.default_rng(0)
    periods, often = 100, 9
    period = np.repeat(np.arange(periods), often)
    start = 1_600_000_000 // 86_400 * 86_400 + period * PERIOD_S + np.tile(np.arange(often), periods) * 2400
    application = np.array(NAMES, object)[rng.integers(0, len(NAMES), len(period))]
    slow = (rng.random(periods) < 0.2)[period]
    runtime = 200.0 * (1 + 0.5 * slow + rng.normal(0, 0.01, len(period)))
    shown = rng.normal(size=(periods, 4))[period] + rng.normal(0, 0.01, (len(period), 4))
    features = pd.DataFrame(np.hstack([shown, rng.normal(size=(len(period), 2))]), columns=[*"wxyz", "noise", "more"])
    return features, pd.DataFrame({"application": application, "start_s": start, "runtime_s": runtime}), period


@pytest.mark.slow
@pytest.mark.parametrize("name", ["extra-trees", "lightgbm", "knn"])
def test_a_signature_of_the_hour_predicts_no_better_than_chance(signatures, name):
    features, runs, _ = signatures
    predicted = predictions({"own": features}, runs, ClassifierTraining((name,), options=OPTIONS))
    measures = measured(predicted)
    chance = predicted["varied"].mean()
    assert 0.1 < chance < 0.3
    assert measures["average_precision"] < chance + 0.1
    assert measures["f1"] < 2 * chance / (1 + chance) + 0.02  # what is got by saying so of every run


def test_elimination_sees_that_a_signature_is_worth_nothing(signatures):
    name = "extra-trees"
    features, runs, _ = signatures
    slow = (runs["runtime_s"] > 250).to_numpy()
    kept = eliminate(name, features, slow.astype(np.int64), times_of(runs), seed=0, options=OPTIONS.get(name))
    assert kept.path["f1"].max() < 2 * slow.mean() / (1 + slow.mean()) + 0.05  # its cutoff is chosen on the very runs that judge it


def test_no_run_that_trains_sees_a_minute_of_a_judged_run():
    """Runs that overlap, and some that take hours: from its window's beginning to its end each has the machine to itself."""
    rng = np.random.default_rng(3)
    start = np.sort(rng.integers(0, 200_000, 300))
    runtime = np.where(rng.random(300) < 0.02, 20_000.0, rng.uniform(10, 900, 300))
    runs = pd.DataFrame({"application": np.array(NAMES, object)[rng.integers(0, 3, 300)], "start_s": start, "runtime_s": runtime})
    parts, left = folds(runs)
    begin, end = start - WINDOW_S, start + runtime
    judged = np.concatenate([fold.test for fold in parts])
    assert len(np.unique(judged)) == len(judged) == len(runs) - left
    for fold in parts:
        for row in fold.test:
            assert ((end[fold.train] < begin[row]) | (begin[fold.train] > end[row])).all()


def test_runs_are_left_out_of_training_only_where_they_touch():
    times = Times(np.array([0.0, 1000, 2000, 2400, 5000]), np.array([100.0, 1700, 2100, 2500, 5100]))
    assert apart(times, np.array([0, 1, 3, 4]), np.array([2])).tolist() == [0, 4]  # 1 ends as the window of 2 begins
    longer = Times(times.start_s, np.array([100.0, 1699, 2099, 2500, 5100]))
    assert apart(longer, np.array([0, 1, 3, 4]), np.array([2])).tolist() == [0, 1, 3, 4]


def test_every_stretch_has_runs_that_varied_and_runs_that_did_not_where_it_can():
    times = Times(np.arange(100.0) * 3600, np.arange(100.0) * 3600 + 60)
    late = np.arange(100) >= 90
    turn = stretches(times, late, 5)
    assert (np.diff(turn) >= 0).all()
    assert np.bincount(turn[late]).tolist() == [2, 2, 2, 2, 2]
    assert np.bincount(turn[~late], minlength=5).min() >= 0
    even = np.arange(100) % 10 == 0
    assert np.bincount(stretches(times, even, 5)).tolist() == [20] * 5
    none = np.zeros(100, bool)
    assert np.bincount(stretches(times, none, 5)).tolist() == [20] * 5
    back = Times(times.start_s[::-1], times.end_s[::-1])
    assert stretches(back, even, 5).tolist() == np.repeat(np.arange(5), 20)[::-1].tolist()
    assert sorted(np.concatenate([judged for _, judged in blocked(times, late, 5)]).tolist()) == list(range(100))


def test_what_varied_in_one_stretch_alone_is_judged_by_no_model_that_knows_no_variation():
    start = 3600 * np.arange(60)
    runtime = np.where(np.isin(np.arange(60), (3, 5, 6)), 150.0, 100.0)
    runs = pd.DataFrame({"application": "A", "start_s": start, "runtime_s": runtime})
    parts, left = folds(runs)
    assert (len(parts), left) == (4, 12)
    assert all(fold.train_label.sum() == 3 for fold in parts)
    once = runs.assign(runtime_s=np.where(np.isin(np.arange(60), (3, 4, 5)), 150.0, 100.0), start_s=np.minimum(start, 20_000))
    with pytest.raises(InputError, match="none of 60 runs can be judged: 3 of them varied, all in one of 5 stretches"):
        folds(once.assign(runtime_s=once["runtime_s"].where(once.index < 6, 100.0), start_s=100))


def test_what_judges_a_challenger_begins_a_window_after_what_taught_it(monkeypatch, signatures):
    features, runs, _ = signatures
    taught = []

    def watched(name, features, label, **given):
        taught.append(given["times"].end_s.max())
        raise StopIteration

    monkeypatch.setattr("models.variability.evaluation.fit", watched)
    first = int(np.argmax(runs["start_s"].to_numpy() > runs["start_s"].iloc[600]))
    long = runs.assign(runtime_s=np.where(np.arange(len(runs)) == first - 1, 2400 - WINDOW_S + 1.0, runs["runtime_s"]))
    with pytest.raises(StopIteration):
        forward(features, long, int(long["start_s"].iloc[first]) - WINDOW_S - 1, ClassifierTraining(("extra-trees",)))
    assert taught[0] < long["start_s"].iloc[first] - WINDOW_S
