"""Which rows of a jobs table describe the same job.

A job is its number, as its source writes it, its submission and its user: exports overlap, Slurm uses numbers again, and jobs of an
array may share a number.
"""

from __future__ import annotations

import numpy as np

from features.deferred import pd
from features.jobs.columns import Table, filled, framed

IDENTITY = ["job_id", "written_id", "submit_s", "user"]
"""Columns that identify a job."""


def numbers(jobs: pd.DataFrame) -> np.ndarray:
    """Return the jobs' numbers as their source writes them, such as 12 or 12_3: object [jobs]."""
    numbered = jobs["job_id"].astype(str)
    written = jobs.get("written_id", numbered).astype(object)
    return written.where(written.notna(), numbered).to_numpy(object)


def among(jobs: pd.DataFrame, others: pd.DataFrame) -> np.ndarray:
    """Tell which jobs have a number and submission that one of the others has, bool [jobs]."""
    keys = [pd.MultiIndex.from_frame(table[["job_id", "submit_s"]].astype("Int64")) for table in (jobs, others)]
    return np.asarray(keys[0].isin(keys[1]))


def copies(table: Table) -> np.ndarray:
    """Tell which jobs that ran repeat an earlier row in all columns, bool [jobs]."""
    repeated = np.zeros(len(table), bool)
    if (np.diff(np.sort(filled(table, "job_id"))) > 0).all():  # as in most logs, and then no DataFrame is needed
        return repeated
    jobs = framed(table)
    candidates = (jobs["runtime_s"].fillna(0) > 0) & (jobs["job_id"] >= 0) & jobs.duplicated(IDENTITY, keep=False)
    if candidates.any():
        repeated[candidates.to_numpy(bool)] = repeats(jobs[candidates], IDENTITY)
    return repeated


def repeats(rows: pd.DataFrame, identity: list[str]) -> pd.Series:
    """Tell which ``rows`` repeat an earlier one in all columns, bool [rows].

    Where rows of one ``identity`` (columns) differ, it is that of an array, as in NREL's accounting of Eagle: equal rows are then
    tasks.
    """
    first = ~rows.duplicated()
    job = rows.groupby(identity, observed=True, dropna=False, sort=False).ngroup()
    kinds = first.groupby(job).transform("sum")
    return ~first & (kinds == 1)
