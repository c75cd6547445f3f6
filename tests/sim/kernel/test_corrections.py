"""What replaces a prediction that a job has outlived: the steps of Tsafrir et al. as Li & Zhang state them, and asking the predictor again."""

from __future__ import annotations

import math
from typing import Any

import pytest

from features.errors import InputError
from sim.policy import SEMANTICS
from tests.support.workloads import Told, Workload, by_kernel

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


@pytest.mark.parametrize("correction", ["conditional", "conditional(when=pass)"])
def test_a_table_of_which_a_prediction_is_too_short_is_refused(correction: str) -> None:
    with pytest.raises(InputError, match="asks the predictor again, and predictor given is a table of one answer a job"):
        by_kernel(LOAD, correction=correction)


@pytest.mark.parametrize(
    ("runtime", "corrections"),
    [(10, 0), (11, 1), (70, 1), (71, 2), (970, 2), (971, 3), (2770, 3), (2771, 4), (6370, 4), (6371, 5)],
)
def test_okcm_steps_are_a_minute_a_quarter_of_an_hour_and_twice_as_much_each_time(runtime: int, corrections: int) -> None:
    load = Workload(10, [5], [runtime], [1], [10_000], [None], [10])
    assert by_kernel(load, correction="tsafrir(steps=okcm)").corrections == [corrections]
