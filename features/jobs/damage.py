"""Rows of a table that repeat a job, or lie outside the time of the file.

A job is its number, as its source writes it, its submission and its user: exports overlap, Slurm uses numbers again,
and jobs of an array may share a number.

A file lists only what had happened when it was exported. A submission or an end long after all others is therefore a
damaged row (for example a wait of three years), and so is a submission long before all others. The file's time is that
of the submissions and a plausible stay before and after, all without the few extreme rows.
"""

from __future__ import annotations

import numpy as np

from features.clock import DAY_S
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

    Where rows of one ``identity`` (columns) differ, it is that of an array, as in NREL's accounting of Eagle: equal
    rows are then tasks.
    """
    first = ~rows.duplicated()
    job = rows.groupby(identity, observed=True, dropna=False, sort=False).ngroup()
    kinds = first.groupby(job).transform("sum")
    return ~first & (kinds == 1)


LEFT_OUT = 10
"""Number of most extreme rows that do not set the last second; in small files one in ``JOBS_PER_LEFT_OUT``."""
JOBS_PER_LEFT_OUT = 50
"""At most one job in so many may lie before a silence that begins a file."""
SILENCE_S = 30 * DAY_S
"""Min time after the last submission in which jobs may end. A longer gap between submissions may begin or end a
file."""
STAYS = 2.0
"""Multiple of the longest stay (wait and runtime) that such a gap exceeds, too."""


def file_clock(submit_s: np.ndarray, stay_s: np.ndarray, fewest: int = 0) -> tuple[float, float]:
    """Return the first and the last plausible second of a file; infinities for under 50 jobs.

    ``submit_s`` and ``stay_s`` (end minus submission) are float64 [jobs]. In smaller files, too, ``fewest`` jobs are
    extreme, but at most half of them. On nine logs of the Parallel Workloads Archive and of other sites the last end
    lies at most 0.4 of the way from the last submission to the last second, and no gap among the first submissions is
    longer than 0.25 of what begins a file.
    """
    few = max(len(submit_s) // JOBS_PER_LEFT_OUT, min(fewest, len(submit_s) // 2))
    if few == 0:
        return -float("inf"), float("inf")
    extreme = -min(LEFT_OUT, few) - 1
    last, longest = (np.partition(values, extreme)[extreme] for values in (submit_s, stay_s))
    margin_s = max(SILENCE_S, STAYS * longest)
    earliest = np.sort(np.partition(submit_s, few)[: few + 1])
    silences = np.flatnonzero(np.diff(earliest) > margin_s)
    first = earliest[silences[-1] + 1] if len(silences) else -float("inf")
    return float(first), float(last + margin_s)


def plausible(submit_s: np.ndarray, stay_s: np.ndarray) -> np.ndarray:
    """Tell which jobs lie within their file's time, bool [jobs]; arguments as above."""
    first, last = file_clock(submit_s, stay_s)
    return (submit_s >= first) & (submit_s + stay_s <= last)
