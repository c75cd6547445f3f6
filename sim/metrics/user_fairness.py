"""Fairness between users: normalised user wait time (NUWT).

After Klusacek & Chlumsky, "Planning and metaheuristic optimization in production job scheduler" (JSSPP 2017): a user's NUWT is
its total wait over the resources that it used, here seconds over processor-seconds, so that a user below 1 computed for longer
than it waited. Fairness is the mean and the standard deviation over users. A user that used nothing has no NUWT and is left out
of both: a schedule holds only jobs that ran, so this happens only to users all of whose jobs are missing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from features.jobs.columns import Texts, column, held
from features.jobs.schema import codes
from sim.schedule import Schedule


class UserJobs(NamedTuple):
    """What users see of their jobs, int64 [jobs]; ``user`` is a code, -1 for unknown.

    ``start`` may be of several schedules of the same jobs, [schedules, jobs].
    """

    user: np.ndarray
    submit: np.ndarray
    start: np.ndarray
    runtime: np.ndarray
    procs: np.ndarray
    requested: np.ndarray


def user_jobs(schedule: Schedule) -> UserJobs:
    """Return what users see of the jobs of ``schedule``."""
    names = ("submit_s", "start_s", "runtime_s", "procs", "requested_s")
    jobs = held(schedule)
    if not isinstance(column(jobs, "user"), Texts):  # as in a file
        jobs = schedule.jobs.astype({"user": "category"})
    return UserJobs(codes(jobs, "user"), *(np.asarray(column(jobs, name), np.int64) for name in names))


def fairness_of(jobs: UserJobs) -> dict[str, np.ndarray]:
    """Return ``nuwt_mean nuwt_sd`` of each schedule, [...] each.

    All NaN if no user is known. The standard deviation is the population's.
    """
    schedules, has_user = jobs.start.shape[:-1], jobs.user >= 0
    if not has_user.any():
        return {name: np.full(schedules, np.nan) for name in ("nuwt_mean", "nuwt_sd")}
    user, users = jobs.user[has_user], int(jobs.user.max()) + 1
    total = np.bincount(user, jobs.procs[has_user].astype(np.float64) * jobs.runtime[has_user])
    wait = np.ascontiguousarray((jobs.start - jobs.submit)[..., has_user])
    begins = np.arange(0, math.prod(schedules) * users, users).reshape(*schedules, 1)
    waited = np.bincount((user + begins).ravel(), wait.ravel(), math.prod(schedules) * users).reshape(*schedules, users)
    used = total > 0  # some codes have no jobs
    values = np.ascontiguousarray(waited[..., used]) / total[used]
    return {"nuwt_mean": values.mean(axis=-1), "nuwt_sd": values.std(axis=-1)}
