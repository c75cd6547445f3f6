"""Schedules of one trace against a baseline, with paired confidence intervals from a block bootstrap over weeks (:mod:`models.bootstrap`).

Jobs of a week share its load, so whole weeks of submission are resampled, and the same weeks for both schedules: what the weeks
themselves differ by cancels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from features.clock import WEEK_S
from features.errors import InputError
from models.bootstrap import FEWEST_BLOCKS, Ratio, drawn, interval, remark, tail
from sim.metrics import TAU_S, evaluate, ratios
from sim.schedule import Schedule

METRICS = (
    "mean_bounded_slowdown",
    "mean_slowdown",
    "mean_wait_s",
    "mean_response_s",
    "awf_s",
    "p2sf_s",
    "underprediction_rate",
    "max_bounded_slowdown",
    "utilization",
    "makespan_s",
)
"""The default metrics; all but the last three are ratios of sums over jobs and get intervals."""

_SAME_JOBS = ("job_id", "submit_s", "procs", "runtime_s")


def compare(
    schedules: Sequence[Schedule],
    baseline: tuple[str, str] = ("EASY", "requested"),
    metrics: Sequence[str] = METRICS,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
    tau_s: float = TAU_S,
) -> pd.DataFrame:
    """One row for each schedule and metric: ``scheduler predictor correction metric value baseline relative low high weeks note``.

    ``baseline`` is the (scheduler, predictor) compared with, the first that matches; ``relative`` is value/baseline - 1, ``low`` and ``high``
    its interval at ``confidence``; ``weeks`` counts the weeks of submission that hold jobs, from the first submission. ``relative`` is null
    where the baseline is 0, the interval also where a metric is no ratio of sums or there are fewer than ``FEWEST_BLOCKS``; ``note`` says
    why, or how rough it is.
    Raises InputError for an absent baseline, an unknown metric, two schedules of one name, and schedules that do not hold the same jobs in the same order.
    """
    base = _find(schedules, baseline)
    names = [(schedule.scheduler, schedule.predictor, schedule.correction) for schedule in schedules]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise InputError(f"two schedules are of {' / '.join(twice)}: nothing in the comparison would tell them apart")
    for schedule in schedules:
        _check_same_jobs(schedule, base)
    submit = base.jobs["submit_s"].to_numpy(np.int64)
    _, week = np.unique((submit - submit.min()) // WEEK_S, return_inverse=True)
    weeks = int(week.max()) + 1
    draws = drawn(weeks, resamples, seed)

    base_terms, base_values = _terms(base, week, tau_s), _values(base, tau_s)
    rows = []
    for schedule in schedules:
        terms, values = _terms(schedule, week, tau_s), _values(schedule, tau_s)
        for metric in metrics:
            if metric not in values:
                raise InputError(f"unknown metric {metric!r}: known are {', '.join(values)}")
            value, reference = values[metric], base_values[metric]
            low, high, note = None, None, remark(weeks)
            if reference == 0:
                note = "no change: the baseline is 0"
            elif metric not in terms:
                note = "no interval: not a mean over jobs"
            elif weeks >= FEWEST_BLOCKS:
                low, high = interval(draws, terms[metric], base_terms[metric], tail(confidence, weeks))
                if low is None:
                    note = "no interval: the baseline is 0 in some resamples"
            rows.append(
                {
                    "scheduler": schedule.scheduler,
                    "predictor": schedule.predictor,
                    "correction": schedule.correction,
                    "metric": metric,
                    "value": value,
                    "baseline": reference,
                    "relative": None if reference == 0 else value / reference - 1.0,
                    "low": low,
                    "high": high,
                    "weeks": weeks,
                    "note": note,
                }
            )
    numbers = ["value", "baseline", "relative", "low", "high"]
    return pd.DataFrame(rows).astype(dict.fromkeys(numbers, "float64"))


def _find(schedules: Sequence[Schedule], baseline: tuple[str, str]) -> Schedule:
    for schedule in schedules:
        if (schedule.scheduler, schedule.predictor) == tuple(baseline):
            return schedule
    present = "; ".join(schedule.label for schedule in schedules) or "none"
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
    """Ratios of weekly sums, float64 [weeks], from ratios over jobs."""
    return {
        name: Ratio(np.bincount(week, ratio.numerator), np.bincount(week, ratio.denominator))
        for name, ratio in ratios(schedule, tau_s).items()
    }
