"""Schedules of one trace against a baseline, with paired confidence intervals.

Intervals are over weeks and replicates (:mod:`features.statistics`). Jobs of a week share its load, so whole weeks of submission
are left out, and the same weeks of both schedules: differences between weeks cancel. Schedules are chaotic, so one replay is
one draw: where a policy was simulated several times with shaken submissions (:mod:`features.jobs.shaking`), each replay is
compared with the baseline's of the same shake, and the interval contains the variance of replays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from features.clock import WEEK_S
from features.errors import InputError
from features.statistics import CONFIDENCE, FEWEST_BLOCKS, Interval, Ratio, interval_of_change, remark, surely
from sim.metrics.names import COMPARED
from sim.metrics.schedule_metrics import TAU_S, evaluate, ratios
from sim.policy import NAMES
from sim.schedule import Schedule

NOTHING_LEFT = "no interval: the baseline is 0 without one week"
_SAME_JOBS = ("job_id", "submit_s", "procs", "runtime_s")


def compare(
    schedules: Sequence[Schedule],
    baseline: tuple[str, str] = ("EASY", "requested"),
    metrics: Sequence[str] = COMPARED,
    confidence: float = CONFIDENCE,
    tau_s: float = TAU_S,
) -> pd.DataFrame:
    """Compare schedules with the baseline: one row a policy and metric.

    Columns: ``scheduler predictor correction metric value baseline relative low high coverage p replicates least most weeks note
    sure``. Schedules of one policy with different seeds are its replicates; each is compared with the baseline's of the same seed,
    and ``replicates`` counts them. ``baseline`` is the (scheduler, predictor) compared with, the first that matches; ``value`` is
    over all replicates, ``relative`` is value/baseline - 1, ``low`` and ``high`` its interval at ``confidence``, over weeks and
    replicates (:func:`features.statistics.interval_of_change`; with one replicate it excludes chaos), ``coverage`` how often such an
    interval covers and ``p`` the p-value of no change, ``least`` and ``most`` the extremes of single replicates. ``weeks`` counts
    the weeks of submission that hold jobs, from the first submission. ``relative`` is null where the baseline is 0, the interval
    also where a metric is no ratio of sums or there are fewer than ``FEWEST_BLOCKS``; ``note`` says why, or how rough it is.
    ``sure`` is true of a change that survives :func:`features.statistics.surely` among all changes of the table that replicates
    measure. Raises InputError for an absent baseline, a replicate that the baseline lacks, an unknown metric, two schedules of one
    policy and seed, and schedules that do not hold the same jobs in the same order.
    """
    policies = _by_policy(schedules)
    base = policies[_find(policies, baseline)]
    submit = next(iter(base.values())).jobs["submit_s"].to_numpy(np.int64)
    _, week = np.unique((submit - submit.min()) // WEEK_S, return_inverse=True)
    weeks = int(week.max()) + 1

    against = {each: (_terms(schedule, week, tau_s), _values(schedule, tau_s)) for each, schedule in base.items()}
    rows = []
    for policy, replicates in policies.items():
        for each, schedule in replicates.items():
            if each not in base:
                raise InputError(
                    f"{' / '.join(policy)} has a replicate of seed {each}, and the baseline has none to compare it with"
                )
            _check_same_jobs(schedule, base[each])
        mine = [(_terms(schedule, week, tau_s), _values(schedule, tau_s)) for schedule in replicates.values()]
        theirs = [against[each] for each in replicates]
        for metric in metrics:
            if metric not in mine[0][1]:
                raise InputError(f"unknown metric {metric!r}; known: {', '.join(mine[0][1])}")
            row = dict(zip(NAMES, policy, strict=True)) | {"metric": metric}
            rows.append(row | _compared(metric, mine, theirs, weeks, confidence))
    numbers = ("value", "baseline", "relative", "low", "high", "coverage", "p", "least", "most")
    table = pd.DataFrame(rows).astype(dict.fromkeys(numbers, "float64"))
    of_base = (table[list(NAMES)] == list(_find(policies, baseline))).all(axis=1)
    return table.assign(sure=surely(table["p"].where((table["replicates"] > 1) & ~of_base), confidence))


_Measured: TypeAlias = tuple[dict[str, Ratio], dict[str, float]]
"""One schedule's weekly sums of the metrics that are ratios of sums, and the values of all."""


