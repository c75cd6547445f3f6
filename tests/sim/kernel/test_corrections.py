"""What replaces a prediction that a job has outlived: the steps of Tsafrir et al. as Li & Zhang state them, and asking the predictor again.

The compiled simulator is held against the oracle on random workloads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim.semantics import SEMANTICS
from tests.support.workloads import (
    CONSERVATIVE,
    EASY_NAMES,
    Moody,
    Told,
    Workload,
    agree,
    by_kernel,
    crowd,
    schedulers,
    workloads,
)

LOAD = Workload(10, [0, 0], [10, 10], [6, 6], [20, 20], [None, None], [10, 9])


class Asked(Told):
    """Predicts what is too short, and ``again`` for a running job."""

    name = "asked"

    def __init__(self, again: Any) -> None:
        super().__init__([5, 5], [5, 5], [5, 5])
        self._again = again

    def estimate(self, question: int, job: int, now_s: int, elapsed_s: int) -> float:
        return self._again if elapsed_s else super().estimate(question, job, now_s, elapsed_s)


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -math.inf, None, "5"])
def test_an_answer_that_is_no_number_is_refused(semantics: str, nonsense: Any) -> None:
    with pytest.raises(InputError, match=f"asked: predicts {nonsense!r} for job 1, not a number of seconds"):
        by_kernel(LOAD, predictor=Asked(nonsense), semantics=semantics, correction="conditional")


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_a_table_of_which_a_prediction_is_too_short_is_refused(semantics: str) -> None:
    with pytest.raises(InputError, match="conditional asks the predictor again"):
        by_kernel(LOAD, semantics=semantics, correction="conditional")


# The oracle and the compiled simulator

semantics = st.sampled_from(SEMANTICS)
starvation = st.sampled_from([None, 0, 3, 50])


@pytest.mark.parametrize(
    ("runtime", "corrections"),
    [(10, 0), (11, 1), (70, 1), (71, 2), (970, 2), (971, 3), (2770, 3), (2771, 4), (6370, 4), (6371, 5)],
)
def test_okcm_steps_are_a_minute_a_quarter_of_an_hour_and_twice_as_much_each_time(runtime: int, corrections: int) -> None:
    load = Workload(10, [5], [runtime], [1], [10_000], [None], [10])
    assert by_kernel(load, correction="tsafrir(steps=okcm)").corrections == [corrections]


@pytest.mark.slow
@settings(max_examples=100)
@given(workloads(), schedulers, semantics)
def test_okcm_steps_on_any_small_workload(load: Workload, scheduler: str, semantics: str) -> None:
    agree(load, scheduler, semantics=semantics, correction="tsafrir(steps=okcm)")


@pytest.mark.slow
@settings(max_examples=75)
@given(workloads(most=50), schedulers, semantics, starvation)
def test_last2_asked_again_on_any_small_workload(load: Workload, scheduler: str, semantics: str, starvation_s: int | None) -> None:
    agree(load, scheduler, "last2", semantics=semantics, starvation_s=starvation_s, correction="conditional")


@pytest.mark.slow
@settings(max_examples=75)
@given(workloads(), schedulers, semantics, starvation, st.integers(0, 99))
def test_a_predictor_that_changes_its_mind_on_any_small_workload(
    load: Workload, scheduler: str, semantics: str, starvation_s: int | None, seed: int
) -> None:
    agree(load, scheduler, Moody(seed), semantics=semantics, starvation_s=starvation_s, correction="conditional")


@pytest.mark.slow
@settings(max_examples=100)
@given(workloads(), st.sampled_from(EASY_NAMES), st.integers(2, 4), semantics, st.integers(0, 99))
def test_several_reservations_under_a_predictor_that_changes_its_mind(
    load: Workload, scheduler: str, reservations: int, semantics: str, seed: int
) -> None:
    scheduler = scheduler.replace("EASY", f"EASY(reservations={reservations})")
    agree(load, scheduler, Moody(seed), semantics=semantics, correction="conditional")


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["FCFS-EASY", "FCFS-EASY-SPF", "SAF-JustBF", CONSERVATIVE, "LEXP-EASY-SPF", "FCFS-List"])
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_crowds_are_asked_again_and_often(scheduler: str, semantics: str) -> None:
    load = crowd(np.random.default_rng(11), longest_s=3000)
    learnt = agree(load, scheduler, "last2", semantics=semantics, correction="conditional")
    moody = agree(load, scheduler, Moody(3), semantics=semantics, correction="conditional")
    assert max(learnt.corrections) > 1
    assert max(moody.corrections) > 2
    assert moody.clamped > 0


@pytest.mark.parametrize("correction", ["tsafrir(steps=okcm)", "conditional"])
def test_the_schedule_says_which_correction_was_used(correction: str) -> None:
    assert LOAD.schedule("EASY", "requested", correction=correction).correction == correction
