"""The hierarchy of templates compiled into the simulator: as in plain Python, in the published order, blind to the future."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.errors import InputError
from features.jobs.schema import conform
from models.runtime.names import predictor
from sim import simulate
from sim.campaigns.maps import serial
from sim.campaigns.sweep import MIXED, random_weights, sweep
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


def test_nothing_later_is_known() -> None:
    rng = np.random.default_rng(2)
    rows = [
        (rng.choice(["a", "b"]), rng.choice(["ann", "bob"]), 9000, int(rng.integers(1, 5)), int(rng.integers(1, 9000)))
        for _ in range(40)
    ]
    before = outcome(table(*rows), 8, "hierarchy")[0]
    for cut in range(1, 40, 3):
        others = [("c", "eve", 5000, 1, 17), *rows][: len(rows) - cut]
        after = outcome(table(*rows[:cut], *others), 8, "hierarchy")[0]
        pd.testing.assert_frame_equal(before[["start_s", "predicted_s"]].iloc[:cut], after[["start_s", "predicted_s"]].iloc[:cut])


def test_a_sweep_starts_every_policy_from_nothing() -> None:
    rng = np.random.default_rng(4)
    rows = [("a", rng.choice(["ann", "bob"]), 900, int(rng.integers(1, 9)), int(rng.integers(1, 900))) for _ in range(60)]
    jobs = table(*rows)
    jobs["submit_s"] //= 200
    weights = random_weights(3)
    swept = sweep(jobs, weights, procs=8, policy=MIXED._replace(predictor="hierarchy"), map_pieces=serial)
    for row, wait in zip(weights.tolist(), swept["mean_wait_s"], strict=True):
        made = simulate(jobs, procs=8, scheduler=f"MIXED({','.join(map(repr, row))})-EASY-SPF", predictor="hierarchy").jobs
        assert wait == pytest.approx((made["start_s"] - made["submit_s"]).mean(), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hierarchy(beta=1)", "unknown option 'beta'; known: alpha, templates"),
        ("hierarchy(alpha=0)", "alpha=0: must be a finite number, above 0, at most 1"),
        ("hierarchy(alpha=x)", "alpha=x: 'x' is not a number"),
        ("hierarchy(templates=7)", "templates=7; known: 16, 15"),
    ],
)
def test_options_that_cannot_be_are_refused(name: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        predictor(name)
    assert str(error.value) == f"predictor {name}: {message}"


def test_a_schedule_says_what_differs_from_the_published_choice() -> None:
    assert predictor("hierarchy(templates=16,alpha=.20)").name == "hierarchy"
    assert predictor("hierarchy(templates=15,alpha=0.5)").name == "hierarchy(alpha=0.5,templates=15)"
