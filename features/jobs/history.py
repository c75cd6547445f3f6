"""What was known of past jobs at each submission: one compiled pass in time order.

It follows a trace's starts and ends, keeps the state of every user (:mod:`features.jobs.like_jobs`), of their
variability and of all groups of like jobs, and describes submissions by it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.deferred import pd
from features.errors import InputError
from features.jit import njit
from features.jobs.like_jobs import COMMON, GROUP, KEPT, PER_LEVEL, STATE, describe, remember, spread, vary
from features.jobs.schema import codes

JOB = np.dtype(
    [
        (name, np.int64)
        for name in ("user", "submit_s", "start_s", "end_s", "runtime_s", "procs", "allocated_procs", "requested_s", "local_s")
    ]
)
"""The fields of a job that the pass reads; ``user`` is a category code, -1 for none."""
(COMPLETED, LAST, SECOND_LAST, THIRD_LAST, SUM_RUNTIME, SUM_PROCS, SUM_ALLOCATED, LAST_END) = range(8)
(RUNNING, RUNNING_PROCS, SUM_START, EARLIEST_START, VARIES) = range(8, 13)
"""Columns of a user's state: those of ``STATE``."""


class Walked(NamedTuple):
    """What a pass saw.

    ``state`` float64 [submissions, STATE] and ``like`` [submissions, features] are as known at each submission: the
    state of its user, its features from like jobs, and their spread. ``users`` [users, STATE] and ``groups`` [groups,
    GROUP] are the states at the end.
    """

    state: np.ndarray
    like: np.ndarray
    users: np.ndarray
    groups: np.ndarray


class _Past(NamedTuple):
    """Rows in order of start and of end, states during a pass, and each user's started jobs.

    ``oldest`` is the row of the earliest started job not yet seen to have ended, ``newest`` the latest started, -1:
    none.
    """

    by_start: np.ndarray
    by_end: np.ndarray
    users: np.ndarray
    kept: np.ndarray
    groups: np.ndarray
    keys: np.ndarray
    oldest: np.ndarray
    newest: np.ndarray
    following: np.ndarray


def walk(
    events: np.ndarray,
    keys: np.ndarray,
    groups: int,
    *,
    rows: np.ndarray | None = None,
    known_s: np.ndarray | None = None,
    until_s: int | None = None,
    running: bool = True,
) -> Walked:
    """Follow a trace, and describe the submissions ``rows``, by default all, as known at each.

    ``events`` are of :func:`events_of`; ``keys`` int64 [jobs, levels] the jobs' groups, of which there are ``groups``
    (:func:`features.jobs.runtime_features.numbered`). Starts before ``known_s`` and ends up to it are known, int64
    [rows], ascending, by default the submissions. The pass ends at ``until_s``, by default at the last of these.
    Without ``running`` jobs are known only once they have ended, as in accounting.
    """
    rows = np.arange(len(events)) if rows is None else rows
    known_s = events["submit_s"][rows] if known_s is None else known_s
    until_s = int(known_s.max(initial=-(2**62))) if until_s is None else until_s
    users = int(events["user"].max(initial=-1)) + 1
    by_start = np.argsort(events["start_s"], kind="stable")
    past = _Past(
        by_start=by_start if running else by_start[:0],
        by_end=by_start[np.argsort(events["end_s"][by_start], kind="stable")],
        users=np.tile(np.array(list(STATE.values())), (users + 1, 1)),  # the last row: of jobs without a user
        kept=np.zeros((users, KEPT)),
        groups=np.zeros((groups, GROUP)),
        keys=keys,
        oldest=np.full(users, -1),
        newest=np.full(users, -1),
        following=np.full(len(events), -1),
    )
    state = np.empty((len(rows), len(STATE)))
    like = np.empty((len(rows), keys.shape[1] * PER_LEVEL + COMMON + 1))
    # columns of tables are read-only or strided, and each kind would be compiled apart
    _walk(events, past, np.array(rows, np.int64), np.array(known_s, np.int64), until_s, state, like)
    return Walked(state, like, past.users[:users], past.groups)


