"""How well a planner tells when jobs will start: what was planned against what came.

Predictability is the first claim of Klusacek & Chlumsky, "Planning and metaheuristic optimization in production job scheduler"
(JSSPP 2017), which gives no number for it. Here the plan at a job's submission is what its user was told first, and every later
change of its planned start is drift.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from sim.schedule import Schedule


class Told(NamedTuple):
    """What a planner told of each job, [jobs] in the order of the schedule.

    ``first`` is the start planned at submission (int64, s), ``changes`` counts changes of the planned start, ``drift`` (int64, s) is
    their total up to the actual start. ``planned`` is False for a job without a plan, whose other values mean nothing.
    """

    planned: np.ndarray
    first: np.ndarray
    changes: np.ndarray
    drift: np.ndarray


def told(plans: pd.DataFrame, job_id: np.ndarray, start: np.ndarray) -> Told:
    """Return what the ``plans`` of a schedule told of the jobs ``job_id`` [jobs].

    ``plans`` as in :class:`~sim.schedule.Schedule`; those of other jobs are left out. ``start`` are the actual starts, int64
    [jobs], s.
    """
    row = pd.Index(job_id).get_indexer(plans["job_id"])
    kept = np.flatnonzero(row >= 0)
    kept = kept[np.argsort(row[kept], kind="stable")]  # by job, then in the order of time
    row, told_s = row[kept], plans["planned_start_s"].to_numpy(np.int64)[kept]
    opens = np.diff(row, prepend=-1) != 0
    closes = np.append(opens[1:], True)[: len(row)]
    step = np.abs(np.diff(told_s, prepend=0))
    step[opens] = 0
    drift = np.bincount(row, step, len(job_id)).astype(np.int64)
    changes = np.bincount(row, step > 0, len(job_id)).astype(np.int64)
    planned, first = np.zeros(len(job_id), bool), np.zeros(len(job_id), np.int64)
    planned[row], first[row[opens]] = True, told_s[opens]
    drift[row[closes]] += np.abs(start[row[closes]] - told_s[closes])
    return Told(planned, first, changes, drift)


def predicted_start_error_s(plans: pd.DataFrame | None, job_id: np.ndarray, start: np.ndarray) -> float:
    """Return the mean of abs(actual start - first planned start), s; NaN without plans."""
    if plans is None or len(plans) == 0:
        return np.nan
    found = told(plans, job_id, start)
    return float(np.abs(start - found.first)[found.planned].mean()) if found.planned.any() else np.nan


def predictability(schedule: Schedule) -> pd.Series:
    """Return how good a schedule's plans were as a Series (dtype object); empty without plans.

    ``jobs_planned``, ``jobs_without_plan``, ``predicted_start_error_s`` (mean over planned jobs, of which those that start at once
    err by nothing), ``predicted_start_error_waiting_s`` (of those that do not start at their submission), ``plan_changes`` (a job, mean),
    ``plan_drift_s`` (a job, mean of the total of all changes, at least the error) and ``started_by_first_plan``, the share of jobs that
    started no later than they were first told.
    """
    if schedule.plans is None or len(schedule.plans) == 0:
        return pd.Series({}, dtype=object, name=schedule.label)
    jobs = schedule.jobs
    start, submit = jobs["start_s"].to_numpy(np.int64), jobs["submit_s"].to_numpy(np.int64)
    found = told(schedule.plans, jobs["job_id"].to_numpy(), start)
    late = (start - found.first)[found.planned]
    waited = (start > submit)[found.planned]
    record = {
        "jobs_planned": int(found.planned.sum()),
        "jobs_without_plan": int((~found.planned).sum()),
        "predicted_start_error_s": _mean(np.abs(late)),
        "predicted_start_error_waiting_s": _mean(np.abs(late[waited])),
        "plan_changes": _mean(found.changes[found.planned]),
        "plan_drift_s": _mean(found.drift[found.planned]),
        "started_by_first_plan": _mean(late <= 0),
    }
    return pd.Series(record, dtype=object, name=schedule.label)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else np.nan
