"""The nearest neighbours compiled into the simulator: as in plain Python, as worked out by hand, blind to the future."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import pi, sin
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.jobs.cleaning import clean
from features.jobs.schema import conform
from models.runtime.evaluation import accuracy
from pipelines.ingest.read import read_trace
from sim import simulate
from sim.semantics import SEMANTICS
from tests.conftest import SHARED, needs_shared
from tests.support.walls import Wall, own
from tests.support.workloads import EASY_NAMES, Workload, by_kernel, by_oracle, crowd, dependent_workloads, workloads

CORRECTIONS = ["requested", "tsafrir", "doubling", "conditional"]


@dataclass(eq=False)
class KnnByHand:
    """The oracle: lists of ended jobs by user, told and asked as any predictor outside the kernel. Distances are rounded to nine digits."""

    k: int = 1
    window: int = 25
    name: str = "knn-by-hand"
    point: bool = True
    clock: Wall = own
    ended_jobs: dict[str | None, list[int]] = field(default_factory=dict)

    def label(self) -> str:
        return f"knn(k={self.k},window={self.window})"

    def begin(self, jobs: pd.DataFrame) -> None:
        names = ("submit_s", "runtime_s", "procs", "requested_s")
        self.submit, self.runtime, self.procs, self.requested = (jobs[name].tolist() for name in names)
        self.user: list[str | None] = [None if pd.isna(user) else str(user) for user in jobs["user"]]
        self.ended_jobs = {}

    def submitted(self, job: int, now: int) -> None:
        self.submit[job] = now  # which it is not where it follows another job

    def started(self, job: int, now: int) -> None: ...

    def ended(self, job: int, now: int) -> None:
        if self.user[job] is not None:
            self.ended_jobs.setdefault(self.user[job], []).append(job)

    def place(self, job: int) -> tuple[float, ...]:
        return self.procs[job], self.requested[job], round(sin(2 * pi * (self.clock(self.submit[job]) % 86_400) / 86_400), 9)

    def estimate(self, question: int, job: int, now: int, elapsed: int) -> float:
        known = self.ended_jobs.get(self.user[job], [])[-self.window :]
        if not known:
            return self.requested[job]
        points = np.array([self.place(one) for one in [*known, job]])
        variance = np.var(points, axis=0, ddof=1)
        differ = np.ptp(points, axis=0) > 0
        distance = ((points - points[-1]) ** 2 / np.where(differ, variance, 1.0)).sum(axis=1).round(9)
        nearest = sorted(range(len(known)), key=lambda i: (distance[i], -self.submit[known[i]], -i))
        return round(median(self.runtime[known[i]] for i in nearest[: self.k]))


semantics = st.sampled_from(SEMANTICS)
learners = st.builds(KnnByHand, st.integers(1, 4), st.integers(4, 9))


def agree(load: Workload, learner: Any, scheduler: str = "FCFS-EASY-SPF", **policy: Any) -> Any:
    expected = by_oracle(load, scheduler, learner, **policy)
    assert by_kernel(load, scheduler, learner.label(), **policy) == expected
    return expected


@pytest.mark.slow
@settings(max_examples=100)
@given(workloads(), learners, st.sampled_from(EASY_NAMES), semantics, st.sampled_from(CORRECTIONS))
def test_on_any_small_workload_as_in_plain_python(
    load: Workload, learner: KnnByHand, scheduler: str, semantics: str, correction: str
) -> None:
    agree(load, learner, scheduler, semantics=semantics, correction=correction)


@pytest.mark.slow
@settings(max_examples=60)
@given(dependent_workloads(), learners, semantics, st.sampled_from(CORRECTIONS))
def test_where_jobs_follow_others_as_in_plain_python(load: Workload, learner: KnnByHand, semantics: str, correction: str) -> None:
    agree(load, learner, dependencies=True, semantics=semantics, correction=correction)


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize(("k", "window"), [(1, 1), (1, 25), (3, 5), (8, 200)])
def test_on_a_busy_machine_as_in_plain_python(k: int, window: int, semantics: str) -> None:
    load = crowd(np.random.default_rng(11), size=300, longest_s=36_000, origin_s=1_000_000)
    made = agree(load, KnnByHand(k, window), semantics=semantics, correction="conditional")
    assert len(set(made.predicted)) > 100, "a learner that always answers the same would agree too easily"


DAY, MORNING = 86_400, 3 * 3600
"""Jobs a whole number of days apart are at the same time of day."""


def last_prediction(*rows: tuple[int, int, int, int], name: str = "knn(k=1)") -> int:
    """Of one user's jobs, one after the other, given by submission, processors, request and runtime."""
    submit, procs, requested, runtime = (list(column) for column in zip(*rows, strict=True))
    columns = {"job_id": range(1, len(rows) + 1), "submit_s": submit, "runtime_s": runtime, "procs": procs}
    table = conform(columns | {"requested_s": requested, "user": ["ann"] * len(rows)}, len(rows))
    jobs = table.astype({"runtime_s": "int64", "procs": "int64", "requested_s": "int64"})
    return int(simulate(jobs, procs=64, predictor=name).jobs["predicted_s"].iloc[-1])


