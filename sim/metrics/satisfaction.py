"""Waits that users accept, and complaints about jobs that wait longer.

After Klusacek & Chlumsky, "Planning and metaheuristic optimization in production job scheduler" (JSSPP 2017): a user accepts a
wait that grows with the job's processors and requested time, less than proportionally, and is summed over the user's jobs that
are present. When a job starts, its wait is compared with that limit. The text leaves two things open. Here, present jobs are
those that wait or run, and they are counted at the user's last submission up to the start, when, in its words, the limit was
calculated last. The released simulator (Alea, ``AgentDynamicWithSatisfactionModel``) differs: it keeps a budget per user, from
which the time between submissions is taken while jobs wait, and compares it with the time since the user's latest submission, not
with the job's own wait. Nothing here follows that.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from features.jobs.columns import Texts, column, held
from features.jobs.schema import codes
from sim.schedule import Schedule
from sim.users.names import Rule, users

_HOUR_S = 3600
_LIMITS_S = np.array([3, 7, 24, 7 * 24]) * _HOUR_S
"""Requested times from which the next divisor applies."""
_FLOORS_S = np.array([0.0, 3.0, 3.5, 8.0, 42.0]) * _HOUR_S
"""The program's min acceptable wait for one processor, by divisor 1..5."""


class UserJobs(NamedTuple):
    """What users see of their jobs, int64 [jobs]; ``user`` is a code, -1 for unknown.

    ``start`` may be of several schedules of the same jobs, [schedules, jobs]; ``rule`` is that of :func:`acceptable_wait_s`.
    """

    user: np.ndarray
    submit: np.ndarray
    start: np.ndarray
    runtime: np.ndarray
    procs: np.ndarray
    requested: np.ndarray
    rule: Rule = "program"


def user_jobs(schedule: Schedule) -> UserJobs:
    """Return what users see of the jobs of ``schedule``."""
    names = ("submit_s", "start_s", "runtime_s", "procs", "requested_s")
    jobs = held(schedule)
    if not isinstance(column(jobs, "user"), Texts):  # as in a file
        jobs = schedule.jobs.astype({"user": "category"})
    user, seen = codes(jobs, "user"), (np.asarray(column(jobs, name), np.int64) for name in names)
    return UserJobs(user, *seen, users(schedule.users).patience)  # type: ignore[arg-type, call-arg]


def acceptable_wait_s(procs: np.ndarray, requested_s: np.ndarray, rule: Rule = "program") -> np.ndarray:
    """Return the wait that a job justifies: (ln(n)+1) * requested/divisor, float64 [jobs], s.

    The divisor is 1..5 for requests of < 3 h, < 7 h, < 24 h, < 7 d, or more. ``program`` adds the floors of the released
    simulator (3, 3.5, 8 and 42 h for divisors 2 to 5), ``paper`` is the formula as printed.
    """
    step = np.searchsorted(_LIMITS_S, requested_s, side="right")
    wait = np.asarray(requested_s, np.float64) / (step + 1)
    if rule == "program":
        wait = np.maximum(wait, _FLOORS_S[step])
    return (np.log(np.asarray(procs, np.float64)) + 1.0) * wait


def dissatisfaction(jobs: UserJobs) -> np.ndarray:
    """Return each job's wait over the wait that its user accepts, float64 [jobs].

    Above 1 the user complains; NaN for an unknown user. Submissions of the same second count, and the job itself always does.
    """
    _, job, level = _levels(jobs, 0.0)
    levels = np.empty(len(jobs.user))
    levels[job] = level
    return levels


def complaints(jobs: UserJobs) -> np.ndarray:
    """Return how many jobs waited longer than their users accept, int64 [schedules]."""
    # a user accepts at least what the job alone justifies, so few jobs are candidates
    schedule, _, level = _levels(jobs, 0.5)
    schedules = jobs.start.shape[:-1]
    return np.bincount(schedule[level > 1.0], minlength=math.prod(schedules)).reshape(schedules)


def _levels(jobs: UserJobs, least: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return schedule, job, wait over accepted wait, of waits from ``least`` * justified on."""
    first, last = int(jobs.submit.min(initial=0)), int((jobs.start + jobs.runtime).max(initial=0))
    # a moment is one integer of user code and time; like the simulator's events, job and time, it fits into 64 bits
    of_user = (jobs.user + 1) * (last - first + 2) - first
    order = np.argsort(of_user + jobs.submit)
    ordered = UserJobs(*(values[..., order] for values in jobs[:-1]))  # type: ignore[arg-type]  # searches in order are fast
    of_user, jobs = of_user[order], ordered._replace(rule=jobs.rule)
    justified, waited = acceptable_wait_s(jobs.procs, jobs.requested, jobs.rule), np.atleast_2d(jobs.start - jobs.submit)
    schedule, job = np.nonzero(waited >= least * justified)
    submitted, started = of_user + jobs.submit, np.atleast_2d(of_user + jobs.start)
    gone = started + jobs.runtime
    came = np.searchsorted(submitted, started[schedule, job], side="right")
    # differences of cumulative sums are exact for integers; here they are as large as their total allows
    scale = 2.0 ** (62 - np.ceil(np.log2(max(justified.sum(), 1.0))))
    values = np.rint(justified * scale).astype(np.int64)
    ahead = np.concatenate(([0], np.cumsum(values)))[came]
    ahead -= _sums_until(submitted, values, gone)[schedule, came - 1]
    accepted = ahead / scale + np.where(gone[schedule, job] > submitted[came - 1], 0.0, justified[job])
    return schedule, order[job], np.where(jobs.user[job] >= 0, waited[schedule, job] / accepted, np.nan)


def _sums_until(times: np.ndarray, values: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return the sums of ``values`` [n] whose ``moments`` [schedules, n] are at most each of ``times``, in order.

    int64 [schedules, times + 1]; the last is the sum of all.
    """
    sums = np.zeros((len(moments), len(times) + 1), np.int64)
    places = np.searchsorted(times, moments) + np.arange(0, sums.size, sums.shape[1])[:, None]
    np.add.at(sums.reshape(-1), places.ravel(), np.tile(values, len(moments)))  # numpy 2.4 broadcasts values wrongly itself
    return sums.cumsum(axis=1)
