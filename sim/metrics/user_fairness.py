"""Fairness between users: normalised user wait time, and waits beyond what a user accepts.

Both follow Klusacek & Chlumsky, "Planning and metaheuristic optimization in production job scheduler" (JSSPP 2017): NUWT is a
user's total wait divided by the resources it used; a user accepts a wait that grows with the job's processors and requested time,
less than proportionally, and is summed over the user's jobs of that time. The released program raises the printed formula by
floors, which keep it from falling where the divisor steps up.

Two readings exist of the jobs in the sum. ``present``, the paper's words: a user's limit is calculated anew at each submission of
one of its jobs, over all its jobs in the system then, waiting or running, and a job's wait is compared with it when the job
starts. ``waiting``, stricter: the limit is fixed when the job is submitted, over the user's jobs that wait then.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import pandas as pd

from features.errors import InputError
from sim.schedule import Schedule

AcceptableWait = Literal["paper", "program"]
Summed = Literal["present", "waiting"]

_HOUR_S = 3600
_LIMITS_S = np.array([3, 7, 24, 7 * 24]) * _HOUR_S
"""Requested times from which the next divisor applies."""
_FLOORS_S = np.array([0.0, 3.0, 3.5, 8.0, 42.0]) * _HOUR_S
"""The program's min acceptable wait for one processor, by divisor 1..5."""


def acceptable_wait_s(procs: np.ndarray, requested_s: np.ndarray, rule: AcceptableWait = "program") -> np.ndarray:
    """Return the wait that a job justifies: (ln(n)+1) * requested/divisor, float64 [jobs], s.

    The divisor is 1..5 for < 3 h, < 7 h, < 24 h, < 7 d, else. ``program`` adds the floors of the released simulator (3, 3.5, 8
    and 42 h for divisors 2 to 5), ``paper`` is the formula as printed.
    """
    if rule not in get_args(AcceptableWait):
        raise InputError(f"unknown rule of acceptable waits {rule!r}; known: {', '.join(get_args(AcceptableWait))}")
    step = np.searchsorted(_LIMITS_S, requested_s, side="right")
    wait = np.asarray(requested_s, np.float64) / (step + 1)
    if rule == "program":
        wait = np.maximum(wait, _FLOORS_S[step])
    return (np.log(np.asarray(procs, np.float64)) + 1.0) * wait


def dissatisfaction(schedule: Schedule, rule: AcceptableWait = "program", summed: Summed = "present") -> np.ndarray:
    """Return each job's wait over what its user accepts, float64 [jobs].

    Above 1 the user complains; NaN for an unknown user. ``present``: accepted is the sum over the user's jobs in the system at
    its last submission up to the job's start; ``waiting``: over those that wait at the job's own submission. Submissions of the
    same second count, and the job itself always does. InputError for an unknown reading.
    """
    if summed not in get_args(Summed):
        raise InputError(f"unknown reading of the jobs summed up {summed!r}; known: {', '.join(get_args(Summed))}")
    jobs = schedule.jobs
    user, _ = pd.factorize(jobs["user"])
    submit, start = jobs["submit_s"].to_numpy(np.int64), jobs["start_s"].to_numpy(np.int64)
    justified = acceptable_wait_s(jobs["procs"].to_numpy(), jobs["requested_s"].to_numpy(), rule)
    if summed == "present":
        at, gone = _last_submission(user, submit, start), jobs["end_s"].to_numpy(np.int64)
    else:
        at, gone = submit, start
    there = _sum_until(user, submit, justified, at) - _sum_until(user, gone, justified, at)
    accepted = np.maximum(there, justified)  # a job that starts at once never waits
    return np.where(user >= 0, (start - submit) / accepted, np.nan)


def per_user(schedule: Schedule, rule: AcceptableWait = "program", summed: Summed = "present") -> pd.DataFrame:
    """Return one row a user, in order of first submission.

    Columns: ``jobs wait_s area_proc_s nuwt dissatisfied_jobs worst_dissatisfaction``. ``nuwt`` is total wait / processor-seconds
    used, 1/processors. Jobs without a known user are in no row.
    """
    jobs = schedule.jobs
    table = pd.DataFrame(
        {
            "user": pd.Series(jobs["user"].array, dtype=object),
            "wait_s": (jobs["start_s"] - jobs["submit_s"]).to_numpy(np.int64),
            "area_proc_s": jobs["procs"].to_numpy(np.float64) * jobs["runtime_s"].to_numpy(np.float64),  # sums exceed an int64
            "dissatisfaction": dissatisfaction(schedule, rule, summed),
        }
    )
    table["dissatisfied"] = table["dissatisfaction"] > 1.0
    users = table.groupby("user", sort=False).agg(
        jobs=("wait_s", "size"),
        wait_s=("wait_s", "sum"),
        area_proc_s=("area_proc_s", "sum"),
        dissatisfied_jobs=("dissatisfied", "sum"),
        worst_dissatisfaction=("dissatisfaction", "max"),
    )
    users.insert(3, "nuwt", users["wait_s"] / users["area_proc_s"])
    return users


def fairness(schedule: Schedule, rule: AcceptableWait = "program", summed: Summed = "present") -> pd.Series:
    """Return fairness over users as a Series (dtype object, counts int).

    ``users jobs_without_user nuwt_mean nuwt_std dissatisfied_users dissatisfied_jobs``. The standard deviation is the
    population's. Raises InputError where no job has a user.
    """
    users = per_user(schedule, rule, summed)
    if len(users) == 0:
        raise InputError(f"{schedule.trace or 'schedule'}: names no users, so there is no fairness between them")
    record = {
        "users": len(users),
        "jobs_without_user": len(schedule.jobs) - int(users["jobs"].sum()),
        "nuwt_mean": float(users["nuwt"].mean()),
        "nuwt_std": float(users["nuwt"].std(ddof=0)),
        "dissatisfied_users": int((users["dissatisfied_jobs"] > 0).sum()),
        "dissatisfied_jobs": int(users["dissatisfied_jobs"].sum()),
    }
    return pd.Series(record, dtype=object, name=schedule.label)


def _last_submission(user: np.ndarray, submit: np.ndarray, until: np.ndarray) -> np.ndarray:
    """Return when each job's user last submitted a job up to ``until``; int64 [jobs] all.

    ``until`` is no earlier than the job's own submission.
    """
    found = np.empty(len(user), np.int64)
    order = np.lexsort((submit, user))
    for group in np.split(order, np.flatnonzero(np.diff(user[order])) + 1):
        found[group] = submit[group][np.searchsorted(submit[group], until[group], side="right") - 1]
    return found


def _sum_until(user: np.ndarray, times: np.ndarray, values: np.ndarray, until: np.ndarray) -> np.ndarray:
    """Return for each job the sum of ``values`` of its user's jobs whose ``times`` are due.

    A time is due if it is at most ``until``; all are [jobs].
    """
    total = np.zeros(len(user))
    order = np.lexsort((times, user))
    for group in np.split(order, np.flatnonzero(np.diff(user[order])) + 1):
        sums = np.concatenate(([0.0], np.cumsum(values[group])))
        total[group] = sums[np.searchsorted(times[group], until[group], side="right")]
    return total
