"""Every compiled learner as its oracle in plain Python: on any workload, on a busy machine, on real traces; and each better than a rival that knows less."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import simulate
from sim.policy import SEMANTICS
from tests.conftest import needs_shared
from tests.models.runtime.by_hand import agree, agree_retrained, second_half, whole_trace
from tests.models.runtime.test_knn import KnnByHand
from tests.models.runtime.test_lightgbm import BoostedByHand, days
from tests.models.runtime.test_nag import nags
from tests.models.runtime.test_okcm import OkcmByHand
from tests.models.runtime.test_sp import SurvivalByHand, alike
from tests.oracle.hierarchy import HierarchyByHand
from tests.support.workloads import EASY_NAMES, Workload, by_kernel, crowd, dependent_workloads, described, workloads

LEARNERS: dict[str, st.SearchStrategy] = {
    "hierarchy": st.sampled_from([HierarchyByHand(), HierarchyByHand(0.75, 15)]),
    "knn": st.builds(KnnByHand, st.integers(1, 4), st.integers(4, 9)),
    "nag": nags(),
    "okcm": st.builds(
        OkcmByHand,
        delta=st.sampled_from([1.0, 60.0, 1e5]),
        eta=st.sampled_from([1.0, 100.0, 5000.0]),
        lambda_=st.sampled_from([0.0, 1.0, 1e6]),
        k=st.integers(1, 3),
        switch=st.integers(0, 4),
        weights=st.sampled_from(["user", "shared"]),
        base=st.sampled_from(["zero", "last"]),
    ),
    "sp": st.builds(
        SurvivalByHand,
        x=st.sampled_from(["2", "4", "10", "50", "100"]),
        decay=st.sampled_from(["0.9", "0.5", "1", "0.01"]),
        seed=st.sampled_from(["0.1", "0", "3"]),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
@settings(max_examples=15)
@given(
    st.data(),
    described(st.one_of(workloads(most=25), dependent_workloads(most=25))),
    st.sampled_from(EASY_NAMES),
    st.sampled_from(SEMANTICS),
    st.sampled_from(["requested", "tsafrir", "doubling", "conditional"]),
)
def test_on_any_small_workload(
    name: str, data: st.DataObject, load: Workload, scheduler: str, semantics: str, correction: str
) -> None:
    load = alike(load) if name == "sp" else load
    policy: dict[str, Any] = {"semantics": semantics, "correction": correction, "dependencies": bool(load.preceding)}
    agree(load, data.draw(LEARNERS[name]), scheduler, **policy)


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize(
    "learner",
    [
        *(KnnByHand(*each) for each in [(1, 1), (8, 200)]),
        *(OkcmByHand(1000.0, 3000.0, 10.0, 3, *each) for each in [(0, "shared"), (25, "user")]),
    ],
    ids=lambda learner: learner.label(),
)
def test_on_a_busy_machine(learner: Any, semantics: str) -> None:
    load = crowd(np.random.default_rng(11), size=400, longest_s=36_000, origin_s=1_000_000)
    outcome = agree(load, learner, semantics=semantics, correction="conditional")
    assert len(set(outcome.predicted)) > 100, "a learner that always answers the same would agree too easily"


@pytest.mark.slow
@pytest.mark.parametrize(("dependencies", "semantics"), [*zip((False, True), SEMANTICS, strict=True)])
def test_over_ten_days_as_the_library_itself(dependencies: bool, semantics: str) -> None:
    agree_retrained(days(dependencies), BoostedByHand(), semantics=semantics, dependencies=dependencies)


@pytest.mark.slow
@pytest.mark.parametrize(
    "hand",
    [BoostedByHand(trees=7), BoostedByHand(leaves=3), BoostedByHand(jobs=250)],
    ids=lambda hand: hand.label(),
)
def test_every_option_as_the_library_itself_and_it_makes_a_difference(hand: Any) -> None:
    outcome = agree_retrained(days(seed=8, size=500), hand, correction="tsafrir")
    assert outcome.predicted != without_options(type(hand)().label())


@cache
def without_options(name: str) -> list[int]:
    return by_kernel(days(seed=8, size=500), scheduler="FCFS-EASY-SPF", predictor=name, correction="tsafrir").predicted


@needs_shared
@pytest.mark.parametrize(
    ("trace", "procs", "jobs", "oracle", "correction"),
    [
        pytest.param("KTH-SP2", 100, 10_000, KnnByHand(3), "requested", marks=pytest.mark.thorough),
        pytest.param("KTH-SP2", 100, 3000, OkcmByHand(100.0, 1e4, 1e3, weights="shared"), "requested", marks=pytest.mark.slow),
        pytest.param("KTH-SP2", 100, 4000, SurvivalByHand("2"), "conditional", marks=pytest.mark.slow),
        pytest.param("SDSC-SP2", 128, 8000, SurvivalByHand("2"), "conditional", marks=pytest.mark.thorough),
    ],
)
def test_on_the_first_jobs_of_a_real_trace(trace: str, procs: int, jobs: int, oracle: Any, correction: str) -> None:
    schedule, expected = (
        simulate(whole_trace(trace)[:jobs], procs=procs, scheduler="EASY-SJBF", predictor=one, correction=correction)
        for one in (oracle.label(), oracle)
    )
    columns = ["start_s", "predicted_s", "corrections"]
    pd.testing.assert_frame_equal(schedule.jobs[columns], expected.jobs[columns])
    assert schedule.clamped_predictions == expected.clamped_predictions


@needs_shared
@pytest.mark.parametrize(
    ("trace", "procs", "jobs", "name", "rival"),
    [
        ("KTH-SP2", 100, 28_481, "knn", "last2"),
        ("KTH-SP2", 100, 28_481, "okcm", "requested"),
        pytest.param("SDSC-SP2", 128, 54_006, "knn", "last2", marks=pytest.mark.thorough),
        pytest.param("SDSC-SP2", 128, 54_006, "okcm", "requested", marks=pytest.mark.thorough),
        pytest.param("KTH-SP2", 100, 2500, "lightgbm", "last2", marks=pytest.mark.slow),
    ],
)
def test_a_real_trace_is_predicted_better_than_by_a_rival_that_knows_less(
    trace: str, procs: int, jobs: int, name: str, rival: str
) -> None:
    table = whole_trace(trace)[:jobs]
    assert len(table) == jobs
    assert second_half(table, procs, name) > second_half(table, procs, rival)
