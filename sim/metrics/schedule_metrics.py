"""Metrics of a schedule: waits, responses, slowdowns, packing and fairness.

With submission s, start, runtime p and n processors: wait Q = start - s, response F = Q + p, area n*p. Bounded slowdown
follows Feitelson et al. 1997; AWF and P^alpha SF follow Goponenko, Lamar, Peterson, Allan, Brandt & Dechev, "Metrics
for packing efficiency and fairness of HPC cluster batch job scheduling" (SBAC-PAD 2022). Lower is better for all but
utilization.

Where runtimes depend on the schedule, as on a cluster whose jobs slow each other down, slowdowns are responses over
undisturbed runtimes, and a job's area, the weight of AWF and P^alpha SF, is that of its undisturbed runtime: over its
own runtimes, a schedule that disturbs its jobs would have the lower slowdown, and each schedule would weigh jobs in its
own way.

Fairness between users is that of Klusacek & Chlumsky, "Planning and metaheuristic optimization in production job
scheduler" (JSSPP 2017): a user's normalised user wait time (NUWT) is its total wait over the resources that it used,
here seconds over processor-seconds, so that a user below 1 computed for longer than it waited. Fairness is the mean and
the standard deviation over users. A user that used nothing has no NUWT and is left out of both: a schedule holds only
jobs that ran, so this happens only to users all of whose jobs are missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from features.clock import DAY_S, WEEK_S
from features.deferred import pd
from features.errors import InputError, shown
from features.jobs.columns import Texts, column, held
from features.jobs.schema import codes
from features.statistics import Ratio
from sim.metrics.names import TAU_S
from sim.schedule import Schedule, checked

_WAITS, _SLOWED = 0.01, 1.1
"""Nothing waits noticeably if mean waits are below this share of the mean runtime and mean bounded slowdowns below
this."""


class Columns(NamedTuple):
    """The columns of a schedule, [jobs] each, and its first submission and last end.

    Times in seconds and processors, float64, and the number of corrections; ``first_s`` and ``last_s`` are the first
    submission and the last end, ``of_users`` the jobs as users see them. ``undisturbed`` is the runtime, but where it
    depends on the schedule. For several schedules of the same jobs, the columns that differ are [schedules, jobs], and
    ``last_s`` is [schedules].
    """

    wait: np.ndarray
    runtime: np.ndarray
    response: np.ndarray
    procs: np.ndarray
    predicted: np.ndarray
    corrections: np.ndarray
    first_s: int
    last_s: np.ndarray
    of_users: UserJobs
    undisturbed: np.ndarray


def as_columns(jobs: UserJobs, predicted: np.ndarray, corrections: np.ndarray, undisturbed: np.ndarray | None = None) -> Columns:
    """Return the columns of a schedule from whole seconds, int64 [jobs] each.

    For several schedules of the same jobs, [schedules, jobs] where they differ.
    """
    wait = jobs.start - jobs.submit
    first, last = int(jobs.submit.min()), (jobs.start + jobs.runtime).max(axis=-1)
    waited, ran = wait.astype(np.float64), jobs.runtime.astype(np.float64)
    return Columns(
        wait=waited,
        runtime=ran,
        response=waited + ran,
        procs=jobs.procs.astype(np.float64),
        predicted=predicted.astype(np.float64),
        corrections=corrections,
        first_s=first,
        last_s=last,
        of_users=jobs,
        undisturbed=ran if undisturbed is None else undisturbed,
    )


def check_tau(tau_s: float) -> None:
    """Raise InputError unless ``tau_s``, the bound of the slowdown, is a number above 0."""
    if not isinstance(tau_s, Real) or not 0 < tau_s < np.inf:
        raise InputError(f"tau_s must be a number of seconds above 0, not {shown(tau_s)}")


def evaluate(schedule: Schedule, tau_s: float = TAU_S) -> pd.Series:
    """Return all metrics of ``schedule`` by name; times in seconds.

    Counts are ``int``, the rest ``float`` (dtype object). Metrics that do not apply are NaN: fairness between users if
    none is known. Raises InputError for a schedule without jobs, and for one with a job that starts before its
    submission or has no runtime.
    """
    return pd.Series(metrics(schedule, tau_s), dtype=object, name=schedule.label)


def metrics(schedule: Schedule, tau_s: float = TAU_S) -> dict[str, Any]:
    """Return the entries of :func:`evaluate`."""
    check_tau(tau_s)
    columns = _columns(checked(schedule))
    record: dict[str, Any] = {name: value.tolist() for name, value in measure(columns, schedule.procs, tau_s).items()}
    record |= {"clamped_predictions": int(schedule.clamped_predictions), "simulate_s": float(schedule.simulate_s)}
    return record


def measure(columns: Columns, procs: int, tau_s: float = TAU_S) -> dict[str, np.ndarray]:
    """Return the metrics of schedules' columns on ``procs`` processors, by name, [...] each."""
    terms = {name: ratio.by_row() for name, ratio in ratios_of_times(columns).items()}
    makespan = np.asarray(columns.last_s - columns.first_s)
    area = (columns.procs * columns.runtime).sum()
    return {
        "jobs": np.full(makespan.shape, columns.wait.shape[-1]),
        **{name: terms[name] for name in ("mean_wait_s", "mean_response_s", "mean_slowdown")},
        **slowdowns(columns, tau_s),
        **{name: terms[name] for name in ("awf_s", "p2sf_s")},
        "longest_wait_s": longest_waits(columns).by_row(),
        "max_wait_s": columns.wait.max(axis=-1),
        "utilization": area / (procs * makespan.astype(np.float64)),
        "makespan_s": makespan,
        **_carried(columns, procs),
        "underpredicted_jobs": (columns.predicted < columns.runtime).sum(axis=-1),
        "corrections": columns.corrections.sum(axis=-1),
        **fairness_of(columns.of_users),
    }


