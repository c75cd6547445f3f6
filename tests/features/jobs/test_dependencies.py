"""Graphs of batches as SWF's preceding job and think time, where these suffice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from features.jobs.dependencies import OPEN, Graph, preceding_rows
from sim import simulate
from sim.simulation import user_graph
from sim.users.closed import users
from tests.support.workloads import Workload, columns, crowd


def stated_rows(waits: Graph) -> np.ndarray:
    """Return the row of the one job that each job waits for, int64 [jobs], -1 where SWF cannot state it.

    It cannot if a batch waits for several, or if the preceding batch has several jobs.
    """
    slices = [waits.child[first:last] for first, last in zip(waits.first_child, waits.last_child, strict=True)]
    parent, child = np.repeat(np.arange(len(slices)), [len(each) for each in slices]), np.concatenate(slices)
    alone = (waits.parents[child] == 1) & (np.bincount(waits.batch)[parent] == 1)
    job, before = np.full(len(waits.parents), -1), np.full(len(waits.parents), -1)
    job[waits.batch] = np.arange(len(waits.batch))
    before[child[alone]] = job[parent[alone]]
    return before[waits.batch]


def written(jobs: pd.DataFrame, waits: Graph) -> pd.DataFrame:
    """The jobs with what SWF can state of a graph in fields 17 and 18."""
    row = stated_rows(waits)
    fields = {"preceding_job": jobs["job_id"].to_numpy(np.int64)[row], "think_s": waits.after_s}
    return jobs.assign(**{name: pd.array(values, "Int64") for name, values in fields.items()}).assign(
        **{name: lambda table, name=name: table[name].mask(row < 0) for name in fields}
    )


def test_a_batch_that_waits_for_one_job_is_stated_and_others_are_not() -> None:
    # Job 1 ends at 10; jobs 2 and 3 are a batch that waits for it; job 4 waits for both of these, job 5 for job 4.
    load = Workload(4, [0, 15, 17, 40, 60], [10, 9, 9, 5, 5], [1] * 5, [10] * 5, ["u"] * 5, [10] * 5, wait=[0] * 5)
    assert stated_rows(user_graph(load.table(), users("closed"))[0]).tolist() == [-1, 0, 0, -1, 3]


def test_what_is_stated_in_full_makes_the_same_schedule() -> None:
    load = crowd(np.random.default_rng(5), 60, 16, origin_s=50)
    alone = replace(load, user=[f"u{row % 30}" for row in range(60)], wait=[row % 7 for row in range(60)])
    waits, _ = user_graph(alone.table(), users("closed"))
    table = written(alone.table(), waits)
    assert (waits.after_s != OPEN).sum() == preceding_rows(table).named > 10
    closed, linked = (simulate(table, procs=16, **{name: value}) for name, value in (("users", "closed"), ("dependencies", True)))
    assert columns(closed) == columns(linked)
    assert closed.jobs["submit_s"].tolist() == linked.jobs["submit_s"].tolist() != load.submit
