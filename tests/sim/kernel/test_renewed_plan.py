"""``conditional(when=pass)``: before each pass the predictor is asked when each running job ends, given how long it has run.

Against the oracle, which asks about every running job, and by hand; the machine of the cases has ten processors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from sim import simulate
from sim.campaigns.campaign import campaign_schedules
from sim.semantics import SEMANTICS
from sim.settings import Campaign
from tests.models.runtime.test_hierarchy import HierarchyByHand
from tests.models.runtime.test_knn import KnnByHand
from tests.models.runtime.test_lightgbm import BoostedByHand, days
from tests.models.runtime.test_okcm import OkcmByHand
from tests.models.runtime.test_svr import SvrByHand
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
    "svr": Nightly(),
}
"""Predictors of one number by their names, and the same in plain Python; those trained each night as long as they are not."""
PREDICTORS = POINTS | {"hierarchy": HierarchyByHand()}


def agree(load: Workload, name: str, scheduler: str, **policy: Any) -> Outcome:
    expected = by_oracle(load, scheduler, PREDICTORS[name], correction=EACH_PASS, **policy)
    assert by_kernel(load, scheduler, name, correction=EACH_PASS, **policy) == expected
    return expected


names, schedulers, semantics = st.sampled_from(sorted(PREDICTORS)), st.sampled_from(SCHEDULERS), st.sampled_from(SEMANTICS)


@pytest.mark.slow
@settings(max_examples=75)
@given(workloads(most=40), names, schedulers, semantics)
def test_on_any_small_workload_as_in_plain_python(load: Workload, name: str, scheduler: str, semantics: str) -> None:
    agree(load, name, scheduler, semantics=semantics)


@pytest.mark.slow
@settings(max_examples=80)
@given(dependent_workloads(), names, schedulers, semantics)
def test_where_jobs_follow_others_as_in_plain_python(load: Workload, name: str, scheduler: str, semantics: str) -> None:
    agree(load, name, scheduler, semantics=semantics, dependencies=True)


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_on_a_busy_machine_as_in_plain_python(scheduler: str, semantics: str) -> None:
    load = crowd(np.random.default_rng(11), size=250, longest_s=3000, origin_s=1_000_000)
    for name in ("last2", "hierarchy"):
        made = agree(load, name, scheduler, semantics=semantics)
        assert max(made.corrections) > 0
        if scheduler != "FCFS-Strict" and scheduler != "SPF-List":  # which foresee nothing
            assert made.start != by_kernel(load, scheduler, name, correction="conditional", semantics=semantics).start


TRAINED = [BoostedByHand(trees=5), SvrByHand(jobs=250)]


@pytest.mark.parametrize("correction", ["conditional", EACH_PASS])
@pytest.mark.parametrize("hand", TRAINED, ids=lambda hand: hand.label())
def test_what_is_trained_each_night_is_asked_again_as_in_plain_python(hand: Any, correction: str) -> None:
    load = days(seed=19, size=400)
    expected = by_oracle(load, "FCFS-EASY-SPF", hand, correction=correction)
    assert by_kernel(load, "FCFS-EASY-SPF", hand.label(), correction=correction) == expected
    assert hand.trained > 4
    plain = by_kernel(load, "FCFS-EASY-SPF", hand.label(), correction="requested")
    assert expected.corrections != plain.corrections, "no night has changed what is said of a running job"


@pytest.mark.parametrize("name", [*sorted(POINTS), "hierarchy", "sp3", "quantile"])
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_a_running_job_is_foreseen_to_end_as_predicted_and_not_at_its_request(name: str, semantics: str) -> None:
    # A and A' of one user take 10 of 62 s, so that B, from 20 on, is predicted to take 10 by whatever goes by the last runtimes. C needs all and is
    # reserved for at 30. D, 60 s on the other 4, would end long after that: at 22 it may not start.
    load = load_of((0, 10, 5, 62), (0, 10, 5, 62), (20, 10, 6, 62), (21, 5, 10, 5), (22, 60, 4, 60))
    load = replace(load, user=["u"] * 3 + [None, None])
    made = by_kernel(load, "FCFS-EASY", name, correction=EACH_PASS, semantics=semantics)
    if name in ("last2", "lightgbm", "svr", "hierarchy") or name.startswith(("knn", "okcm")):
        assert made.predicted[2] == 10
        assert made.start == [0, 0, 20, 30, 35]
    if made.predicted[2] < 62 and name != "quantile":
        assert made.start == by_kernel(load, "FCFS-EASY", name, correction="conditional", semantics=semantics).start


def load_of(*jobs: tuple[int, int, int, int]) -> Workload:
    submit, runtime, procs, requested = (list(column) for column in zip(*jobs, strict=True))
    return Workload(10, submit, runtime, procs, requested, ["u"] * len(jobs), requested)


@pytest.mark.parametrize("simulator", [by_oracle, by_kernel])
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_what_has_ended_since_changes_when_a_running_job_is_foreseen_to_end(simulator: Any, semantics: str) -> None:
    # Of one user, A takes 2 s and B 4 s, so C (6), from 5 on, is predicted 3 s, until 8; it takes 9. D, another user's, needs all from 6 on.
    # At 6 X ends after 6 s: (4 + 6) / 2 = 5 s for C, until 10. E, 2 s on 3 from 7 on, would end at 9: before 10, not before 8.
    load = load_of((0, 2, 1, 100), (0, 4, 1, 100), (0, 6, 1, 100), (5, 9, 6, 100), (6, 5, 10, 5), (7, 2, 3, 2))
    load = replace(load, user=["u"] * 4 + [None, None])
    expected = {"requested": (14, 19), "conditional": (14, 19), EACH_PASS: (14, 7)}
    for correction, starts in expected.items():
        made = simulator(load, "FCFS-EASY", "last2", correction=correction, semantics=semantics)
        assert (made.predicted[3], *made.start[4:]) == (3, *starts)


def test_a_prediction_of_a_running_job_that_is_renewed_is_no_correction() -> None:
    # One user: A and B take 10 s, so C, from 20 on, is predicted 10 s, and takes 17. At 25 D ends after 25 s: (10 + 25) / 2 = 17 s for C, until 37,
    # as is found when E comes at 27.
    load = load_of((0, 10, 1, 100), (0, 10, 1, 100), (0, 25, 1, 100), (20, 17, 1, 100), (27, 1, 1, 1))
    load = replace(load, user=["u"] * 4 + [None])
    for correction, made in (("conditional", 1), (EACH_PASS, 0)):
        outcome = by_kernel(load, "FCFS-EASY", "last2", correction=correction)
        assert (outcome.predicted[3], outcome.corrections) == (10, [0, 0, 0, made, 0])


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_a_predictor_in_python_is_refused(semantics: str) -> None:
    load = load_of((0, 10, 6, 20))
    with pytest.raises(InputError, match=r"conditional\(when=pass\) asks too often for a predictor in Python, and told is one"):
        simulate(load.table(), procs=10, predictor=Told([5], [5], [5]), correction=EACH_PASS, semantics=semantics)


@pytest.mark.parametrize("predictor", ["requested", "clairvoyant", "requested*2"])
@pytest.mark.parametrize("scheduler", ["FCFS-EASY-SPF", "SAF-JustBF"])
def test_a_table_that_is_never_too_short_is_left_as_it_is(predictor: str, scheduler: str) -> None:
    load = crowd(np.random.default_rng(4))
    plain, renewed = (by_kernel(load, scheduler, predictor, correction=one) for one in ("requested", EACH_PASS))
    assert renewed == plain


def test_a_table_of_which_a_prediction_is_too_short_is_refused() -> None:
    load = load_of((0, 10, 6, 20))
    with pytest.raises(InputError, match="asks the predictor again, and predictor given is a table of one answer a job"):
        simulate(load.table(), procs=10, predictor=[9], correction=EACH_PASS)


def test_in_a_campaign_as_alone() -> None:
    load = crowd(np.random.default_rng(4))
    campaign = Campaign(schedulers=("EASY-SJBF", "SAF-JustBF"), predictors=("last2",), corrections=(EACH_PASS,))
    for one in campaign_schedules(load.table(), campaign, procs=load.machine):
        alone = load.schedule(one.scheduler, "last2", correction=EACH_PASS)
        assert one.jobs.equals(alone.jobs)
        assert one.correction == EACH_PASS
