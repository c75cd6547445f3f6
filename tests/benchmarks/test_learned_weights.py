"""Weights know what had ended at a submission, and nothing later."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.papers.legrand import learned_weights
from benchmarks.papers.legrand.learned_weights import (
    EDGES_S,
    MIDDLES_S,
    History,
    index_s,
    of_trees,
    weight_of_chances,
    weight_of_quantiles,
)
from features.clock import WEEK_S
from tests.support.learning import workload

JOBS = workload(jobs=700, weeks=4, seed=2)[0]
START = (JOBS["submit_s"] - JOBS["submit_s"].iloc[0]).to_numpy(np.int64) + 60


def test_features_do_not_change_with_what_ends_later() -> None:
    plain = History(JOBS, START).features()
    at = len(JOBS) // 2
    now = int(JOBS["submit_s"].iloc[at] - JOBS["submit_s"].iloc[0])
    later = START + JOBS["runtime_s"].to_numpy(np.int64) > now
    changed = JOBS.assign(runtime_s=np.where(later, JOBS["requested_s"], JOBS["runtime_s"]))
    other = History(changed, START).features()
    before = JOBS["submit_s"] <= JOBS["submit_s"].iloc[at]
    np.testing.assert_array_equal(plain[before], other[before])
    assert not np.array_equal(plain, other, equal_nan=True), "later features see the ends"


def test_trees_are_trained_on_what_had_ended_by_the_week(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_weights, "ENOUGH", 50)
    monkeypatch.setattr(learned_weights, "ROUNDS", 4)
    plain = of_trees(History(JOBS, START))
    week = (JOBS["submit_s"] - JOBS["submit_s"].iloc[0]).to_numpy() // WEEK_S
    last = week == week.max()
    changed = JOBS.assign(runtime_s=np.where(last, 7, JOBS["runtime_s"]))
    other = of_trees(History(changed, START))
    first_of_last = np.flatnonzero(last)[0]
    np.testing.assert_array_equal(plain[: first_of_last + 1], other[: first_of_last + 1])
    assert np.isnan(plain[week == 0]).all()
    assert np.isfinite(plain[last]).all()


def test_a_weight_is_the_mean_of_one_over_the_runtime() -> None:
    sure = np.eye(len(MIDDLES_S))
    asked = np.full(len(MIDDLES_S), 1e6)
    np.testing.assert_allclose(weight_of_chances(sure, asked), 1 / np.maximum(MIDDLES_S, 60.0), rtol=1e-3)
    short = weight_of_chances(np.ones((1, len(MIDDLES_S))), np.array([EDGES_S[2]]))
    assert short[0] == pytest.approx(1 / 60), "no runtime exceeds its request"
    quantiles = pd.DataFrame([[10.0, 60.0, 600.0]])
    assert weight_of_quantiles(quantiles)[0] == pytest.approx((1 / 60 + 1 / 60 + 1 / 600) / 3)
    assert index_s(np.array([3600.0, 30.0]), np.array([1 / 100, 1 / 60])).tolist() == [600.0, 30.0]
