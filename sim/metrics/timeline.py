"""A schedule over time: queue length, busy processors, and rectangles of a Gantt chart.

A step function is its breakpoints: ``values[i]`` holds from ``times[i]`` up to, not including, ``times[i + 1]``, the last one
forever. A simulator counts processors and does not name them, so the rows of a Gantt chart are assigned here, lowest free rows
first.
"""

from __future__ import annotations

from bisect import bisect
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import pandas as pd

from features.errors import InputError
from sim.schedule import Schedule


class Steps(NamedTuple):
    """A step function: ``times`` (int64 [k], ascending, seconds) and ``values`` (int64 [k])."""

    times: np.ndarray
    values: np.ndarray


def queue_length(schedule: Schedule) -> Steps:
    """Return the number of jobs submitted and not started."""
    return _count(schedule, "submit_s", "start_s", np.ones(len(schedule.jobs), np.int64))


def busy_procs(schedule: Schedule) -> Steps:
    """Return the processors that running jobs occupy."""
    return _count(schedule, "start_s", "end_s", schedule.jobs["procs"].to_numpy(np.int64))


def resample(times: np.ndarray, values: np.ndarray, step_s: int) -> tuple[np.ndarray, np.ndarray]:
    """Return starts (int64) and time-weighted means (float64) over steps of ``step_s``.

    Steps begin at ``times[0]``; the last step ends with the last breakpoint, and may be shorter.
    """
    if step_s <= 0:
        raise InputError(f"a step of {step_s} s cannot be resampled to: it must be positive")
    starts = np.arange(times[0], max(times[-1], times[0] + 1), step_s, dtype=np.int64)
    edges = np.append(starts, max(times[-1], times[0] + 1))
    return starts, np.diff(np.interp(edges, times, _integral(times, values))) / np.diff(edges)


def busiest_window(schedule: Schedule, length_s: int) -> tuple[int, int]:
    """Return the window of ``length_s`` in which present jobs request most processors.

    On average, waiting or running; the earliest of equals. Where the schedule is shorter, all of it.
    """
    times, values = _count(schedule, "submit_s", "end_s", schedule.jobs["procs"].to_numpy(np.int64))
    first, last = int(times[0]), int(times[-1])
    if last - first <= length_s:
        return first, last
    # the integral over a sliding window is piecewise linear: it peaks where one of its edges is a breakpoint
    starts = np.clip(np.concatenate((times, times - length_s)), first, last - length_s)
    integral = _integral(times, values)
    demand = np.interp(starts + length_s, times, integral) - np.interp(starts, times, integral)
    start = int(starts[demand == demand.max()].min())
    return start, start + length_s


def gantt(schedule: Schedule, window: tuple[int, int]) -> pd.DataFrame:
    """Return rectangles of the jobs that run within ``window`` = [from, to), one a piece.

    Columns: ``job_id user submit_s start_s end_s row rows``; pieces are contiguous. Jobs take the lowest-numbered free rows in
    order of start; those already running when the window opens come first. ``row`` counts from 0 and the times are the job's own,
    not cut at the window. A schedule that holds more than the machine gets rows beyond it.
    """
    begin, end = window
    jobs = schedule.jobs[(schedule.jobs["end_s"] > begin) & (schedule.jobs["start_s"] < end)]
    jobs = jobs.sort_values("start_s", kind="stable", ignore_index=True)
    start, stop = jobs["start_s"].to_numpy(np.int64), jobs["end_s"].to_numpy(np.int64)
    procs = jobs["procs"].to_numpy(np.int64)
    placed_at = np.maximum(start, begin)
    peak = int(_step_function(placed_at, stop, procs).values.max(initial=0))
    free = [(0, peak)]  # rows from the first up to, not including, the second; ascending, none beside another
    busy: list[tuple[int, int, int]] = []
    job, row, rows = [], [], []
    for i, (placed, until, needed) in enumerate(zip(placed_at.tolist(), stop.tolist(), procs.tolist(), strict=True)):
        while busy and busy[0][0] <= placed:
            _release(free, *heappop(busy)[1:])
        while needed > 0:
            first, end = free.pop(0)
            cut = min(end, first + needed)
            if cut < end:
                free.insert(0, (cut, end))
            heappush(busy, (until, first, cut))
            needed -= cut - first
            job.append(i)
            row.append(first)
            rows.append(cut - first)
    pieces = jobs.loc[job, ["job_id", "user", "submit_s", "start_s", "end_s"]].reset_index(drop=True)
    return pieces.assign(row=np.array(row, np.int64), rows=np.array(rows, np.int64))


def _release(free: list[tuple[int, int]], first: int, end: int) -> None:
    """Add the rows from ``first`` up to ``end`` to the ascending ``free`` ones, joined with those beside them."""
    at = bisect(free, (first, end))
    if at < len(free) and free[at][0] == end:
        end = free.pop(at)[1]
    if at > 0 and free[at - 1][1] == first:
        at -= 1
        first = free.pop(at)[0]
    free.insert(at, (first, end))


def _count(schedule: Schedule, enter: str, leave: str, weight: np.ndarray) -> Steps:
    jobs = schedule.jobs
    if len(jobs) == 0:
        raise InputError(f"schedule {schedule.label}: has no jobs")
    return _step_function(jobs[enter].to_numpy(np.int64), jobs[leave].to_numpy(np.int64), weight)


def _step_function(enter: np.ndarray, leave: np.ndarray, weight: np.ndarray) -> Steps:
    times, at = np.unique(np.concatenate((enter, leave)), return_inverse=True)
    change = np.zeros(len(times), np.int64)
    np.add.at(change, at, np.concatenate((weight, -weight)))
    return Steps(times, np.cumsum(change))


def _integral(times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the integral of a step function from ``times[0]`` to each breakpoint, float64 [k].

    Processors times seconds, summed over jobs, may exceed an int64.
    """
    return np.concatenate(([0.0], np.cumsum(values[:-1].astype(np.float64) * np.diff(times))))
