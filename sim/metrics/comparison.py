"""Schedules of one trace against a baseline, with paired confidence intervals.

Intervals are over weeks and replicates (:mod:`features.statistics`). Jobs of a week share its load, so whole weeks of
submission are left out, and the same weeks of both schedules: differences between weeks cancel. Schedules are chaotic,
so one replay is one sample. If a policy was simulated several times with shaken submissions
(:mod:`features.jobs.workload_changes`), each replay is compared with the baseline's of the same shake, and the interval
contains the variance of replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.clock import WEEK_S
from features.errors import InputError, shown
from features.jobs.schema import codes
from features.statistics import CONFIDENCE, FEWEST_BLOCKS, Interval, Ratio, interval_of_change, remark
from sim.metrics.names import COMPARED, TAU_S
from sim.metrics.schedule_metrics import check_tau, evaluate, ratios, weekly_longest_waits
from sim.metrics.verdict import sure_changes
from sim.policy import NAMES
from sim.schedule import Schedule, checked

NOTHING_LEFT = "no interval: the baseline is 0 without one week or user"
_SAME_JOBS = ("job_id", "submit_s", "procs")
_SAME_SETTINGS = ("procs", "machine", "semantics", "starvation_s", "dependencies", "users", "load", "squeeze")


Further = Callable[[Schedule], Mapping[str, Ratio]]


def compare(
    schedules: Sequence[Schedule],
    baseline: tuple[str, str] = ("EASY", "requested"),
    metrics: Sequence[str] = COMPARED,
    confidence: float = CONFIDENCE,
    tau_s: float = TAU_S,
    further: Further = lambda schedule: {},
) -> pd.DataFrame:
    """Compare schedules with the baseline: one row per policy and metric.

    Columns:
    ``scheduler predictor correction metric value baseline relative low high coverage p replicates least most weeks note sure``.
    Schedules of one policy with different seeds are its replicates; each is compared with the baseline's of the same
    seed, and ``replicates`` counts them. ``baseline`` is the (scheduler, predictor) compared with, the first that
    matches; ``value`` is over all replicates, ``relative`` is value/baseline - 1, ``low`` and ``high`` its interval at
    ``confidence``, over weeks and replicates (:func:`features.statistics.interval_of_change`; with one replicate it
    excludes chaos), ``coverage`` how often such an interval covers and ``p`` the p-value of no change, ``least`` and
    ``most`` the extremes of single replicates. ``weeks`` counts the weeks of submission that hold jobs, from the first
    submission. ``relative`` is null if the baseline is 0. The interval is also null if the metric is no ratio of sums
    or there are fewer than ``FEWEST_BLOCKS`` weeks; ``note`` gives the reason, or says that the interval is rough.
    ``sure`` is that of the verdict (:func:`sim.metrics.verdict.sure_changes`). ``further`` returns more metrics of a
    schedule, each as the sums of its weeks, float64 [weeks]. Raises InputError for a missing baseline, a replicate that
    the baseline lacks, an unknown metric, two schedules of one policy and seed, and schedules that do not hold the same
    jobs in the same order.
    """
    check_tau(tau_s)
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, such as 0.95, not {shown(confidence)}")
    policies = _by_policy(schedules)
    base = policies[_find(policies, baseline)]
    first = next(iter(base.values())).jobs
    submit = first["submit_s"].to_numpy(np.int64)
    _, week = np.unique((submit - submit.min()) // WEEK_S, return_inverse=True)
    user = codes(first, "user")

    against: dict[tuple[int, ...], _Measured] = {}
    rows = []
    for policy, replicates in policies.items():
        for seed, schedule in replicates.items():
            if seed not in base:
                raise InputError(
                    f"{' / '.join(policy)} has a replicate of seed {seed}, and the baseline has none to compare it with"
                )
            _check_same_jobs(schedule, base[seed])
        measured, seeds = _measure(replicates.values(), week, user, tau_s, further), tuple(replicates)
        if seeds not in against:
            against[seeds] = _measure([base[seed] for seed in seeds], week, user, tau_s, further)
        for metric in metrics:
            if metric not in measured.values[0]:
                raise InputError(f"unknown metric {metric!r}; known: {', '.join(measured.values[0])}")
            row = dict(zip(NAMES, policy, strict=True)) | {"metric": metric}
            rows.append(row | _compared(metric, measured, against[seeds], confidence))
    numbers = ("value", "baseline", "relative", "low", "high", "coverage", "p", "least", "most")
    table = pd.DataFrame(rows).astype(dict.fromkeys(numbers, "float64"))
    return table.assign(sure=sure_changes(table, _find(policies, baseline), confidence))


class _Measured(NamedTuple):
    """Weekly sums of ratios, [replicates, weeks], and values of all metrics by replicate.

    ``by_user`` are the same sums by week and user, [weeks, users], added over replicates; empty if no job names a user.
    """

    weekly: dict[str, Ratio]
    by_user: dict[str, Ratio]
    values: list[dict[str, float]]


def _compared(metric: str, ours: _Measured, theirs: _Measured, confidence: float) -> dict[str, Any]:
    """Compare the replicates of a policy and of the baseline, pair by pair, in one metric."""
    weeks = next(iter(ours.weekly.values())).numerator.shape[1]
    note, interval = remark(weeks), Interval()
    singly = [(one[metric], base[metric]) for one, base in zip(ours.values, theirs.values, strict=True)]
    value, reference = (float(mean) for mean in np.mean(singly, axis=0))
    if metric in ours.weekly and len(singly) > 1:
        value, reference = ours.weekly[metric].value(), theirs.weekly[metric].value()
    if reference == 0:
        note = "no change: the baseline is 0"
    elif metric not in ours.weekly:
        note = "no interval: not a mean over jobs"
    elif weeks >= FEWEST_BLOCKS:
        users = (ours.by_user[metric], theirs.by_user[metric]) if metric in ours.by_user else None
        interval = interval_of_change(ours.weekly[metric], theirs.weekly[metric], confidence, users)
        note = note if interval.low is not None else NOTHING_LEFT
    changes = [ours / base - 1.0 for ours, base in singly if base]
    return {
        "value": value,
        "baseline": reference,
        "relative": None if reference == 0 else value / reference - 1.0,
        **interval._asdict(),
        "replicates": len(singly),
        "least": min(changes, default=None),
        "most": max(changes, default=None),
        "weeks": weeks,
        "note": note,
    }


def stacked(replicates: Sequence[Ratio]) -> Ratio:
    """Join sums of several replicates, float64 [blocks] each, as [replicates, blocks]."""
    return Ratio(*(np.stack(parts) for parts in zip(*replicates, strict=True)))


def _by_policy(schedules: Sequence[Schedule]) -> dict[tuple[str, str, str], dict[int, Schedule]]:
    """Return schedules by policy and seed; InputError for two of one policy and seed."""
    policies: dict[tuple[str, str, str], dict[int, Schedule]] = {}
    for schedule in map(checked, schedules):
        replicates = policies.setdefault((schedule.scheduler, schedule.predictor, schedule.correction), {})
        if schedule.seed in replicates:
            names = f"{schedule.scheduler} / {schedule.predictor} / {schedule.correction}"
            raise InputError(f"two schedules are of {names}, seed {schedule.seed}: give one another name, as with decide(name=...)")
        for field in _SAME_SETTINGS if replicates else ():
            theirs, ours = getattr(next(iter(replicates.values())), field), getattr(schedule, field)
            if theirs != ours:
                raise InputError(
                    f"schedules of {schedule.label} with {field} {theirs} and {ours} are not replicates: give them different names to compare them"
                )
        replicates[schedule.seed] = schedule
    return policies


def _find(policies: Iterable[tuple[str, str, str]], baseline: tuple[str, str]) -> tuple[str, str, str]:
    for policy in policies:
        if policy[:2] == tuple(baseline):
            return policy
    present = "; ".join(" / ".join(part for part in policy[:2] if part) for policy in policies) or "none"
    raise InputError(f"no schedule of the baseline {' / '.join(baseline)} to compare with; there are: {present}")


def _check_same_jobs(schedule: Schedule, base: Schedule) -> None:
    names = f"{schedule.label} and {base.label}"
    if len(schedule.jobs) != len(base.jobs):
        raise InputError(
            f"{names} hold {len(schedule.jobs)} and {len(base.jobs)} jobs: only schedules of the same jobs can be compared"
        )
    for column in (*_SAME_JOBS, "undisturbed_s" if "undisturbed_s" in schedule.jobs else "runtime_s"):
        differs = schedule.jobs[column].to_numpy() != base.jobs[column].to_numpy()
        if differs.any():
            row = int(differs.argmax())
            ours, theirs = schedule.jobs[column].iloc[row], base.jobs[column].iloc[row]
            raise InputError(f"{names} do not hold the same jobs in the same order: {column} of row {row} is {ours} and {theirs}")


def _values(schedule: Schedule, tau_s: float) -> dict[str, float]:
    record = evaluate(schedule, tau_s)
    values = {str(name): float(value) for name, value in record.items() if name != "jobs"}
    return {**values, "underprediction_rate": record["underpredicted_jobs"] / record["jobs"]}


def _measure(schedules: Iterable[Schedule], week: np.ndarray, user: np.ndarray, tau_s: float, further: Further) -> _Measured:
    """Return the sums and values of replicates; no sums by user if no job names one."""
    weekly: list[dict[str, Ratio]] = []
    by_user: dict[str, Ratio] = {}
    values = []
    for schedule in schedules:
        over_jobs = ratios(schedule, tau_s)
        weekly.append({name: by_week(ratio, week) for name, ratio in over_jobs.items()})
        more = further(schedule)
        weekly[-1] |= {"longest_wait_s": weekly_longest_waits(schedule), **more}
        values.append(_values(schedule, tau_s) | {name: ratio.value() for name, ratio in more.items()})
        for name, ratio in over_jobs.items() if user.max() >= 0 else ():
            own = by_week_and_user(ratio, week, user)
            by_user[name] = pooled([by_user[name], own]) if name in by_user else own
    return _Measured({name: stacked([ratios[name] for ratios in weekly]) for name in weekly[0]}, by_user, values)


def by_week(ratio: Ratio, week: np.ndarray) -> Ratio:
    """Return sums over jobs by week, float64 [weeks], from a ratio over jobs."""
    return Ratio(*(np.bincount(week, part) for part in ratio))


def by_week_and_user(ratio: Ratio, week: np.ndarray, user: np.ndarray) -> Ratio:
    """Return sums over jobs by week and user, float64 [weeks, users].

    ``week`` and ``user`` number those of each job, int64 [jobs]; unknown users (-1) count as one.
    """
    weeks, users = int(week.max()) + 1, int(user.max()) + 2
    place = week * users + user + 1
    return Ratio(*(np.bincount(place, part, weeks * users).reshape(weeks, users) for part in ratio))


def pooled(replicates: Sequence[Ratio]) -> Ratio:
    """Add the sums of several replicates."""
    return Ratio(*(np.sum(parts, axis=0) for parts in zip(*replicates, strict=True)))
