"""One cluster of one node is the one pool: the same schedules job by job."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.machines import one_node
from tests.support.workloads import EASY_NAMES, TABLE_CORRECTIONS, columns, crowd, schedulers

several = st.builds(lambda k, name: name.replace("EASY", f"EASY(reservations={k})"), st.integers(2, 4), st.sampled_from(EASY_NAMES))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    scheduler=st.one_of(schedulers, several),
    correction=st.sampled_from(TABLE_CORRECTIONS),
    semantics=st.sampled_from(["per-second", "per-event", "per-second(expiry=pass,every=7)", "per-event(expiry=pass,every=7)"]),
    starvation_s=st.sampled_from([None, None, 5, 50]),
)
def test_schedules_are_those_of_the_pool(seed: int, scheduler: str, starvation_s: int | None, **policy: Any) -> None:
    load = crowd(np.random.default_rng(seed), size=60)
    if "Conservative" not in scheduler:
        policy["starvation_s"] = starvation_s
    pooled = load.schedule(scheduler, **policy)
    assert columns(load.schedule(scheduler, machine=one_node(load.machine), **policy)) == columns(pooled)
