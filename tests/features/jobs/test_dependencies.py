"""Graphs of batches as SWF's preceding job and think time, where these suffice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from features.jobs.dependencies import OPEN, preceding_rows, with_dependencies
from sim import simulate
from sim.replays import user_graph
from sim.users.names import users
from tests.support.workloads import Workload, columns, crowd


def written(load: Workload, name: str) -> tuple[list[int | None], list[int | None], int]:
    waits, _ = user_graph(load.table(), users(name))
    table, beyond = with_dependencies(load.table(), waits)
    return *(
        [None if value is None else int(value) for value in table[column].astype(object).where(table[column].notna(), None)]
        for column in ("preceding_job", "think_s")
    ), beyond


def test_a_batch_that_waits_for_one_job_is_stated_with_its_offsets_and_others_are_counted() -> None:
    # Job 1 ends at 10; jobs 2 and 3 are a batch that waits for it; job 4 waits for both of these, job 5 for job 4.
    load = Workload(4, [0, 15, 17, 40, 60], [10, 9, 9, 5, 5], [1] * 5, [10] * 5, ["u"] * 5, [10] * 5, wait=[0] * 5)
    assert written(load, "closed") == ([None, 1, 1, None, 4], [None, 5, 7, None, 15], 1)
    # A session that begins as recorded waits for no end alone.
    assert written(load, "semi-open(session=14)") == ([None, 1, 1, None, None], [None, 5, 7, None, None], 2)


def test_what_is_stated_in_full_makes_the_same_schedule() -> None:
    load = crowd(np.random.default_rng(5), 60, 16, origin_s=50)
    alone = replace(load, user=[f"u{row % 30}" for row in range(60)], wait=[row % 7 for row in range(60)])
    waits, _ = user_graph(alone.table(), users("closed"))
    table, beyond = with_dependencies(alone.table(), waits)
    assert beyond == 0
    assert (waits.after_s != OPEN).sum() == preceding_rows(table).named > 10
    closed, stated = (simulate(table, procs=16, **{name: value}) for name, value in (("users", "closed"), ("dependencies", True)))
    assert columns(closed) == columns(stated)
    assert closed.jobs["submit_s"].tolist() == stated.jobs["submit_s"].tolist() != load.submit
