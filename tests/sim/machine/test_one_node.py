"""One cluster of one node is the one pool: the same schedules job by job."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.jobs.cleaning import clean
from pipelines.ingest.read import read_trace
from sim import simulate
from tests.conftest import SHARED, needs_shared
from tests.support.machines import one_node
from tests.support.workloads import columns, crowd

SCORES = ["SCORE(r*n-free-queue*wait)-EASY-SPF", "SCORE(wait*n-demand)-JustBF", "SCORE(r*n-free)-EASY(reservations=2)-SCORE(wait)"]


@pytest.mark.parametrize("scheduler", SCORES)
def test_orders_that_are_scores_are_those_of_the_pool(scheduler: str) -> None:
    load = crowd(np.random.default_rng(3), size=150)
    assert columns(load.schedule(scheduler, machine=one_node(load.machine))) == columns(load.schedule(scheduler))


@needs_shared
@pytest.mark.parametrize(
    ("scheduler", "policy"),
    [
        ("EASY", {}),
        ("EASY-SJBF", {"semantics": "per-event", "correction": "tsafrir", "predictor": "last2"}),
        ("EASY(reservations=3)", {}),
        ("SAF-JustBF", {"predictor": "last2", "correction": "doubling"}),
        ("Conservative", {}),
        ("Conservative", {"predictor": "last2", "correction": "tsafrir", "semantics": "per-event"}),
    ],
)
def test_schedules_of_kth_sp2_are_those_of_the_pool(scheduler: str, policy: dict[str, Any]) -> None:
    jobs = clean(read_trace(SHARED / "traces" / "KTH-SP2-1996-2.swf.gz", procs=100), 100, "drop").jobs[:5000]
    pooled, on_a_node = (
        simulate(jobs, procs=100, scheduler=scheduler, machine=machine, **policy) for machine in (None, one_node(100))
    )
    pd.testing.assert_frame_equal(on_a_node.jobs, pooled.jobs)
