"""The state of a queue at one time, as inputs for a job that waits in it.

It is made from accounting or from a snapshot. Everything is read from the jobs that run and wait at that time, so that
a live snapshot gives the same as accounting does later. Nothing that starts, ends or is submitted afterwards is read.
Packed into registered models.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from features.jit import COMPILED, kernel, njit

NOT_YET = 1 << 60
"""The start of a job that waits, and the end of one that runs."""
FEATURES = {
    "width": "the job's processors, in parts of the machine",
    "log_requested": "logarithm of its request, s",
    "log_predicted": "logarithm of the median of its predicted runtime, s",
    "hour": "hour of the local day",
    "weekday": "day of the week, 0 Thursday",
    "elapsed_s": "how long it has waited",
    "free": "processors that no job holds, in parts of the machine",
    "spare": "those less the job's",
    "running": "jobs that run",
    "running_requested": "what running jobs have left of their requests, in seconds of the whole machine",
    "running_predicted": "what they are predicted to have left",
    "waiting": "other jobs that wait",
    "waiting_procs": "their processors, in parts of the machine",
    "waiting_requested": "their requests, in seconds of the whole machine",
    "waiting_predicted": "their predicted runtimes",
    "ahead": "waiting jobs of a higher priority or, where it is not known, submitted before",
    "ahead_predicted": "their predicted runtimes, in seconds of the whole machine",
    "ahead_no_wider": "those of them that are no wider",
    "no_wider": "waiting jobs that are no wider",
    "no_wider_predicted": "their predicted runtimes, in seconds of the whole machine",
    "no_longer": "waiting jobs that ask for no more time",
    "no_longer_predicted": "their predicted runtimes, in seconds of the whole machine",
    "queue_waiting": "waiting jobs of its queue",
    "queue_predicted": "their predicted runtimes, in seconds of the whole machine",
    "queue_running": "processors that its queue holds, in parts of the machine",
    "user_waiting": "waiting jobs of its user",
    "user_predicted": "their predicted runtimes, in seconds of the whole machine",
    "user_running": "processors that its user holds, in parts of the machine",
    "oldest_s": "how long the first of the queue has waited",
    "oldest_width": "its processors, in parts of the machine",
    "oldest_no_wider_s": "the longest wait so far of those no wider",
    "oldest_alike_s": "of those alike in width, by a factor of two; -1: none waits",
    "oldest_queue_s": "of those of its queue; -1: none waits",
    "last_waits_s": "mean wait of the five running jobs that started last",
    "alike_waits_s": "of running jobs alike in width; -1: none runs",
    "queue_waits_s": "of running jobs of its queue; -1: none runs",
    "user_waits_s": "of running jobs of its user; -1: none runs",
    "since_start_s": "since a job that runs has started",
    "since_alike_s": "since one alike in width has",
    "started_hour": "running jobs that started in the last hour",
    "submitted_hour": "jobs that run or wait and were submitted in the last hour",
    "submitted_day": "in the last day",
    "fits_requested_s": "until so many processors are free by requests, if none of the waiting jobs starts",
    "fits_predicted_s": "the same by predictions",
    "queue_ahead": "those ahead that are of its queue",
    "queue_ahead_predicted": "their predicted runtimes, in seconds of the whole machine",
    "account_ahead": "those ahead that are of its account",
    "account_ahead_predicted": "their predicted runtimes, in seconds of the whole machine",
    "account_running": "processors that its account holds, in parts of the machine",
}
"""Descriptions of the features of a waiting job, in the order of the columns."""
AT: Any = namedtuple("AT", FEATURES)(*range(len(FEATURES)))  # type: ignore[misc]
"""The columns, by the names of the features."""
PLANS = (AT.fits_requested_s, AT.fits_predicted_s)
"""Columns that are waits by a simple plan."""
_FAR, _LONG_AGO = 1e7, -NOT_YET
_HOUR_S, _DAY_S = 3600, 86_400


class QueueJobs(NamedTuple):
    """Jobs in order of submission, from accounting or a snapshot.

    Columns are int64 [jobs], seconds or codes. ``start`` and ``end`` are ``NOT_YET`` if not known yet. ``quantiles``
    int64 [jobs, levels] are those of each runtime, predicted at submission.
    """

    submit: np.ndarray
    start: np.ndarray
    end: np.ndarray
    procs: np.ndarray
    requested: np.ndarray
    user: np.ndarray
    queue: np.ndarray
    account: np.ndarray
    quantiles: np.ndarray


def by_priority(priority: np.ndarray, submit: np.ndarray, aside: np.ndarray) -> np.ndarray:
    """Return the order of jobs by priority, then by submission, int64 [jobs].

    0 is the first. ``priority`` float64 [jobs] is the site's, NaN where it is not known: these jobs come behind those
    with one. Jobs ``aside`` (bool [jobs]), such as held ones, come behind all, as they keep no other job from starting.
    """
    order = np.lexsort((submit, -priority, aside))  # NaN sorts last
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def states(
    jobs: QueueJobs, row: np.ndarray, at_s: np.ndarray, local_s: np.ndarray, procs: int, rank: np.ndarray | None = None
) -> np.ndarray:
    """Return the state for each question, float64 [questions, features].

    Question i is about job ``row[i]``, which was submitted by ``at_s[i]`` and has not started then; ``local_s`` is the
    local clock at that second (int64 all). ``procs`` is the machine's number of processors. Jobs of a lower ``rank``
    (:func:`by_priority`) count as ahead; None: those submitted before.
    """
    features = np.zeros((len(row), len(FEATURES)))
    order = np.lexsort((row, at_s))
    by_start, by_end = (np.argsort(times, kind="stable") for times in (jobs.start, jobs.end))
    # columns of tables are read-only or strided, and each kind would be compiled apart
    jobs = QueueJobs._make(np.array(column, np.int64, order="C") for column in jobs)
    places: np.ndarray | list[int] = np.arange(len(jobs.submit)) if rank is None else np.array(rank, np.int64, order="C")
    if not COMPILED:
        places = list(map(int, places))
        jobs = QueueJobs._make(column.tolist() for column in jobs)  # plain Python takes 0.4 times as long with lists
    _walk(jobs, places, by_start, by_end, row[order], at_s[order], local_s[order], procs, features)
    back = np.empty_like(features)
    back[order] = features
    return back


@njit
def _walk(jobs, rank, by_start, by_end, row, at_s, local_s, procs, features):
    """Update the running and waiting jobs from question to question, and describe each."""
    total = len(jobs.submit)
    lists, place = np.zeros((2, total), np.int64), np.full((2, total), -1)  # of waiting, running jobs
    size = np.zeros(2, np.int64)
    left, wide = np.zeros((2, total)), np.zeros(total)
    submitted = started = ended = 0
    for question in range(len(row)):
        job, now = row[question], at_s[question]
        while submitted < total and jobs.submit[submitted] <= now and (jobs.submit[submitted] < now or submitted <= job):
            _put(lists, place, size, 0, submitted)
            submitted += 1
        while started < total and jobs.start[by_start[started]] < now and place[0, by_start[started]] >= 0:
            _drop(lists, place, size, 0, by_start[started])
            _put(lists, place, size, 1, by_start[started])
            started += 1
        while ended < total and jobs.end[by_end[ended]] <= now and place[1, by_end[ended]] >= 0:
            _drop(lists, place, size, 1, by_end[ended])
            ended += 1
        _describe(jobs, rank, job, now, local_s[question], lists, size, procs, left, wide, features[question])


@kernel
def _put(lists, place, size, which, job):
    place[which, job] = size[which]
    lists[which, size[which]] = job
    size[which] += 1


@kernel
def _drop(lists, place, size, which, job):
    size[which] -= 1
    last = lists[which, size[which]]
    lists[which, place[which, job]] = last
    place[which, last] = place[which, job]
    place[which, job] = -1


@kernel
def remaining(quantiles, elapsed, requested):
    """Return the median of what is left of a runtime after ``elapsed`` seconds."""
    levels, outlived = len(quantiles), 0
    while outlived < levels and quantiles[outlived] <= elapsed:
        outlived += 1
    if outlived == levels:
        return max(requested - elapsed, 1)
    return max(quantiles[(outlived + levels - 1) // 2] - elapsed, 1)


@njit
def _earliest(needed, free, left, wide, running):
    """Return the seconds until ``needed`` processors are free, as running jobs leave."""
    if needed <= free:
        return 0.0
    latest = 0.0
    for job in np.argsort(left[:running]):
        free += wide[job]
        latest = left[job]
        if free >= needed:
            break
    return latest


@njit
def _describe(jobs, rank, job, now, local, lists, size, procs, left, wide, row):
    """Write the state for ``job`` at ``now`` to ``row``, zeros; the columns are those of ``FEATURES``.

    ``left`` and ``wide`` are room for what running jobs have left and for their processors.
    """
    width = jobs.procs[job]
    row[AT.width] = width / procs
    row[AT.log_requested] = np.log(jobs.requested[job])
    row[AT.log_predicted] = np.log(remaining(jobs.quantiles[job], 0, jobs.requested[job]))
    row[AT.hour] = local % _DAY_S / _HOUR_S
    row[AT.weekday] = local // _DAY_S % 7
    row[AT.elapsed_s] = now - jobs.submit[job]
    free = _describe_running(jobs, job, now, lists[1, : size[1]], procs, left, wide, row)
    row[AT.free] = free / procs
    row[AT.spare] = (free - width) / procs
    row[AT.fits_requested_s] = _earliest(width, free, left[0], wide, size[1])
    row[AT.fits_predicted_s] = _earliest(width, free, left[1], wide, size[1])
    _describe_waiting(jobs, rank, job, now, lists[0, : size[0]], procs, row)


@njit
def _describe_running(jobs, job, now, running, procs, left, wide, row):
    """Write what is known of the ``running`` jobs; return the processors that none of them holds."""
    width, machine, free = jobs.procs[job], 1.0 * procs, procs
    waits, counts = np.zeros(3), np.zeros(3)  # of jobs alike in width, of the queue, of the user
    last_start, last_wait = np.full(5, _LONG_AGO), np.zeros(5)
    row[AT.running] = len(running)
    row[AT.since_start_s] = row[AT.since_alike_s] = _FAR
    for i in range(len(running)):
        other = running[i]
        others, ran = jobs.procs[other], now - jobs.start[other]
        wait = 1.0 * (jobs.start[other] - jobs.submit[other])
        free -= others
        left[0, i] = max(jobs.requested[other] - ran, 1)
        left[1, i] = remaining(jobs.quantiles[other], ran, jobs.requested[other])
        wide[i] = others
        row[AT.running_requested] += others * left[0, i] / machine
        row[AT.running_predicted] += others * left[1, i] / machine
        row[AT.since_start_s] = min(row[AT.since_start_s], 1.0 * ran)
        if others <= 2 * width and width <= 2 * others:
            waits[0] += wait
            counts[0] += 1
            row[AT.since_alike_s] = min(row[AT.since_alike_s], 1.0 * ran)
        if jobs.queue[other] == jobs.queue[job]:
            row[AT.queue_running] += others / machine
            waits[1] += wait
            counts[1] += 1
        if jobs.user[other] == jobs.user[job]:
            row[AT.user_running] += others / machine
            waits[2] += wait
            counts[2] += 1
        if jobs.account[other] == jobs.account[job]:
            row[AT.account_running] += others / machine
        row[AT.started_hour] += ran < _HOUR_S
        row[AT.submitted_hour] += now - jobs.submit[other] < _HOUR_S
        row[AT.submitted_day] += now - jobs.submit[other] < _DAY_S
        slot = np.argmin(last_start)
        if jobs.start[other] > last_start[slot]:
            last_start[slot], last_wait[slot] = jobs.start[other], wait
    row[AT.last_waits_s] = last_wait.sum() / max((last_start > _LONG_AGO).sum(), 1)
    for kind in range(3):
        row[AT.alike_waits_s + kind] = waits[kind] / counts[kind] if counts[kind] > 0 else -1.0
    return free


@njit
def _describe_waiting(jobs, rank, job, now, waiting, procs, row):
    """Write what is known of the ``waiting`` jobs other than ``job``."""
    width, machine, oldest = jobs.procs[job], 1.0 * procs, -1
    row[AT.oldest_alike_s] = row[AT.oldest_queue_s] = -1.0
    for other in waiting:
        if other == job:
            continue
        others, age = jobs.procs[other], 1.0 * (now - jobs.submit[other])
        area = others * remaining(jobs.quantiles[other], 0, jobs.requested[other]) / machine
        before, same_queue = rank[other] < rank[job], jobs.queue[other] == jobs.queue[job]
        row[AT.waiting] += 1
        row[AT.waiting_procs] += others / machine
        row[AT.waiting_requested] += others * jobs.requested[other] / machine
        row[AT.waiting_predicted] += area
        _count(row, AT.ahead, before, area)
        _count(row, AT.no_wider, others <= width, area)
        _count(row, AT.no_longer, jobs.requested[other] <= jobs.requested[job], area)
        _count(row, AT.queue_waiting, same_queue, area)
        _count(row, AT.user_waiting, jobs.user[other] == jobs.user[job], area)
        _count(row, AT.queue_ahead, before and same_queue, area)
        _count(row, AT.account_ahead, before and jobs.account[other] == jobs.account[job], area)
        row[AT.ahead_no_wider] += before and others <= width
        if others <= width:
            row[AT.oldest_no_wider_s] = max(row[AT.oldest_no_wider_s], age)
        if others <= 2 * width and width <= 2 * others:
            row[AT.oldest_alike_s] = max(row[AT.oldest_alike_s], age)
        if same_queue:
            row[AT.oldest_queue_s] = max(row[AT.oldest_queue_s], age)
        row[AT.submitted_hour] += age < _HOUR_S
        row[AT.submitted_day] += age < _DAY_S
        if oldest < 0 or rank[other] < rank[oldest]:
            oldest = other
    if oldest >= 0:
        row[AT.oldest_s] = now - jobs.submit[oldest]
        row[AT.oldest_width] = jobs.procs[oldest] / machine


@kernel
def _count(row, column, counts, area):
    """Count a job in ``column``, and its processor-seconds in the one behind it."""
    if counts:
        row[column] += 1
        row[column + 1] += area
