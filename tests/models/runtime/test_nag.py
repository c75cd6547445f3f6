"""The learners compiled into the simulator, ``cv-triple`` and ``nag``: as the plain-Python ones, blind to the future, and clear about their options."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from features.errors import InputError
from sim.campaigns.sweep import MIXED, random_weights, sweep
from tests.models.runtime.by_hand import agree
from tests.oracle.nag import SLOPES, WEIGHTS, NagByHand
from tests.support.workloads import (
    Workload,
    by_kernel,
    crowd,
    dependent_crowd,
)


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


@pytest.mark.slow
@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("under", SLOPES)
@pytest.mark.parametrize("over", SLOPES)
def test_every_loss_and_weight_on_a_busy_machine_as_in_plain_python(over: str, under: str, weight: str, published: bool) -> None:
    factors = {"absolute": 2.0, "square": 3.0, "exponential": 1e-4}
    learner = NagByHand(published, (factors[over], over), (factors[under], under), 0.0, weight, 300.0, 10.0)
    load = crowd(np.random.default_rng(11), size=120, longest_s=36_000, origin_s=1_000_000)
    made = agree(load, learner, semantics="per-event", correction="conditional")
    assert len(set(made.predicted)) > 25, "a learner that always answers the same would agree too easily"


def test_on_a_busy_machine_whose_jobs_follow_others_as_in_plain_python() -> None:
    load = dependent_crowd(np.random.default_rng(3), size=150)
    for published in (True, False):
        agree(load, NagByHand(published, lambda_=10.0), dependencies=True, correction="tsafrir")


LOAD = crowd(np.random.default_rng(5), size=150, longest_s=7200)
PRESETS = ("cv-triple", "nag")


@pytest.mark.parametrize("preset", PRESETS)
def test_jobs_of_nobody_known_have_no_history_and_leave_none(preset: str) -> None:
    strangers = [f"user {row}" for row in range(len(LOAD.user))]
    nobody = replace(LOAD, user=[None] * len(strangers))  # type: ignore[list-item]
    assert by_kernel(nobody, predictor=preset) == by_kernel(replace(LOAD, user=strangers), predictor=preset)
    assert by_kernel(nobody, predictor=preset) != by_kernel(replace(LOAD, user=["one"] * len(strangers)), predictor=preset)


def test_before_anything_has_ended_the_program_says_one_second_and_nag_the_request() -> None:
    load = Workload(4, [0, 5], [50, 60], [1, 1], [100, 200], ["ann", None], [1, 1])
    assert by_kernel(load, predictor="cv-triple").predicted == [1, 1]
    assert by_kernel(load, predictor="cv-triple").clamped == 2
    assert by_kernel(load, predictor="nag").predicted == [100, 200]
    assert by_kernel(load, predictor="nag").clamped == 0


def test_a_learner_that_runs_away_is_an_error_and_names_the_job() -> None:
    runs_away = "cv-triple(over=exponential,under=exponential,lambda=0)"
    with pytest.raises(InputError, match=r"predictor cv-triple\(.+\): predicts something that is no finite number for job \d+$"):
        LOAD.schedule("EASY", runs_away)
    with pytest.raises(InputError, match="no finite number"):
        sweep(LOAD.table(), random_weights(2), procs=LOAD.machine, policy=MIXED._replace(predictor=runs_away))
