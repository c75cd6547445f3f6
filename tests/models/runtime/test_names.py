"""Names of predictors: what their options may be, how a schedule spells them, and the prior."""

from __future__ import annotations

import numpy as np
import pytest

from features.errors import InputError
from models.runtime.distribution import LEVELS
from models.runtime.names import predictor, prior
from tests.support.workloads import crowd

WHOLE, RATIO = "must be a whole number", "must be a finite number, above 0, at most 1"
SEED = "must be a finite number, at least 0, at most 2.14748e+09"
LEVEL = "must be a finite number, at least 0.001, at most 0.999"
REFUSED = [
    ("hierarchy(beta=1)", "unknown option 'beta'; known: alpha, templates"),
    ("hierarchy(alpha=0)", f"alpha=0: {RATIO}"),
    ("hierarchy(templates=7)", "templates=7; known: 16, 15"),
    ("knn(n=1)", "unknown option 'n'; known: k, window"),
    ("knn(k=0)", "k=0: must be a finite number, at least 1, at most 25"),
    ("knn(k=26)", "k=26: must be a finite number, at least 1, at most 25"),
    ("knn(k=4,window=3)", "k=4: must be a finite number, at least 1, at most 3"),
    ("knn(k=1.5)", f"k=1.5: {WHOLE}"),
    ("knn(window=1001)", "window=1001: must be a finite number, at least 1, at most 1000"),
    ("lightgbm(rate=1)", "unknown option 'rate'; known: trees, leaves, jobs, seed, every"),
    ("lightgbm(trees=0)", "trees=0: must be a finite number, at least 1, at most 10000"),
    ("lightgbm(leaves=1)", "leaves=1: must be a finite number, at least 2, at most 10000"),
    ("lightgbm(jobs=199)", "jobs=199: must be a finite number, at least 200, at most 1e+07"),
    ("lightgbm(seed=-1)", f"seed=-1: {SEED}"),
    ("lightgbm(trees=1.5)", f"trees=1.5: {WHOLE}"),
    ("nag(rate=1)", "unknown option 'rate'; known: over, under, threshold, weight, eta, lambda"),
    ("nag(weight=log-area)", "weight=log-area; did you mean large-area?"),
    ("nag(over=cubic)", "over=cubic; known: absolute, square, exponential, with a factor in front as in 100*square"),
    ("nag(over=x*square)", "over=x*square: 'x' is not a number"),
    ("nag(over=0*square)", "over=0*square: must be a finite number, above 0"),
    ("nag(eta=0)", "eta=0: must be a finite number, above 0"),
    ("nag(eta=nan)", "eta=nan: must be a finite number, above 0"),
    ("cv-triple(lambda=-1)", "lambda=-1: must be a finite number, at least 0"),
    ("cv-triple(threshold=inf)", "threshold=inf: must be a finite number"),
    ("cv-triple(eta=)", "'eta=' is not of the form option=value"),
    ("cv-triple(eta)", "'eta' is not of the form option=value"),
    ("cv-triple(eta=1,eta=2)", "option eta is given twice"),
    ("okcm(rate=1)", "unknown option 'rate'; known: delta, eta, lambda, k, switch, weights, base"),
    ("okcm(delta=0)", "delta=0: must be a finite number, above 0"),
    ("okcm(lambda=-1)", "lambda=-1: must be a finite number, at least 0"),
    ("okcm(k=0)", "k=0: must be a finite number, at least 1, at most 1000"),
    ("okcm(switch=2.5)", f"switch=2.5: {WHOLE}"),
    ("okcm(switch=-1)", "switch=-1: must be a finite number, at least 0, at most 1000"),
    ("okcm(weights=mine)", "weights=mine; known: user, shared"),
    ("okcm(base=first)", "base=first; known: zero, last"),
    ("prior(limit=1)", "limit=1: must be a finite number, at least 0, at most 0.99"),
    ("prior(powers=2)", "unknown option 'powers'; did you mean power?"),
    ("quantile(level=0.5)", "unknown option 'level'; known: order, fit, end, rate, seed, every"),
    ("quantile(order=0)", f"order=0: {LEVEL}"),
    ("quantile(order=half)", "order=half: 'half' is not a number"),
    ("quantile(fit=0.9995)", f"fit=0.9995: {LEVEL}"),
    ("quantile(fit=accuracy)", "fit=accuracy: 'accuracy' is not a number"),
    ("quantile(end=accuracy)", "end=accuracy: 'accuracy' is not a number"),
    ("quantile(rate=-0.1)", "rate=-0.1: must be a finite number, at least 0, at most 1"),
    ("quantile(seed=-1)", f"seed=-1: {SEED}"),
    ("quantile(seed=0.5)", f"seed=0.5: {WHOLE}"),
    ("sp(alpha=1)", "unknown option 'alpha'; known: x, decay, seed"),
    ("sp(x=0)", "x=0: must be a finite number, above 0, at most 100"),
    ("sp(decay=0)", f"decay=0: {RATIO}"),
    ("sp(seed=-1)", "seed=-1: must be a finite number, at least 0"),
]


@pytest.mark.parametrize(("name", "message"), REFUSED)
def test_options_that_cannot_be_are_refused(name: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        predictor(name)
    assert str(error.value) == f"predictor {name}: {message}"


@pytest.mark.parametrize("name", ["nag()", "nag(", "nag(eta=1", "last2(eta=1)", "nags", "nag(eta=1)x", "sp5", "sp2(x=3)", "sp("])
def test_names_that_cannot_be_are_refused_with_what_is_known(name: str) -> None:
    with pytest.raises(InputError, match=r"unknown predictor '.+'; (known: .*cv-triple|did you mean)"):
        predictor(name)


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
