"""A schedule over time: queue length and busy processors.

A step function is given by its breakpoints: ``values[i]`` holds from ``times[i]`` up to, not including, ``times[i + 1]``, the
last value forever.
"""

from __future__ import annotations

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
    return _step_function(jobs[enter].to_numpy(np.int64), jobs[leave].to_numpy(np.int64), weight)


def _step_function(enter: np.ndarray, leave: np.ndarray, weight: np.ndarray) -> Steps:
    times, at = np.unique(np.concatenate((enter, leave)), return_inverse=True)
    change = np.zeros(len(times), np.int64)
    np.add.at(change, at, np.concatenate((weight, -weight)))
    return Steps(times, np.cumsum(change))
