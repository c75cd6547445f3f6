"""The learners compiled into the simulator, ``cv-triple`` and ``nag``: as the plain-Python ones, blind to the future, and clear about their options."""

from __future__ import annotations

from itertools import cycle, product

import numpy as np
import pytest
from hypothesis import strategies as st

from features.errors import InputError
from sim.campaigns.learned_order import MIXED, PreparedSweep, random_weights
from tests.models.runtime.by_hand import agree
from tests.oracle.nag import SLOPES, WEIGHTS, NagByHand
from tests.support.workloads import crowd


@st.composite
def nags(draw: st.DrawFn) -> NagByHand:
    """Any curves, weight and rates; an exponential's factor is kept small, for its slope grows without bounds."""

    def curve() -> tuple[float, str]:
        kind = draw(st.sampled_from(sorted(SLOPES)))
        return draw(st.sampled_from([1e-4, 1e-3] if kind == "exponential" else [0.5, 1.0, 100.0])), kind

    return NagByHand(
        published=draw(st.booleans()),
        over=curve(),
        under=curve(),
        threshold=draw(st.sampled_from([0.0, -3.0, 60.0])),
        weight=draw(st.sampled_from(sorted(WEIGHTS))),
        eta=draw(st.sampled_from([1.0, 100.0, 5000.0])),
        lambda_=draw(st.sampled_from([0.0, 1.0, 4e9])),
    )


CURVES = list(product(SLOPES, SLOPES))
EVERY = [(over, under, weight, bool(at % 2)) for at, ((over, under), weight) in enumerate(zip(2 * CURVES, cycle(WEIGHTS)))]
"""Each pair of curves as published and not, each weight with three pairs or more."""


@pytest.mark.slow
@pytest.mark.parametrize(("over", "under", "weight", "published"), EVERY)
def test_every_loss_and_weight_on_a_busy_machine_as_in_plain_python(over: str, under: str, weight: str, published: bool) -> None:
    factors = {"absolute": 2.0, "square": 3.0, "exponential": 1e-4}
    learner = NagByHand(published, (factors[over], over), (factors[under], under), 0.0, weight, 300.0, 10.0)
    load = crowd(np.random.default_rng(11), size=120, longest_s=36_000, origin_s=1_000_000)
    outcome = agree(load, learner, semantics="per-event", correction="conditional")
    assert len(set(outcome.predicted)) > 25, "a learner that always answers the same would agree too easily"


def test_a_learner_that_runs_away_is_an_error_and_names_the_job() -> None:
    load, runs_away = (
        crowd(np.random.default_rng(5), size=150, longest_s=7200),
        "cv-triple(over=exponential,under=exponential,lambda=0)",
    )
    with pytest.raises(InputError, match=r"predictor cv-triple\(.+\): predicts something that is not a finite number for job \d+$"):
        load.schedule("EASY", runs_away)
    with pytest.raises(InputError, match="not a finite number"):
        PreparedSweep(load.table(), procs=load.machine, policy=MIXED._replace(predictor=runs_away)).measure(random_weights(2))
