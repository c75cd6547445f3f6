"""The hierarchy of templates compiled into the simulator: as in plain Python, in the published order, blind to the future."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import simulate
from sim.semantics import SEMANTICS
from tests.support.workloads import dependent_workloads, workloads


@dataclass(eq=False)
class HierarchyByHand:
    """The oracle: dictionaries of means by what jobs have in common, told and asked as any predictor outside the kernel."""

    alpha: float = 0.2
    templates: int = 16
    name: str = "hierarchy-by-hand"
    means: dict[tuple, float] = field(default_factory=dict)

    def begin(self, jobs: pd.DataFrame) -> None:
        keys = (
            jobs[name].astype(object).where(jobs[name].notna(), None) for name in ("executable", "user", "requested_s", "procs")
        )
        self.keys = list(zip(*keys, strict=True))
        self.runtime, self.requested = jobs["runtime_s"].tolist(), jobs["requested_s"].tolist()
        self.means = {}

    def groups(self, job: int) -> list[tuple]:
        """The job's groups under name/user/time/nodes, name/user/time, name/user//nodes, name/user, name//time/nodes and so on."""
        keys, found = self.keys[job], []
        for template in list(product([True, False], repeat=4))[: self.templates]:
            if not any(wanted and key is None for wanted, key in zip(template, keys, strict=True)):
                found.append((template, *(key for wanted, key in zip(template, keys, strict=True) if wanted)))
        return found

    def submitted(self, job: int, now: int) -> None: ...
    def started(self, job: int, now: int) -> None: ...
    def ended(self, job: int, now: int) -> None:
        for group in self.groups(job):
            mean = self.means.setdefault(group, 0.0)
            weight = self.alpha if mean else 1.0
            self.means[group] = mean + weight * (self.runtime[job] - mean)

    def estimate(self, question: int, job: int, now: int, elapsed: int) -> float:
        means = (self.means[group] for group in self.groups(job) if group in self.means)
        return next((mean for mean in means if round(mean) > elapsed), self.requested[job])


def outcome(jobs: pd.DataFrame, machine: int, source: Any, **policy: Any) -> tuple[pd.DataFrame, int]:
    made = simulate(jobs, procs=machine, predictor=source, **policy)
    return made.jobs[["start_s", "predicted_s", "corrections"]], made.clamped_predictions


def agree(jobs: pd.DataFrame, machine: int, name: str, oracle: HierarchyByHand, **policy: Any) -> None:
    made, clamped = outcome(jobs, machine, name, **policy)
    expected, expected_clamped = outcome(jobs, machine, oracle, **policy)
    pd.testing.assert_frame_equal(made, expected)
    assert clamped == expected_clamped


names = st.sampled_from(["a.out", "b.out", None])


@pytest.mark.slow
@settings(max_examples=75)
@given(
    st.one_of(workloads(), dependent_workloads()),
    st.lists(names, min_size=30, max_size=30),
    st.sampled_from(["hierarchy", "hierarchy(alpha=0.75,templates=15)"]),
    st.sampled_from(SEMANTICS),
    st.sampled_from(["requested", "tsafrir", "conditional"]),
)
def test_on_any_small_workload_as_in_plain_python(load: Any, executables: list, name: str, semantics: str, correction: str) -> None:
    jobs = load.table()
    jobs["executable"] = pd.Categorical(executables[: len(jobs)], categories=["a.out", "b.out"])
    oracle = HierarchyByHand() if name == "hierarchy" else HierarchyByHand(0.75, 15)
    policy = {"scheduler": "EASY-SJBF", "semantics": semantics, "correction": correction, "dependencies": bool(load.preceding)}
    agree(jobs, load.machine, name, oracle, **policy)