def slowdowns(columns: Columns, tau_s: float) -> dict[str, np.ndarray]:
    """Return the metrics that depend on ``tau_s``, by name, [...] each."""
    slowdown = _bounded_slowdown(columns, tau_s)
    return {"mean_bounded_slowdown": slowdown.sum(axis=-1) / slowdown.shape[-1], "max_bounded_slowdown": slowdown.max(axis=-1)}


def longest_waits(columns: Columns) -> Ratio:
    """Return the longest wait of each week of submission, over 1, float64 [..., weeks].

    As a sum over weeks it has an interval; the longest wait of all depends on one job. Weeks count from the first
    submission; those without jobs are left out.
    """
    _, week = np.unique((columns.of_users.submit - columns.first_s) // WEEK_S, return_inverse=True)
    longest = np.zeros((*columns.wait.shape[:-1], int(week.max()) + 1))
    np.maximum.at(longest.T, week, columns.wait.T)
    return Ratio(longest, np.ones(longest.shape[-1]))


def _carried(columns: Columns, procs: int) -> dict[str, np.ndarray]:
    """Return throughput and carried load until nine tenths of the jobs have ended."""
    jobs = columns.of_users
    end = jobs.start + jobs.runtime
    count = -(-9 * end.shape[-1] // 10)
    until = np.partition(end, count - 1)[..., count - 1]
    work = (jobs.procs * np.maximum(np.minimum(end, until[..., None]) - jobs.start, 0)).sum(axis=-1)
    seconds = (until - columns.first_s).astype(np.float64)
    return {"throughput_per_day": count * DAY_S / seconds, "carried_load": work / (procs * seconds)}


def nothing_waits(rows: Iterable[Mapping[Any, Any]], procs: int) -> str:
    """Return a sentence if no job waits under any policy, else "".

    A comparison of such schedules says nothing. ``rows`` hold
    ``mean_wait_s mean_response_s mean_bounded_slowdown utilization`` by name, one row per schedule or mean of
    schedules.
    """
    schedules = list(rows)
    waits = max(row["mean_wait_s"] for row in schedules)
    share = max(row["mean_wait_s"] / max(row["mean_response_s"] - row["mean_wait_s"], 1.0) for row in schedules)
    if share >= _WAITS or max(row["mean_bounded_slowdown"] for row in schedules) >= _SLOWED:
        return ""
    busy = max(row["utilization"] for row in schedules)
    return (
        f"nothing waits here: mean waits are at most {waits:,.1f} s, and {busy:.1%} of {procs:,} processors are used at most; "
        "this comparison says nothing about schedulers or predictors: check --procs"
    )


def ratios(schedule: Schedule, tau_s: float = TAU_S) -> dict[str, Ratio]:
    """Return the metrics that are ratios of two sums over jobs; errors as :func:`evaluate`."""
    return _ratios(_columns(schedule), tau_s)


def weekly_longest_waits(schedule: Schedule) -> Ratio:
    """Return :func:`longest_waits` of a schedule, [weeks]; errors as :func:`evaluate`."""
    return longest_waits(_columns(schedule))


def bounded_slowdown(schedule: Schedule, tau_s: float = TAU_S) -> np.ndarray:
    """Return max(1, (w+p)/max(p, tau)) by job, float64 [jobs]; errors as :func:`evaluate`."""
    return _bounded_slowdown(_columns(schedule), tau_s)


def _columns(schedule: Schedule) -> Columns:
    jobs = held(schedule)
    name = f"schedule {schedule.label}" + (f" of {schedule.trace}" if schedule.trace else "")
    if len(jobs) == 0:
        raise InputError(f"{name}: has no jobs")
    alone = np.asarray(column(jobs, "undisturbed_s"), np.float64) if "undisturbed_s" in jobs else None
    predicted, corrections = (np.asarray(column(jobs, name)) for name in ("predicted_s", "corrections"))
    columns = as_columns(user_jobs(schedule), predicted, corrections, alone)
    if columns.wait.min() < 0:
        raise InputError(f"{name}: job {column(jobs, 'job_id')[int(columns.wait.argmin())]} starts before its submission")
    if columns.runtime.min() <= 0:
        raise InputError(f"{name}: job {column(jobs, 'job_id')[int(columns.runtime.argmin())]} has no runtime")
    return columns


def _ratios(columns: Columns, tau_s: float) -> dict[str, Ratio]:
    ones = np.ones(columns.wait.shape[-1])
    return {
        **ratios_of_times(columns),
        "mean_bounded_slowdown": Ratio(_bounded_slowdown(columns, tau_s), ones),
        "underprediction_rate": Ratio((columns.predicted < columns.runtime).astype(np.float64), ones),
    }


def ratios_of_times(columns: Columns) -> dict[str, Ratio]:
    """Return the ratios that need no threshold and no prediction."""
    ones = np.ones(columns.wait.shape[-1])
    area = columns.procs * columns.undisturbed
    specific, scale = _p2sf(columns)
    return {
        "mean_wait_s": Ratio(columns.wait, ones),
        "mean_response_s": Ratio(columns.response, ones),
        "mean_slowdown": Ratio(columns.response / columns.undisturbed, ones),
        "awf_s": Ratio(area * columns.response, area),
        # in seconds again, so that sums of several schedules add up
        "p2sf_s": Ratio(*(part * scale**3 for part in specific)),
    }


def _bounded_slowdown(columns: Columns, tau_s: float) -> np.ndarray:
    return np.maximum(1.0, columns.response / np.maximum(columns.undisturbed, tau_s))


def _p2sf(columns: Columns) -> tuple[Ratio, float]:
    """Return P^2 SF as a ratio of scaled sums, and the scale in seconds.

    It is the mean specific time of all processor-seconds, weighted by age squared: 3/4 * sum n(F^4 - Q^4) / sum n(F^3 -
    Q^3). Both sums are divided by a power of the scale.
    """
    # scaling by a power of two is exact
    scale = 2.0 ** float(np.ceil(np.log2(columns.response.max())))
    response, wait, weight = columns.response / scale, columns.wait / scale, columns.procs * (columns.undisturbed / scale)
    # (F^k - Q^k) / (F - Q) as the sum of F^i Q^(k-1-i): nothing cancels when p << Q
    below = (response + wait) * response + wait * wait
    above = below * response + wait * wait * wait
    return Ratio(weight * above * (scale * 3 / 4), weight * below), scale


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
