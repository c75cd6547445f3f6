"""Every user's history at one instant: registered models predict from it without a trace.

A snapshot describes an instant as ``features.jobs.history`` describes a job's submission. ``models.packed.snapshot_inputs``,
packed with the model, reads it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from features.jobs.history import users_at
from features.jobs.schema import masked


def snapshot(jobs: pd.DataFrame, start_s: np.ndarray, at_s: int, end_s: np.ndarray | None = None) -> pd.DataFrame:
    """Return the history at ``at_s`` (trace seconds): one row for each user with known jobs.

    A job is known if it had ended by ``at_s`` or was running. ``jobs`` is a cleaned canonical table in order of submission;
    ``start_s`` and ``end_s`` int64 [jobs] are as for ``features.jobs.history.history``, whose errors are raised. Jobs after
    ``at_s`` are ignored.

    Columns, int64 or Int64 (null where undefined):

    * ``user`` (str) and ``at_s``, the same instant in every row;
    * of jobs with end_s <= at_s: ``completed_jobs``, ``last_runtime_s``, ``second_last_runtime_s``, ``third_last_runtime_s`` (in
      order of completion), ``sum_runtime_s``, ``sum_procs``, ``sum_allocated_procs`` (requested where not recorded), ``last_end_s``;
    * of jobs with start_s < at_s < end_s: ``running_jobs``, ``running_procs`` (their sum), ``running_sum_start_s``,
      ``running_earliest_start_s``.
    """
    users = users_at(jobs, start_s, at_s, end_s)
    has_jobs = (users["completed_jobs"] > 0) | (users["running_jobs"] > 0)
    names = jobs["user"].cat.categories[has_jobs]
    users = users[has_jobs]
    completed, running = users["completed_jobs"], users["running_jobs"]
    table = pd.DataFrame({"user": names.astype("str"), "at_s": np.int64(at_s), "completed_jobs": completed})
    for least, name in enumerate(("last_runtime_s", "second_last_runtime_s", "third_last_runtime_s"), start=1):
        table[name] = masked(users[name], completed >= least)
    for name in ("sum_runtime_s", "sum_procs", "sum_allocated_procs"):
        table[name] = users[name]
    table["last_end_s"] = masked(users["last_end_s"], completed > 0)
    table["running_jobs"] = running
    table["running_procs"] = users["running_procs"]
    table["running_sum_start_s"] = users["running_start_s"]
    table["running_earliest_start_s"] = masked(np.asarray(start_s, np.int64)[users["oldest"]], running > 0)
    return table
