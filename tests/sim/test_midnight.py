"""Predictors are retrained once for each midnight that the simulation passes: with what had ended before, and before anything else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.clock import Clock
from models.runtime.memory import Memory
from models.runtime.names import predictor
from models.runtime.protocol import CompiledPredictor
from sim.policy import SEMANTICS
from tests.models.runtime.test_lightgbm import days
from tests.oracle.nightly import DAY_S, Nightly
from tests.support.walls import wall
from tests.support.workloads import Workload, dependent_workloads, policy_of, workloads


class Awake:
    """``lightgbm`` that only notes when it is retrained: what has ended, as rows of the jobs table, and how many jobs were described by then."""

    def __init__(self) -> None:
        self.nights: list[list[int]] = []
        self.described: list[int] = []
        plain = predictor("lightgbm(trees=1)")
        assert isinstance(plain, CompiledPredictor)
        self.predictor = replace(plain, retrain=self.retrain)

    def retrain(self, memory: Memory, ended: np.ndarray, runtime: np.ndarray) -> Memory:
        assert ended.dtype == runtime.dtype == np.int64
        assert len(runtime) == len(memory.jobs)
        self.nights.append(memory.row[ended].tolist())
        self.described.append(int(memory.jobs.any(axis=1).sum()))
        self.runtimes = dict(zip(memory.row[ended].tolist(), runtime[ended].tolist(), strict=True))
        return memory


def nights(
    load: Workload, scheduler: str = "FCFS-EASY", clock: Clock | None = None, every: int = 1, **policy: Any
) -> list[list[int]]:
    """What had ended at each midnight, or at each ``every``-th; the same as in plain Python."""
    awake, hand = Awake(), Nightly()
    if clock is not None and clock.origin_unix_s is not None:
        hand.clock = wall(clock.origin_unix_s, clock.timezone)
    schedule = load.schedule(scheduler, replace(awake.predictor, every=every), clock=clock or Clock(), **policy)
    expected = load.jobs_by_oracle(**policy_of(scheduler), predictor=hand, **policy)
    assert schedule.jobs["start_s"].tolist() == [job.start for job in expected]
    assert awake.nights == hand.nights[::every]
    if awake.nights:
        assert awake.runtimes == {row: load.runtime[row] for row in awake.nights[-1]}
    return awake.nights


def spread(load: Workload, hours: int, origin_s: int) -> Workload:
    """The same with that many hours to a second of the gaps, and much longer jobs."""
    submit = origin_s + 3600 * hours * (np.array(load.submit) - load.submit[0])
    longer = {name: [3000 * hours * seconds for seconds in getattr(load, name)] for name in ("runtime", "requested", "estimates")}
    think = [None if pause is None else 1800 * pause for pause in load.think]
    return replace(load, submit=submit.tolist(), think=think, **longer)


hours, origins = st.integers(1, 9), st.sampled_from([0, 1, DAY_S - 1, DAY_S, 7 * DAY_S + 4000, 10**9])
semantics = st.sampled_from(SEMANTICS)


@pytest.mark.slow
@settings(max_examples=12)
@given(st.one_of(workloads(), dependent_workloads()), hours, origins, st.sampled_from(["FCFS-EASY", "SAF-JustBF"]), semantics)
def test_on_any_workload_of_days_as_in_plain_python(
    load: Workload, hours: int, origin_s: int, scheduler: str, semantics: str
) -> None:
    nights(spread(load, hours, origin_s), scheduler, semantics=semantics, dependencies=bool(load.preceding))


def load_of(*jobs: tuple[int, int], origin_s: int = 0) -> Workload:
    """Jobs of one processor on a machine that has enough, by submission and runtime."""
    submit, runtime = (list(column) for column in zip(*jobs, strict=True))
    ones: list[int] = [1] * len(jobs)
    return Workload(100, [origin_s + second for second in submit], runtime, ones, runtime, [None] * len(jobs), runtime)


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_jobs_of_the_second_are_not_described_yet(semantics: str) -> None:
    awake = Awake()
    load = load_of((0, 10), (0, 10), (DAY_S, 10), (DAY_S, 10), (3 * DAY_S, 10))
    load.schedule("EASY", awake.predictor, semantics=semantics)
    assert awake.described == [2, 4]


def test_the_simulation_goes_on_with_the_memory_that_is_returned() -> None:
    load = days()
    source = predictor("lightgbm(trees=5)")
    assert isinstance(source, CompiledPredictor)
    kept: list[Memory] = []
    train = source.retrain
    assert train is not None

    def retrain(memory: Memory, ended: np.ndarray, runtime: np.ndarray) -> Memory:
        assert not kept or memory.model is kept[-1].model
        kept.append(train(memory, ended, runtime))
        return kept[-1]

    last: list[Memory] = []

    def distribution(memory: Memory) -> pd.DataFrame:
        last.append(memory)
        return pd.DataFrame({0.5: np.zeros(len(load.submit))})

    schedule = load.schedule("EASY", replace(source, retrain=retrain, distribution=distribution))
    assert last[0].model is kept[-1].model
    assert len(kept) > 2
    assert schedule.quantiles is not None
    ignored = load.schedule("EASY", replace(source, retrain=lambda memory, ended, runtime: memory))
    assert schedule.jobs["predicted_s"].tolist() != ignored.jobs["predicted_s"].tolist()
