"""The distribution that a request alone tells."""

from __future__ import annotations

import numpy as np
import pytest

from features.errors import InputError
from models.runtime.names import predictor
from models.runtime.prior import prior
from models.runtime.remaining import LEVELS
from tests.support.workloads import crowd

JOBS = crowd(np.random.default_rng(1), size=50).table()


def test_a_fifth_of_the_jobs_run_to_their_request_and_the_median_is_the_answer() -> None:
    told = prior().quantiles(JOBS)
    asked = JOBS["requested_s"].to_numpy(float)
    assert np.array_equal(told.columns, LEVELS)
    assert np.array_equal(told[LEVELS[31]], asked), "level 0.8"
    assert np.allclose(told[LEVELS[15]], np.maximum(asked / 4, 1)), "level 0.4: a quarter of the request"
    assert np.array_equal(told[LEVELS[19]], prior().estimate(JOBS))
    assert (np.diff(told.to_numpy(), axis=1) >= 0).all()
    assert (told.to_numpy() >= 1).all()


def test_options_and_their_errors() -> None:
    certain = predictor("prior(limit=0,power=0)")
    assert certain.name == "prior(limit=0,power=0)"
    assert np.array_equal(certain.estimate(JOBS), JOBS["requested_s"])
    assert predictor("prior").name == "prior"
    for wrong, why in (("prior(limit=1)", "limit"), ("prior(limit=x)", "limit=x"), ("prior(powers=2)", "powers")):
        with pytest.raises(InputError, match=why):
            predictor(wrong)