def test_equally_distant_jobs_go_by_submission() -> None:
    asked = (9 * DAY, 4, 900, 1)
    assert last_prediction((0, 4, 900, 100), (DAY, 4, 900, 200), asked) == 200
    long_first = [(0, 4, 3 * DAY, 2 * DAY), (DAY, 4, 3 * DAY, 200)]  # the second ends before the first
    assert last_prediction(*long_first, (9 * DAY, 4, 3 * DAY, 1)) == 200
    # two processors less, two seconds more: as far, each being the only one that differs in its way
    assert last_prediction((0, 2, 900, 100), (DAY, 4, 902, 200), asked) == 200
    assert last_prediction((0, 4, 902, 100), (DAY, 2, 900, 200), asked) == 200
    # submitted in one second: the one that ended last
    assert last_prediction((0, 4, 900, 100), (0, 4, 900, 200), asked) == 200
    assert last_prediction((0, 4, 900, 200), (0, 4, 900, 100), asked) == 200
    # 03:00 and 09:00 have one sine
    assert last_prediction((MORNING, 4, 900, 100), (DAY + 3 * MORNING, 4, 900, 200), (9 * DAY + MORNING, 4, 900, 1)) == 200


LOAD = crowd(np.random.default_rng(5), size=150, longest_s=7200)


@needs_shared
@pytest.mark.parametrize(("trace", "jobs", "procs"), [("KTH-SP2", 28_481, 100), ("SDSC-SP2", 54_006, 128)])
def test_a_whole_trace_is_predicted_better_than_by_last2(trace: str, jobs: int, procs: int) -> None:
    table = whole_trace(trace)
    assert len(table) == jobs
    assert second_half(table, procs, "knn") > second_half(table, procs, "last2")


@pytest.mark.thorough
@needs_shared
def test_on_ten_thousand_jobs_of_a_real_trace_as_in_plain_python() -> None:
    table = whole_trace("KTH-SP2")[:10_000]
    made, expected = (simulate(table, procs=100, scheduler="EASY-SJBF", predictor=one) for one in ("knn(k=3)", KnnByHand(3)))
    pd.testing.assert_frame_equal(made.jobs[["start_s", "predicted_s"]], expected.jobs[["start_s", "predicted_s"]])
    assert made.clamped_predictions == expected.clamped_predictions


def whole_trace(trace: str) -> pd.DataFrame:
    return clean(read_trace(str(SHARED / "traces" / f"{trace}-filtered.swf.gz"))).jobs


def second_half(table: pd.DataFrame, procs: int, name: str) -> float:
    """Mean accuracy over the second half, of predictions that learn from the first job on."""
    made = simulate(table, procs=procs, scheduler="EASY-SJBF", predictor=name).jobs[len(table) // 2 :]
    return float(accuracy(made["predicted_s"].to_numpy(), made["runtime_s"].to_numpy()).mean())
