"""The distribution that a request alone tells."""

from __future__ import annotations

import numpy as np

from models.runtime.distribution import LEVELS
from models.runtime.names import predictor, prior
from tests.support.workloads import crowd

JOBS = crowd(np.random.default_rng(1), size=50).table()


def test_half_of_the_jobs_run_to_their_request_and_the_median_is_the_answer() -> None:
    table = prior().quantiles(JOBS)
    asked = JOBS["requested_s"].to_numpy(float)
    assert np.array_equal(table.columns, LEVELS)
    assert np.array_equal(table[LEVELS[20]], asked), "above the median"
    assert np.allclose(table[LEVELS[9]], np.maximum(asked / 4, 1)), "level 1/4: a quarter of the request"
    for source in (prior(), prior(limit="0.2"), prior(limit="0")):
        assert source.quantiles is not None
        assert np.allclose(source.quantiles(JOBS)[LEVELS[19]], source.estimate(JOBS))
    assert (np.diff(table.to_numpy(), axis=1) >= 0).all()
    assert (table.to_numpy() >= 1).all()


def test_without_a_doubt_it_is_the_request() -> None:
    assert np.array_equal(predictor("prior(limit=0,power=0)").estimate(JOBS), JOBS["requested_s"])
