"""SP-x compiled into the simulator: as in exact arithmetic, forgetting nothing that matters, blind to the future."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from models.runtime import sp
from models.runtime.names import predictor
from models.runtime.protocol import CompiledPredictor
from sim.policy import SEMANTICS
from tests.models.runtime.by_hand import agree
from tests.support.workloads import Workload, by_kernel, crowd, dependent_crowd


@dataclass(eq=False)
class SurvivalByHand:
    """The oracle, in whole numbers: every point ever, its weight times what makes it whole; told and asked as any other."""

    x: str = "3"
    decay: str = "0.9"
    seed: str = "0.1"
    name: str = "survival-by-hand"
    points: dict[tuple, list[tuple[int, int]]] = field(default_factory=dict)  # runtimes and weights
    unit: dict[tuple, int] = field(default_factory=dict)  # what makes a group's weights whole

    def label(self) -> str:
        return f"sp(x={self.x},decay={self.decay},seed={self.seed})"

    def begin(self, jobs: pd.DataFrame) -> None:
        keys = jobs[["executable", "user", "requested_s", "procs"]].astype(object)
        self.keys = [tuple(None if pd.isna(key) else key for key in row) for row in keys.itertuples(index=False)]
        self.runtime, self.requested = jobs["runtime_s"].tolist(), jobs["requested_s"].tolist()
        self.points, self.unit = {}, {}

    def submitted(self, job: int, now: int) -> None: ...
    def started(self, job: int, now: int) -> None: ...

    def of(self, job: int) -> list[tuple[int, int]]:
        """The points of the job's group: at first its request, whose weight is a fraction of it."""
        seed = Fraction(self.seed)
        self.unit.setdefault(self.keys[job], seed.denominator)
        return self.points.setdefault(self.keys[job], [(self.requested[job], seed.numerator * self.requested[job])])

    def ended(self, job: int, now: int) -> None:
        before, decay = self.of(job), Fraction(self.decay)
        self.unit[self.keys[job]] *= decay.denominator
        decayed = [(runtime, weight * decay.numerator) for runtime, weight in before]
        self.points[self.keys[job]] = [*decayed, (self.runtime[job], self.runtime[job] * self.unit[self.keys[job]])]

    def estimate(self, question: int, job: int, now: int, elapsed: int) -> float:
        if self.keys[job][1] is None:
            return self.requested[job]
        points = sorted((runtime, weight) for runtime, weight in self.of(job) if runtime > elapsed and weight)
        total, reached, x = sum(weight for _, weight in points), 0, Fraction(self.x)
        for runtime, weight in points:
            reached += weight
            if reached * 100 * x.denominator >= (100 * x.denominator - x.numerator) * total:
                return runtime
        return self.requested[job]


def alike(load: Workload, requests: int = 1) -> Workload:
    """The jobs of ``load`` with few requests and one or two processors: many have all in common."""
    longest = max(load.requested)
    requested = [longest + asked % requests for asked in load.requested]
    return replace(load, requested=requested, procs=[min(procs, 2) for procs in load.procs])


@pytest.mark.parametrize(("semantics", "dependencies"), [*zip(SEMANTICS, (False, True), strict=True)])
def test_on_a_busy_machine_as_in_exact_arithmetic(semantics: str, dependencies: bool) -> None:
    make = dependent_crowd if dependencies else crowd
    load = replace(alike(make(np.random.default_rng(3), size=300, machine=8), requests=2), executable=["a.out", None] * 150)
    for oracle in (SurvivalByHand(), SurvivalByHand("20", "0.8", "0")):
        outcome = agree(load, oracle, semantics=semantics, dependencies=dependencies, correction="conditional")
        assert len(set(outcome.predicted)) > 10, "a predictor that always answers the same would agree too easily"
        assert any(outcome.corrections)


def group(runtime: list[int], requested: int) -> Workload:
    """Jobs that have all in common, one after the other."""
    jobs = len(runtime)
    return Workload(8, [10_000 * row for row in range(jobs)], runtime, [4] * jobs, [requested] * jobs, ["ann"] * jobs, runtime)


def after(*runtimes: int, name: str) -> int:
    """What is predicted for a job whose group had these runtimes."""
    return by_kernel(group([*runtimes, 1], 1000), predictor=name).predicted[-1]


def test_a_share_that_is_exactly_reached_suffices() -> None:
    assert after(100, 200, 100, name="sp(x=50,decay=1,seed=0)") == 100
    assert after(100, 200, 100, name="sp(x=49.99,decay=1,seed=0)") == 200
    assert after(900, name="sp(x=10,decay=1)") == 900  # of which the seed's share is 100 of 1000
    assert after(57, 43, name="sp(x=57,decay=1,seed=0)") == 43  # 57/100 as a double, times 100, is below 57
    assert after(100, 200, 100, name="sp(x=100)") == 100


@pytest.mark.slow
def test_forgetting_bounds_the_lists_and_changes_no_prediction() -> None:
    """Against all points ever, also for a job that has run for longer than any of late, where all that is left is old."""
    rng = np.random.default_rng(8)
    runtime = np.concatenate([rng.integers(1, 10_000, 1500), rng.integers(1, 50, 1500)])
    compiled = predictor("sp2")
    assert isinstance(compiled, CompiledPredictor)
    memory = compiled.memory(group(runtime.tolist(), 20_000).table())
    kept = []
    for row, seconds in enumerate(runtime):
        sp.learn(memory, row, seconds)
        kept.append(int(memory.links[0, sp.END]))
        if row % 5 == 0:
            points = np.append(runtime[: row + 1], 20_000)
            weights = np.append(runtime[: row + 1] * 0.9 ** np.arange(row, -1.0, -1.0), 2000 * 0.9 ** (row + 1))
            order = np.argsort(points)
            for elapsed in (0, 10, 40, 49, 100, 1000, 9000, 9990, 9999, 19_999):
                left = order[points[order] > elapsed]
                beyond = np.cumsum(weights[left][::-1])[::-1]  # of the point and all longer
                expected = points[left][np.flatnonzero(beyond > 0.02 * beyond[0])[-1]]
                assert sp.estimate(memory, row, 20_000, elapsed) == expected
            assert sp.estimate(memory, row, 20_000, 20_000) == 20_000
    assert max(kept[:1500]) < 500
    assert max(kept) < 1000
