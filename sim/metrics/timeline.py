"""A schedule over time: queue length, busy processors, the processors of each job.

A step function is given by its breakpoints: ``values[i]`` holds from ``times[i]`` up to, not including, ``times[i + 1]``, the
last value forever. A pool only counts processors; files of other programs name them, and pictures draw them.
"""

from __future__ import annotations

import heapq
from bisect import bisect
from typing import NamedTuple

import numpy as np

from features.errors import InputError
from sim.schedule import Schedule


class Steps(NamedTuple):
    """A step function: ``times`` (int64 [k], ascending, seconds) and ``values`` (int64 [k])."""

    times: np.ndarray
    values: np.ndarray


def queue_length(schedule: Schedule) -> Steps:
    """Return the number of jobs that are submitted and not started."""
    return _count(schedule, "submit_s", "start_s", np.ones(len(schedule.jobs), np.int64))


def busy_procs(schedule: Schedule) -> Steps:
    """Return the processors that running jobs occupy."""
    return _count(schedule, "start_s", "end_s", schedule.jobs["procs"].to_numpy(np.int64))


def _count(schedule: Schedule, enter: str, leave: str, weight: np.ndarray) -> Steps:
    jobs = schedule.jobs
    if len(jobs) == 0:
        raise InputError(f"schedule {schedule.label}: has no jobs")
    moments = np.concatenate((jobs[enter].to_numpy(np.int64), jobs[leave].to_numpy(np.int64)))
    times, at = np.unique(moments, return_inverse=True)
    change = np.zeros(len(times), np.int64)
    np.add.at(change, at, np.concatenate((weight, -weight)))
    return Steps(times, np.cumsum(change))


Span = tuple[int, int]
"""The first and the last processor of a range."""


def seats(schedule: Schedule) -> list[list[Span]]:
    """Return the processors of each job: the lowest free ones, in the order of starts.

    Raises InputError if jobs hold more processors at a time than exist, as recorded jobs may.
    """
    jobs = schedule.jobs.reset_index(drop=True)
    free: list[Span] = [(0, schedule.procs - 1)]
    held: list[list[Span]] = [[] for _ in range(len(jobs))]
    ends: list[tuple[int, int]] = []
    order = jobs.sort_values(["start_s", "submit_s"], kind="stable")[["start_s", "end_s", "procs"]]
    for job, start, end, procs in order.itertuples(name=None):
        while ends and ends[0][0] <= start:
            for span in held[heapq.heappop(ends)[1]]:
                _give_back(free, span)
        while procs > 0:
            if not free:
                number = jobs["job_id"].iloc[job]
                wanting = f"needs more than is free of {schedule.procs:,} processors"
                raise InputError(f"{schedule.label}: job {number} starts at second {start} and {wanting}")
            first, last = free.pop(0)
            if last - first >= procs:
                free.insert(0, (first + procs, last))
                last = first + procs - 1
            held[job].append((first, last))
            procs -= last - first + 1
        heapq.heappush(ends, (end, job))
    return held


def _give_back(free: list[Span], span: Span) -> None:
    """Add a range to the free ones, which stay sorted and merged."""
    first, last = span
    at = bisect(free, span)
    if at < len(free) and free[at][0] == last + 1:
        last = free.pop(at)[1]
    if at > 0 and free[at - 1][1] == first - 1:
        at -= 1
        first = free.pop(at)[0]
    free.insert(at, (first, last))
