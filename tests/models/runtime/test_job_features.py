"""What the learners retrained each night know of a job: as counted in plain Python at every submission, and nothing of the future."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.jobs.like_jobs import LEVELS, columns_of, features
from features.jobs.runtime_features import distinct
from models.runtime.memory import Memory
from models.runtime.names import predictor
from models.runtime.protocol import CompiledPredictor
from sim import Schedule
from sim.policy import SEMANTICS
from tests.oracle.nightly import LEVELS as LEVELS_BY_HAND
from tests.oracle.nightly import Nightly
from tests.support.workloads import (
    Workload,
    crowd,
    dependent_crowd,
    dependent_workloads,
    described,
    perturbed,
    policy_of,
    workloads,
)

SCHEDULER = "FCFS-EASY-SPF"


def spy(name: str = "lightgbm", nights: bool = False) -> CompiledPredictor:
    """The predictor, which tells its features of each job as if they were quantiles; ``nights``: it is still retrained."""
    source = predictor(name)
    assert isinstance(source, CompiledPredictor)
    labels: dict[str, list[str]] = {}

    def memory(jobs: pd.DataFrame) -> Memory:
        labels["names"] = list(columns_of(tuple(distinct(jobs).values())))
        assert len(labels["names"]) == features(len(distinct(jobs))), "every feature has a name"
        return source.memory(jobs)

    def distribution(memory: Memory) -> pd.DataFrame:
        return pd.DataFrame(memory.jobs[np.argsort(memory.row), : len(labels["names"])], columns=labels["names"])

    return replace(source, memory=memory, distribution=distribution, retrain=source.retrain if nights else None)


def features_of(schedule: Schedule) -> pd.DataFrame:
    assert schedule.quantiles is not None
    return schedule.quantiles


def agree(load: Workload, **policy: Any) -> Nightly:
    """The kernel's features of every job are those by hand, on the same schedule; returns the latter."""
    schedule = load.schedule(SCHEDULER, spy(), **policy)
    hand = Nightly()
    expected = load.jobs_by_oracle(**policy_of(SCHEDULER), predictor=hand, **policy)
    assert schedule.jobs["start_s"].tolist() == [job.start for job in expected]
    assert schedule.jobs["predicted_s"].tolist() == [job.order_s for job in expected]
    by_hand = pd.DataFrame([hand.inputs[job] for job in range(len(load.submit))], dtype=float)
    by_hand.columns = features_of(schedule).columns
    pd.testing.assert_frame_equal(features_of(schedule), by_hand, rtol=1e-12, atol=1e-12)
    return hand


@pytest.mark.slow
@settings(max_examples=15)
@given(described(st.one_of(workloads(), dependent_workloads())), st.sampled_from(SEMANTICS))
def test_on_any_small_workload_as_in_plain_python(load: Workload, semantics: str) -> None:
    agree(load, semantics=semantics, dependencies=bool(load.preceding))


def busy(dependent: bool, seed: int = 3, size: int = 300) -> Workload:
    """Jobs of few requests by few people over some days; half of the executables and groups are not named."""
    rng = np.random.default_rng(seed)
    load = (dependent_crowd if dependent else crowd)(rng, size)
    executable, group, user = (
        [None if drawn > 2 else f"{name}{drawn}" for drawn in rng.integers(0, most, size).tolist()]
        for name, most in (("a", 6), ("g", 6), ("u", 4))
    )
    submit = (1_000_000 + 50 * (np.array(load.submit) - load.submit[0])).tolist()
    requested = [600 * (1 + asked // 300) for asked in load.requested]
    return replace(load, executable=executable, group=group, user=user, submit=submit, requested=requested)


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("dependent", [False, True])
def test_on_a_busy_machine_as_in_plain_python(dependent: bool, semantics: str) -> None:
    hand = agree(busy(dependent), semantics=semantics, dependencies=dependent)
    counts = [len(past) for past in hand.past.values()]
    assert max(counts) > 3 * 16, "the ring of runtimes has to come round"
    assert len({features["weekday"] for features in hand.inputs.values()}) > 1


def test_levels_are_those_whose_columns_the_trace_fills() -> None:
    assert ["+".join(level) for level in LEVELS] == LEVELS_BY_HAND
    full = busy(False)
    assert len(distinct(full.table())) == 7
    without = replace(full, executable=[], group=[])
    expected = [("user", "requested_s", "procs"), ("user", "requested_s"), ("user",), ("requested_s", "procs")]
    assert list(distinct(without.table()).values()) == expected
    nobody = replace(without, user=[None] * len(full.user))
    assert list(distinct(nobody.table()).values()) == [("requested_s", "procs"), ("requested_s",)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "semantics"), [*zip(("lightgbm(trees=5)", "quantile", "quantile(order=accuracy)"), 2 * SEMANTICS, strict=False)]
)
def test_no_feature_and_no_prediction_knows_what_lies_ahead(name: str, semantics: str) -> None:
    rng = np.random.default_rng(1)
    load = busy(False, seed=5, size=330)
    schedule = load.schedule("EASY-SJBF", spy(name, nights=True), semantics=semantics)
    original = load.schedule("EASY-SJBF", name, semantics=semantics).quantiles
    rows = [row for row in range(40, 329, 60) if load.submit[row + 1] > load.submit[row]]
    assert len(rows) > 2
    changed = 0
    for row in rows:
        future = perturbed(load, schedule, row, rng)
        other = future.schedule("EASY-SJBF", spy(name, nights=True), semantics=semantics)
        upto = slice(0, row + 1)
        pd.testing.assert_frame_equal(features_of(other)[upto], features_of(schedule)[upto], check_exact=True)
        predicted, same = (each.jobs["predicted_s"].to_numpy() for each in (schedule, other))
        assert np.array_equal(predicted[upto], same[upto])
        changed += int((predicted[row + 1 :] != same[row + 1 :]).sum())
        if original is not None:
            otherwise = future.schedule("EASY-SJBF", name, semantics=semantics).quantiles
            assert otherwise is not None
            pd.testing.assert_frame_equal(otherwise[upto], original[upto], check_exact=True)
    assert changed > 100, "a future that makes no difference later either would prove nothing"