def events_of(
    jobs: pd.DataFrame, start_s: np.ndarray, local_s: np.ndarray | None = None, end_s: np.ndarray | None = None
) -> np.ndarray:
    """Return the jobs as records of JOB.

    ``jobs`` is a cleaned canonical table in order of submission. ``start_s`` int64 [jobs] are recorded or simulated
    starts (seconds from the trace's origin), ``local_s`` the wall clock at submission
    (``features.clock.local_clock_s``), by default the trace's seconds, ``end_s`` the ends, by default start_s +
    runtime_s. Recorded ends are later if a runtime was cut at its request (``features.jobs.schema.recorded_end_s``).

    Raises InputError if a job starts before its submission, runs less than a second or ends before its runtime is over;
    ValueError if jobs are out of order.
    """
    events = np.empty(len(jobs), JOB)
    events["user"] = codes(jobs, "user")
    for name in ("submit_s", "runtime_s", "procs", "requested_s"):
        events[name] = jobs[name].to_numpy(np.int64)
    events["start_s"], events["local_s"] = start_s, events["submit_s"] if local_s is None else local_s
    events["end_s"] = events["start_s"] + events["runtime_s"] if end_s is None else end_s
    recorded = jobs["allocated_procs"].notna().to_numpy()
    events["allocated_procs"] = np.where(recorded, jobs["allocated_procs"].to_numpy(np.int64, na_value=0), events["procs"])

    if (np.diff(events["submit_s"]) < 0).any():
        raise ValueError("jobs are not in order of submission")
    for wrong, what in (
        (events["start_s"] < events["submit_s"], "starts before its submission"),
        (events["runtime_s"] < 1, "runs less than a second"),
        (events["end_s"] < events["start_s"] + events["runtime_s"], "ends before its runtime is over"),
    ):
        if wrong.any():
            raise InputError(f"job {jobs['job_id'].iloc[int(wrong.argmax())]} {what}")
    return events


def completed_jobs(jobs: pd.DataFrame, start_s: np.ndarray) -> np.ndarray:
    """Return how many of its user's jobs had ended at each submission, float64 [jobs].

    Errors are those of :func:`events_of`.
    """
    return walk(events_of(jobs, start_s), np.empty((len(jobs), 0), np.int64), 0).state[:, COMPLETED]


@njit
def _walk(jobs, past, rows, instants, until, state, like):
    """Fill ``state`` and ``like`` of the submissions ``rows``; leave ``past`` as at ``until``."""
    started, ended, width = 0, 0, like.shape[1] - 1
    for i in range(len(rows)):
        started, ended = _advance(instants[i], started, ended, jobs, past)
        job, keys, user = jobs[rows[i]], past.keys[rows[i]], jobs[rows[i]].user
        if user >= 0:
            _drop_ended(user, instants[i], jobs, past)
        state[i] = past.users[user]
        describe(like[i], past.groups, keys, max(job.submit_s, instants[i]), job.local_s, job.requested_s, job.procs)
        like[i, width] = spread(past.groups, keys) if user >= 0 else np.nan
    _advance(until, started, ended, jobs, past)
    for user in range(len(past.users) - 1):
        _drop_ended(user, until, jobs, past)


@njit
def _advance(now, started, ended, jobs, past):
    """Update the states with starts before and ends up to ``now``; return both counts so far.

    Every job runs at least a second, so a job's start is always handled before its end.
    """
    by_start, by_end = past.by_start, past.by_end
    while started < len(by_start) and jobs[by_start[started]].start_s < now:
        row = by_start[started]
        started += 1
        job = jobs[row]
        if job.user < 0:
            continue
        user = past.users[job.user]
        user[RUNNING] += 1
        user[RUNNING_PROCS] += job.procs
        user[SUM_START] += job.start_s
        if past.oldest[job.user] < 0:
            past.oldest[job.user] = row
        else:
            past.following[past.newest[job.user]] = row
        past.newest[job.user] = row
    while ended < len(by_end) and jobs[by_end[ended]].end_s <= now:
        row = by_end[ended]
        ended += 1
        job = jobs[row]
        if job.user >= 0:
            user = past.users[job.user]
            if len(by_start) > 0:
                user[RUNNING] -= 1
                user[RUNNING_PROCS] -= job.procs
                user[SUM_START] -= job.start_s
            kept, count = past.kept[job.user], int(user[COMPLETED])
            vary(user[VARIES:], kept, past.groups, past.keys[row], job.runtime_s, job.requested_s, count)
            user[COMPLETED] += 1
            user[THIRD_LAST] = user[SECOND_LAST]
            user[SECOND_LAST] = user[LAST]
            user[LAST] = job.runtime_s
            user[SUM_RUNTIME] += job.runtime_s
            user[SUM_PROCS] += job.procs
            user[SUM_ALLOCATED] += job.allocated_procs
            user[LAST_END] = job.end_s
        remember(past.groups, past.keys[row], job.runtime_s, job.end_s)
    return started, ended


@njit
def _drop_ended(user, now, jobs, past):
    """Set ``oldest`` to the earliest started job that still runs, and note its start.

    A user's jobs form a list in order of start. Ended jobs at its front are passed once, so every job is stepped over
    at most once in the whole pass; ended jobs behind the front are harmless.
    """
    while past.oldest[user] >= 0 and jobs[past.oldest[user]].end_s <= now:
        past.oldest[user] = past.following[past.oldest[user]]
    oldest = past.oldest[user]
    past.users[user, EARLIEST_START] = jobs[oldest].start_s if oldest >= 0 else np.nan
