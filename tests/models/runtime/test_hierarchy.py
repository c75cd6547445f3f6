"""The hierarchy of templates compiled into the simulator: as in plain Python, in the published order, blind to the future."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.jobs.schema import conform
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


def table(*rows: tuple) -> pd.DataFrame:
    """One job after the other, by executable, user, request, processors and runtime."""
    executable, user, requested, procs, runtime = (list(column) for column in zip(*rows, strict=True))
    columns = {"job_id": range(1, len(rows) + 1), "submit_s": [10_000 * row for row in range(len(rows))], "user": user}
    columns |= {"executable": executable, "requested_s": requested, "procs": procs, "runtime_s": runtime}
    return conform(columns, len(rows)).astype({"runtime_s": "int64", "procs": "int64", "requested_s": "int64"})


def last_prediction(*rows: tuple, name: str = "hierarchy") -> int:
    return int(simulate(table(*rows), procs=8, predictor=name).jobs["predicted_s"].iloc[-1])


def test_templates_are_tried_in_the_published_order() -> None:
    """Binary counting down: name and time limit without user comes after user alone with name, before anything without a name."""
    asked = ("a", "ann", 900, 4, 1)
    by_template = [
        ("a", "ann", 900, 4, 101),
        ("a", "ann", 900, 1, 102),
        ("a", "ann", 800, 4, 103),
        ("a", "ann", 800, 1, 104),
        ("a", "bob", 900, 4, 105),
        ("a", "bob", 900, 1, 106),
        ("a", "bob", 800, 4, 107),
        ("a", "bob", 800, 1, 108),
        ("b", "ann", 900, 4, 109),
        ("b", "ann", 900, 1, 110),
        ("b", "ann", 800, 4, 111),
        ("b", "ann", 800, 1, 112),
        ("b", "bob", 900, 4, 113),
        ("b", "bob", 900, 1, 114),
        ("b", "bob", 800, 4, 115),
        ("b", "bob", 800, 1, 116),
    ]
    for template in range(16):
        assert last_prediction(*reversed(by_template[template:]), asked) == 101 + template
    assert last_prediction(by_template[15], asked, name="hierarchy(templates=15)") == 900


def test_means_decay_and_are_at_most_the_request() -> None:
    same = ("a", "ann", 900, 4)
    assert last_prediction((*same, 100), (*same, 200), (*same, 300), (*same, 1)) == round(0.8 * (0.8 * 100 + 0.2 * 200) + 0.2 * 300)
    assert last_prediction((*same, 100), (*same, 200), (*same, 1), name="hierarchy(alpha=1)") == 200
    assert last_prediction((*same, 700), ("a", "ann", 60, 4, 1)) == 60


def test_keys_that_are_unknown_form_no_group() -> None:
    """Two jobs without a known user do not share a user."""
    assert last_prediction((None, None, 800, 4, 70), ("b", "bob", 900, 2, 50), (None, None, 900, 1, 1)) == 50
    assert last_prediction((None, "ann", 800, 4, 70), ("b", None, 900, 2, 50), (None, "ann", 900, 1, 1)) == 70
