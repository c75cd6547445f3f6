"""Waits that users accept, and complaints where a job waits longer.

After Klusacek & Chlumsky, "Planning and metaheuristic optimization in production job scheduler" (JSSPP 2017): a user accepts a wait
that grows with the job's processors and requested time, less than proportionally, and is summed over the user's jobs that are
present; when a job starts, its wait is compared with that limit. The text leaves two things open, and both are options of
:class:`Patience`: which jobs are present (waiting, or running as well), and at which moment they are counted.

The released simulator (Alea, ``AgentDynamicWithSatisfactionModel``) does otherwise: it keeps a budget a user, from which the time
between submissions is taken while jobs wait, and compares it with the time since the user's latest submission, not with the job's
own wait. Nothing here follows that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from features.errors import InputError
from sim.schedule import Schedule

Rule = Literal["paper", "program"]
Present = Literal["all", "waiting"]
Moment = Literal["submission", "last-submission", "start"]

_HOUR_S = 3600
_LIMITS_S = np.array([3, 7, 24, 7 * 24]) * _HOUR_S
"""Requested times from which the next divisor applies."""
_FLOORS_S = np.array([0.0, 3.0, 3.5, 8.0, 42.0]) * _HOUR_S
"""The program's min acceptable wait for one processor, by divisor 1..5."""


@dataclass(frozen=True)
class Patience:
    """How the wait that a user accepts is read; InputError for an unknown reading.

    ``rule``: the formula as printed (``paper``), or with the floors of the released simulator, which keep it from falling where the
    divisor steps up (``program``). ``present``: the user's jobs that wait (``waiting``), or also those that run (``all``).
    ``moment``, at which these are counted: the job's own submission, its start, or the user's last submission up to the start, at
    which, in the paper's words, the limit was calculated last (``last-submission``).
    """

    rule: Rule = "program"
    present: Present = "all"
    moment: Moment = "last-submission"

    def __post_init__(self) -> None:
        known = {"rule": Rule, "present": Present, "moment": Moment}
        for name, readings in known.items():
            if getattr(self, name) not in get_args(readings):
                raise InputError(f"unknown {name} {getattr(self, name)!r} of patience; known: {', '.join(get_args(readings))}")


class UserJobs(NamedTuple):
    """What users see of their jobs, int64 [jobs]; ``user`` is a code, -1 for unknown."""

    user: np.ndarray
    submit: np.ndarray
    start: np.ndarray
    runtime: np.ndarray
    procs: np.ndarray
    requested: np.ndarray


def user_jobs(schedule: Schedule) -> UserJobs:
    """Return what users see of the jobs of ``schedule``."""
    names = ("submit_s", "start_s", "runtime_s", "procs", "requested_s")
    user = schedule.jobs["user"].astype("category").cat.codes.to_numpy(np.int64)
    return UserJobs(user, *(schedule.jobs[name].to_numpy(np.int64) for name in names))


def acceptable_wait_s(procs: np.ndarray, requested_s: np.ndarray, rule: Rule = "program") -> np.ndarray:
    """Return the wait that a job justifies: (ln(n)+1) * requested/divisor, float64 [jobs], s.

    The divisor is 1..5 for < 3 h, < 7 h, < 24 h, < 7 d, else. ``program`` adds the floors of the released simulator (3, 3.5, 8
    and 42 h for divisors 2 to 5), ``paper`` is the formula as printed.
    """
    step = np.searchsorted(_LIMITS_S, requested_s, side="right")
    wait = np.asarray(requested_s, np.float64) / (step + 1)
    if rule == "program":
        wait = np.maximum(wait, _FLOORS_S[step])
    return (np.log(np.asarray(procs, np.float64)) + 1.0) * wait


def surface_h(procs: np.ndarray, requested_h: np.ndarray, rule: Rule = "program") -> np.ndarray:
    """Return acceptable waits of single jobs, float64 [requests, processors], hours.

    The surface of the paper's figure 8.
    """
    wide, long = np.meshgrid(procs, np.asarray(requested_h, np.float64) * _HOUR_S)
    return acceptable_wait_s(wide, long, rule) / _HOUR_S


def seriousness(schedule: Schedule, patience: Patience | None = None) -> np.ndarray:
    """Return the wait over the acceptable wait of every complaint, most serious first."""
    found = dissatisfaction(user_jobs(schedule), patience)
    return -np.sort(-found[found > 1.0])


def dissatisfaction(jobs: UserJobs, patience: Patience | None = None) -> np.ndarray:
    """Return each job's wait over what its user accepts, float64 [jobs].

    Above 1 the user complains; NaN for an unknown user. Submissions of the same second count, and the job itself always does.
    """
    how = patience or Patience()
    first, last = int(jobs.submit.min(initial=0)), int((jobs.start + jobs.runtime).max(initial=0))
    # a moment is one integer, the user's code and the time: as an event of the simulator, job and time, it fits into 64 bits
    users = (jobs.user + 1) * (last - first + 2) - first
    order = np.argsort(users + jobs.submit)
    users, jobs = users[order], UserJobs(*(column[order] for column in jobs))  # searches of moments in order are fast
    submitted, started = users + jobs.submit, users + jobs.start
    gone = started if how.present == "waiting" else started + jobs.runtime
    at = {"submission": submitted, "start": started}.get(how.moment)
    at = submitted[np.searchsorted(submitted, started, side="right") - 1] if at is None else at
    left = at - 1 if gone is started and at is started else at  # jobs that start in one second all wait until then
    justified = acceptable_wait_s(jobs.procs, jobs.requested, how.rule)
    # differences of running sums are as exact as the values if these are integers, here as large as their total allows
    scale = 2.0 ** (62 - np.ceil(np.log2(max(justified.sum(), 1.0))))
    values, by_end = np.rint(justified * scale).astype(np.int64), np.argsort(gone)
    there = _sum_until(submitted, values, at) - _sum_until(gone[by_end], values[by_end], left)
    accepted = there / scale + np.where(gone > left, 0.0, justified)
    levels = np.empty(len(order))
    levels[order] = np.where(jobs.user >= 0, (jobs.start - jobs.submit) / accepted, np.nan)
    return levels


def _sum_until(moments: np.ndarray, values: np.ndarray, until: np.ndarray) -> np.ndarray:
    """Return the sum of ``values`` whose ``moments``, in order, are at most ``until``; int64 [until]."""
    return np.concatenate(([0], np.cumsum(values)))[np.searchsorted(moments, until, side="right")]
