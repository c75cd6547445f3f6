"""``Rollout`` on machines of clusters: the oracle's starts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.rollout import Rollout
from tests.oracle.rollout import starts
from tests.sim.kernel.test_harm import Foggy
from tests.sim.test_rollout import MANY, named_by, policies, rules
from tests.support.machines import crowded


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 10**9), rules, policies, st.sampled_from(["foggy", None, "requested", "clairvoyant"]))
def test_starts_are_the_oracles(seed: int, rule: Rollout, policy: dict, told: str | None) -> None:
    load, on, machine = crowded(np.random.default_rng(seed), 16)
    kernel, oracle = (Foggy(), Foggy()) if told == "foggy" else (told, told)
    made = load.schedule(named_by(rule), kernel, machine=machine, **policy).jobs["start_s"].tolist()
    assert made == starts(load, rule, oracle, on=on, **policy)


def test_another_policy_is_gone_by_than_the_first() -> None:
    load, on, machine = crowded(np.random.default_rng(0), 40)
    rule = replace(MANY, scenarios=2, every=1)
    made = load.schedule(named_by(rule), machine=machine).jobs["start_s"].tolist()
    assert made == starts(load, rule, on=on)
    assert made not in [load.schedule(name, machine=machine).jobs["start_s"].tolist() for name in rule.policies]
