"""``conditional(when=pass)``: before each pass the predictor is asked when each running job ends, given how long it has run.

Against the oracle, which asks about every running job.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim.policy import SEMANTICS
from tests.models.runtime.test_knn import KnnByHand
from tests.models.runtime.test_lightgbm import BoostedByHand, days
from tests.models.runtime.test_okcm import OkcmByHand
from tests.oracle.hierarchy import HierarchyByHand
from tests.oracle.nag import NagByHand
from tests.oracle.nightly import Nightly
from tests.support.workloads import (
    CONSERVATIVE,
    Outcome,
    Told,
    Workload,
    by_kernel,
    by_oracle,
    crowd,
    dependent_workloads,
    workloads,
)

EACH_PASS = "conditional(when=pass)"
SCHEDULERS = [
    "FCFS-EASY",
    "FCFS-EASY-SPF",
    "FCFS-EASY(reservations=3)-SPF",
    "FCFS-JustBF",
    "SAF-JustBF",
    CONSERVATIVE,
    "SPF-List",
    "FCFS-Strict",
    "LEXP-EASY-SPF",
]
POINTS = {
    "last2": "last2",
    "knn(k=2,window=9)": KnnByHand(2, 9),
    OkcmByHand(switch=2, eta=100.0).label(): OkcmByHand(switch=2, eta=100.0),
    NagByHand().label(): NagByHand(),
    NagByHand(False, eta=300.0, lambda_=10.0).label(): NagByHand(False, eta=300.0, lambda_=10.0),
    "lightgbm": Nightly(),
}
"""Predictors of one number by their names, and the same in plain Python; those trained each night as long as they are not."""
PREDICTORS = POINTS | {"hierarchy": HierarchyByHand()}


def agree(load: Workload, name: str, scheduler: str, **policy: Any) -> Outcome:
    expected = by_oracle(load, scheduler, PREDICTORS[name], correction=EACH_PASS, **policy)
    assert by_kernel(load, scheduler, name, correction=EACH_PASS, **policy) == expected
    return expected


names, schedulers = st.sampled_from(sorted(PREDICTORS)), st.sampled_from(SCHEDULERS)
semantics = st.sampled_from([*SEMANTICS, "per-second(expiry=pass)", "per-event(expiry=pass,every=30)"])


@pytest.mark.slow
@settings(max_examples=15)
@given(st.one_of(workloads(most=40), dependent_workloads()), names, schedulers, semantics)
def test_on_any_small_workload_as_in_plain_python(load: Workload, name: str, scheduler: str, semantics: str) -> None:
    agree(load, name, scheduler, semantics=semantics, dependencies=bool(load.preceding))


@pytest.mark.slow
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("scheduler", ["FCFS-EASY-SPF", "SAF-JustBF", CONSERVATIVE])
def test_on_a_busy_machine_as_in_plain_python(scheduler: str, semantics: str) -> None:
    load = crowd(np.random.default_rng(11), size=250, longest_s=3000, origin_s=1_000_000)
    outcome = agree(load, "hierarchy", scheduler, semantics=semantics)
    assert max(outcome.corrections) > 0
    assert outcome.start != by_kernel(load, scheduler, "hierarchy", correction="conditional", semantics=semantics).start


TRAINED = [BoostedByHand(trees=5)]


@pytest.mark.slow
@pytest.mark.parametrize("correction", ["conditional", EACH_PASS])
@pytest.mark.parametrize("hand", TRAINED, ids=lambda hand: hand.label())
def test_what_is_trained_each_night_is_asked_again_as_in_plain_python(hand: Any, correction: str) -> None:
    load = days(seed=19, size=400)
    expected = by_oracle(load, "FCFS-EASY-SPF", hand, correction=correction)
    assert by_kernel(load, "FCFS-EASY-SPF", hand.label(), correction=correction) == expected
    assert hand.trained > 4
    plain = by_kernel(load, "FCFS-EASY-SPF", hand.label(), correction="requested")
    assert expected.corrections != plain.corrections, "no night has changed what is said of a running job"


LOAD = Workload(10, [0], [10], [6], [20], ["u"], [9])


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_a_predictor_in_python_is_refused(semantics: str) -> None:
    with pytest.raises(InputError, match=r"conditional\(when=pass\) asks too often for a predictor in Python such as told"):
        LOAD.schedule("EASY", Told([5], [5], [5]), correction=EACH_PASS, semantics=semantics)
