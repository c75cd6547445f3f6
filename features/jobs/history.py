"""Per-user history at submission: runtimes of completed jobs, state of running jobs.

The union of the per-user features of Gaussier et al. 2015 (table 2) and of OKCM (Li, Zhang; table 1), in one compiled pass over a
trace's starts, ends and submissions in time order. With the submission itself it is the input matrix of runtime learners.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numba import njit

from features.clock import DAY_S, WEEK_S, second_of_week
from features.errors import InputError
from features.jobs.schema import codes

USER = np.dtype(
    [
        (name, np.int64)
        for name in (
            "completed_jobs",
            "last_runtime_s",
            "second_last_runtime_s",
            "third_last_runtime_s",
            "sum_runtime_s",
            "sum_procs",
            "sum_allocated_procs",
            "last_end_s",
            "running_jobs",
            "running_procs",
            "running_start_s",  # sum of the running jobs' start times
            "oldest",  # row of the earliest started job not yet seen to have ended, -1: none
            "newest",  # row of the latest started job
        )
    ]
)
"""State of one user during the pass. The n-th last runtime is valid once n jobs have completed."""

ROW = np.dtype(
    [
        (name, np.float64)
        for name in (
            "completed_jobs",
            "last_runtime_s",
            "second_last_runtime_s",
            "third_last_runtime_s",
            "mean_last2_runtime_s",
            "mean_last3_runtime_s",
            "mean_runtime_s",
            "sum_runtime_s",
            "mean_procs",
            "mean_allocated_procs",
            "procs_over_mean",
            "running_jobs",
            "running_mean_procs",
            "occupied_procs",
            "longest_running_s",
            "sum_running_s",
            "break_s",
            "cos_day",
            "sin_day",
            "cos_week",
            "sin_week",
        )
    ]
)
HISTORY: tuple[str, ...] = ROW.names or ()
"""Columns of :func:`history`, in order."""
FEATURES: tuple[str, ...] = ("requested_s", "procs", *HISTORY)
"""Columns of :func:`model_inputs`, in order. The wall clock at submission is among the columns of the history."""

JOB = np.dtype([(name, np.int64) for name in ("user", "submit_s", "start_s", "end_s", "runtime_s", "procs", "allocated_procs")])
"""The fields of a job that the pass reads; ``user`` is a category code, -1 for none."""


def history(jobs: pd.DataFrame, start_s: np.ndarray, local_s: np.ndarray, end_s: np.ndarray | None = None) -> pd.DataFrame:
    """Return per-user history at each submission, float64 [jobs], columns :data:`HISTORY`.

    ``jobs`` is a cleaned canonical table in order of submission; the result has its index. ``start_s`` int64 [jobs] are recorded
    or simulated starts (seconds from the trace's origin), ``local_s`` int64 [jobs] the local wall clock at submission
    (``features.clock.local_clock_s``), ``end_s`` int64 [jobs] the ends, by default start_s + runtime_s. Recorded ends are later
    if a runtime was cut at its request (``features.jobs.schema.recorded_end_s``).

    A job has completed if end_s <= submit_s, and is running if start_s < submit_s < end_s; runtimes are those of ``jobs`` even if
    ``end_s`` is later. The last three runtimes are in order of completion: by end, then start, then row. ``procs`` means
    requested processors, also in the running jobs' ``occupied_procs`` and ``running_mean_procs``; ``mean_allocated_procs`` uses
    allocated processors if recorded, else requested. Counts and sums over no job are 0; means, longest, last and ``break_s`` are
    NaN if they lack a job, so ``mean_last3_runtime_s`` needs three. A job without a user has no history, like the first job of a
    new user. Weeks begin on Monday.

    Raises InputError if a job starts before its submission, runs less than a second or ends before its runtime is over;
    ValueError if jobs are out of order.
    """
    events, by_start, by_end = _events(jobs, start_s, end_s)
    rows = np.empty(len(jobs), ROW)
    _history(events, by_start, by_end, _blank(jobs), rows)
    day = np.asarray(local_s) % DAY_S * (2 * np.pi / DAY_S)
    week = second_of_week(np.asarray(local_s)) * (2 * np.pi / WEEK_S)
    rows["cos_day"], rows["sin_day"] = np.cos(day), np.sin(day)
    rows["cos_week"], rows["sin_week"] = np.cos(week), np.sin(week)
    matrix = rows.view(np.float64).reshape(len(jobs), len(HISTORY))
    return pd.DataFrame(matrix, index=jobs.index, columns=list(HISTORY), copy=False)


def model_inputs(jobs: pd.DataFrame, history: pd.DataFrame) -> pd.DataFrame:
    """Return the inputs of runtime learners, float64 [jobs, len(FEATURES)], contiguous rows.

    ``jobs`` is a cleaned canonical table and ``history`` its :func:`history`; missing history is NaN. Raises ValueError if their
    rows differ. ``models.packed.snapshot_inputs``, packed into registered models, makes the same columns from a snapshot.
    """
    if not jobs.index.equals(history.index):
        raise ValueError("jobs and history have different rows")
    matrix = np.empty((len(jobs), len(FEATURES)))
    matrix[:, 0] = jobs["requested_s"]
    matrix[:, 1] = jobs["procs"]
    matrix[:, 2:] = history[list(HISTORY)]
    return pd.DataFrame(matrix, index=jobs.index, columns=list(FEATURES), copy=False)


def users_at(jobs: pd.DataFrame, start_s: np.ndarray, at_s: int, end_s: np.ndarray | None = None) -> np.ndarray:
    """Return the state of every user at ``at_s``: records of :data:`USER` by category.

    Row i belongs to category i of ``jobs["user"]``. ``oldest`` is the row of the user's earliest started job that is still
    running, -1 if none is. Arguments and errors are those of :func:`history`; jobs submitted later than ``at_s`` are ignored.
    """
    events, by_start, by_end = _events(jobs, start_s, end_s)
    users = _blank(jobs)
    _users_at(np.int64(at_s), events, by_start, by_end, users)
    return users


def _blank(jobs: pd.DataFrame) -> np.ndarray:
    users = np.zeros(len(jobs["user"].cat.categories), USER)
    users["oldest"] = -1
    return users


def _events(jobs: pd.DataFrame, start_s: np.ndarray, end_s: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the jobs as records of JOB, and the rows in order of start and of completion."""
    events = np.empty(len(jobs), JOB)
    events["user"] = codes(jobs, "user")
    events["submit_s"] = jobs["submit_s"].to_numpy(np.int64)
    events["start_s"] = start_s
    events["runtime_s"] = jobs["runtime_s"].to_numpy(np.int64)
    events["end_s"] = events["start_s"] + events["runtime_s"] if end_s is None else end_s
    events["procs"] = jobs["procs"].to_numpy(np.int64)
    recorded = jobs["allocated_procs"].notna().to_numpy()
    allocated = jobs["allocated_procs"].to_numpy(np.int64, na_value=0)
    events["allocated_procs"] = np.where(recorded, allocated, events["procs"])

    if (np.diff(events["submit_s"]) < 0).any():
        raise ValueError("jobs are not in order of submission")
    for wrong, what in (
        (events["start_s"] < events["submit_s"], "starts before its submission"),
        (events["runtime_s"] < 1, "runs less than a second"),
        (events["end_s"] < events["start_s"] + events["runtime_s"], "ends before its runtime is over"),
    ):
        if wrong.any():
            raise InputError(f"job {jobs['job_id'].iloc[int(wrong.argmax())]} {what}")

    by_start = np.argsort(events["start_s"], kind="stable")
    by_end = by_start[np.argsort(events["end_s"][by_start], kind="stable")]
    return events, by_start, by_end


@njit(cache=True)
def _history(jobs, by_start, by_end, users, rows):
    """Fill ``rows`` (records of ROW, [jobs]; clock columns apart) from ``jobs`` (JOB, [jobs]).

    ``users`` must be blank and is overwritten.
    """
    following = np.full(len(jobs), -1, np.int64)
    unknown_user = np.zeros(1, users.dtype)
    unknown_user[0].oldest = -1
    started = 0
    ended = 0
    for j in range(len(jobs)):
        started, ended = _advance(jobs[j].submit_s, started, ended, jobs, by_start, by_end, following, users)
        if jobs[j].user >= 0:
            user = users[jobs[j].user]
            _drop_ended(user, jobs[j].submit_s, jobs, following)
        else:
            user = unknown_user[0]
        _describe(user, jobs[j], jobs, rows[j])


@njit(cache=True)
def _users_at(at_s, jobs, by_start, by_end, users):
    """Advance the blank ``users`` to the instant ``at_s``."""
    following = np.full(len(jobs), -1, np.int64)
    _advance(at_s, 0, 0, jobs, by_start, by_end, following, users)
    for u in range(len(users)):
        _drop_ended(users[u], at_s, jobs, following)


@njit(cache=True)
def _advance(now, started, ended, jobs, by_start, by_end, following, users):
    """Update ``users`` with starts before and ends up to ``now``; return both counts so far.

    Every job runs at least a second, so a job's start is always handled before its end.
    """
    while started < len(by_start) and jobs[by_start[started]].start_s < now:
        row = by_start[started]
        started += 1
        job = jobs[row]
        if job.user < 0:
            continue
        user = users[job.user]
        user.running_jobs += 1
        user.running_procs += job.procs
        user.running_start_s += job.start_s
        if user.oldest < 0:
            user.oldest = row
        else:
            following[user.newest] = row
        user.newest = row
    while ended < len(by_end) and jobs[by_end[ended]].end_s <= now:
        job = jobs[by_end[ended]]
        ended += 1
        if job.user < 0:
            continue
        user = users[job.user]
        user.running_jobs -= 1
        user.running_procs -= job.procs
        user.running_start_s -= job.start_s
        user.completed_jobs += 1
        user.third_last_runtime_s = user.second_last_runtime_s
        user.second_last_runtime_s = user.last_runtime_s
        user.last_runtime_s = job.runtime_s
        user.sum_runtime_s += job.runtime_s
        user.sum_procs += job.procs
        user.sum_allocated_procs += job.allocated_procs
        user.last_end_s = job.end_s
    return started, ended


@njit(cache=True)
def _drop_ended(user, now, jobs, following):
    """Set ``oldest`` to the earliest started job that still runs.

    A user's jobs form a list in order of start. Ended jobs at its front are passed once, so every job is stepped over at most
    once in the whole pass; ended jobs behind the front are harmless.
    """
    while user.oldest >= 0 and jobs[user.oldest].end_s <= now:
        user.oldest = following[user.oldest]


@njit(cache=True)
def _describe(user, job, jobs, row):
    done = user.completed_jobs
    running = user.running_jobs
    row.completed_jobs = done
    row.last_runtime_s = user.last_runtime_s if done >= 1 else np.nan
    row.second_last_runtime_s = user.second_last_runtime_s if done >= 2 else np.nan
    row.third_last_runtime_s = user.third_last_runtime_s if done >= 3 else np.nan
    row.mean_last2_runtime_s = (user.last_runtime_s + user.second_last_runtime_s) / 2 if done >= 2 else np.nan
    last3 = user.last_runtime_s + user.second_last_runtime_s + user.third_last_runtime_s
    row.mean_last3_runtime_s = last3 / 3 if done >= 3 else np.nan
    row.mean_runtime_s = user.sum_runtime_s / done if done else np.nan
    row.sum_runtime_s = user.sum_runtime_s
    row.mean_procs = user.sum_procs / done if done else np.nan
    row.mean_allocated_procs = user.sum_allocated_procs / done if done else np.nan
    row.procs_over_mean = job.procs / (user.sum_procs / done) if done else np.nan
    row.running_jobs = running
    row.running_mean_procs = user.running_procs / running if running else np.nan
    row.occupied_procs = user.running_procs
    row.longest_running_s = job.submit_s - jobs[user.oldest].start_s if running else np.nan
    row.sum_running_s = running * job.submit_s - user.running_start_s
    row.break_s = job.submit_s - user.last_end_s if done else np.nan