def _compared(metric: str, mine: Sequence[_Measured], theirs: Sequence[_Measured], weeks: int, confidence: float) -> dict[str, Any]:
    """Compare the replicates of a policy and of the baseline, pair by pair, in one metric."""
    note, interval = remark(weeks), Interval()
    value, reference = (float(np.mean([values[metric] for _, values in each])) for each in (mine, theirs))
    if metric in mine[0][0]:
        terms, base = (stacked([terms[metric] for terms, _ in each]) for each in (mine, theirs))
        if len(mine) > 1:
            value, reference = terms.value(), base.value()
    singly = [(ours[metric], base[metric]) for (_, ours), (_, base) in zip(mine, theirs, strict=True)]
    if reference == 0:
        note = "no change: the baseline is 0"
    elif metric not in mine[0][0]:
        note = "no interval: not a mean over jobs"
    elif weeks >= FEWEST_BLOCKS:
        interval = interval_of_change(terms, base, confidence)
        note = remark(weeks, coverage=interval.coverage) if interval.low is not None else NOTHING_LEFT
    changes = [ours / base - 1.0 for ours, base in singly if base]
    return {
        "value": value,
        "baseline": reference,
        "relative": None if reference == 0 else value / reference - 1.0,
        **interval._asdict(),
        "replicates": len(mine),
        "least": min(changes, default=None),
        "most": max(changes, default=None),
        "weeks": weeks,
        "note": note,
    }


def stacked(replicates: Sequence[Ratio]) -> Ratio:
    """Join sums of several replicates, float64 [blocks] each, as [replicates, blocks]."""
    return Ratio(*(np.stack(parts) for parts in zip(*replicates, strict=True)))


def _by_policy(schedules: Sequence[Schedule]) -> dict[tuple[str, str, str], dict[int, Schedule]]:
    """Return replicates by seed by policy; InputError for two of one policy and seed."""
    policies: dict[tuple[str, str, str], dict[int, Schedule]] = {}
    for schedule in schedules:
        replicates = policies.setdefault((schedule.scheduler, schedule.predictor, schedule.correction), {})
        if schedule.seed in replicates:
            names = f"{schedule.scheduler} / {schedule.predictor} / {schedule.correction}"
            raise InputError(f"two schedules are of {names}, seed {schedule.seed}: nothing in the comparison would tell them apart")
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
        raise InputError(f"{names} hold {len(schedule.jobs)} and {len(base.jobs)} jobs: only schedules of the same jobs compare")
    for column in _SAME_JOBS:
        differs = schedule.jobs[column].to_numpy() != base.jobs[column].to_numpy()
        if differs.any():
            row = int(differs.argmax())
            ours, theirs = schedule.jobs[column].iloc[row], base.jobs[column].iloc[row]
            raise InputError(f"{names} do not hold the same jobs in the same order: {column} of row {row} is {ours} and {theirs}")


def _values(schedule: Schedule, tau_s: float) -> dict[str, float]:
    record = evaluate(schedule, tau_s)
    values = {str(name): float(value) for name, value in record.items() if name != "jobs"}
    return {**values, "underprediction_rate": record["underpredicted_jobs"] / record["jobs"]}


def _terms(schedule: Schedule, week: np.ndarray, tau_s: float) -> dict[str, Ratio]:
    """Return ratios of weekly sums, float64 [weeks], from ratios over jobs."""
    return {
        name: Ratio(np.bincount(week, ratio.numerator), np.bincount(week, ratio.denominator))
        for name, ratio in ratios(schedule, tau_s).items()
    }
