"""Quality of the predictions of simulated schedules, judged by runtimes.

The simulation makes this walk-forward: a predictor answers only from jobs that had ended by then in the same schedule.
Experience is counted there too. Intervals are over weeks of submission, differences to the baseline are paired
(:mod:`features.statistics`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.clock import DAY_S, WEEK_S
from features.errors import InputError
from features.jobs.history import completed_jobs
from features.jobs.schema import codes
from features.statistics import CONFIDENCE, mean_intervals, remark
from models.runtime.evaluation import EXPERIENCE, OKCM_THRESHOLD, experience, measures
from sim.schedule import Schedule
from sim.settings import BASELINES

MONTH_S = 30 * DAY_S
GROUPS = ("all", "experience", "month", "level")
"""Groupings in ``Quality.measures``: all jobs, the user's stage of experience, 30 days of the trace; and levels of
quantiles."""
STAGES = dict(zip(EXPERIENCE, ("first jobs", f"1-{OKCM_THRESHOLD} completed", f"over {OKCM_THRESHOLD}"), strict=True))
"""The stages of experience in words."""
UNKNOWN = "unknown user"
"""The stage of jobs without a user, if others have one."""


class JudgedJobs(NamedTuple):
    """The jobs to judge: ``rows`` of the trace, with their weeks, 30 days and users."""

    rows: np.ndarray
    week: np.ndarray
    month: np.ndarray
    user: np.ndarray


@dataclass(frozen=True)
class Quality:
    """Quality of the predictions of some schedules of one trace.

    Over ``jobs`` jobs submitted in ``weeks`` weeks. ``measures`` is tidy:
    ``predictor by group begin measure jobs weeks value low high difference difference_low difference_high note``;
    ``by`` is one of :data:`GROUPS`, ``begin`` where a month begins, in seconds from the first submission.
    ``difference`` is that to ``baseline`` over the jobs that are in this group in the simulations of both: for other
    jobs one of the two knew more. Months have no intervals. A predictor that answers with quantiles has a row by
    ``level``, which is also ``begin``: ``at_most``, the share of jobs that ran at most as long as its quantile.
    """

    baseline: str
    jobs: int
    weeks: int
    confidence: float
    measures: pd.DataFrame

    @property
    def knows_users(self) -> bool:
        """Tell whether there are figures by experience."""
        return bool((self.measures["by"] == "experience").any())

    def figures(self, predictor: str, by: str = "all", group: str = "all") -> dict[str, dict[str, Any]]:
        """Return the rows of ``measures`` of one predictor and group, by measure."""
        table = self.measures
        rows = table[(table["predictor"] == predictor) & (table["by"] == by) & (table["group"] == group)]
        return {row["measure"]: {str(name): value for name, value in row.items()} for row in rows.to_dict("records")}


def judge(
    jobs: pd.DataFrame,
    schedules: Sequence[Schedule],
    *,
    baseline: str | None = None,
    levels: Sequence[float] = (0.5,),
    leave_out: np.ndarray | None = None,
) -> Quality:
    """Judge the predictions of ``schedules``, simulated from ``jobs``, one per predictor.

    ``jobs`` is the canonical table, ``baseline`` the predictor compared with (:data:`BASELINES`, else the first),
    ``levels`` those of the quantiles and their losses, ``leave_out`` bool [jobs] the jobs not to be judged. Raises
    InputError for an unknown level or baseline, two schedules of one predictor, and if there is nothing to judge.
    """
    names = [schedule.predictor for schedule in schedules]
    base = schedules[names.index(baseline_of(names, baseline))]
    judged = _judged(jobs, np.zeros(len(jobs), bool) if leave_out is None else leave_out)
    if not all(0 < level < 1 for level in levels):
        raise InputError(
            f"quantile levels must be above 0 and below 1, not {next(level for level in levels if not 0 < level < 1):g}"
        )

    runtime = jobs["runtime_s"].to_numpy(np.float64)[judged.rows]
    against = measures(_predicted(base, judged), runtime, levels)
    its_groups = dict(_groups(jobs, base, judged))
    no_jobs = np.zeros(len(judged.rows), bool)
    rows: list[dict[str, Any]] = []
    levels_held: list[dict[str, Any]] = []
    for schedule in schedules:
        predicted = _predicted(schedule, judged)
        values = measures(predicted, runtime, levels)
        change = values - against
        for group, chosen in _groups(jobs, schedule, judged):
            both = chosen & its_groups.get(group, no_jobs)
            own = _means(values[chosen], judged.week[chosen], group)
            rows += _measured(schedule.predictor, group, own, _means(change[both], judged.week[both], group))
        levels_held += _held(schedule, runtime, judged, levels)
    return Quality(
        baseline=base.predictor,
        jobs=len(judged.rows),
        weeks=int(judged.week.max()) + 1,
        confidence=CONFIDENCE,
        measures=pd.DataFrame([*rows, *levels_held]).astype({"begin": "float64"}),
    )


def baseline_of(names: Sequence[str], wanted: str | None = None) -> str:
    """Return the predictor of ``names`` to compare with; errors as :func:`judge`."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"each predictor is judged once; {twice} is given twice")
    if wanted is None:
        return next((name for name in BASELINES if name in names), names[0])
    if wanted not in names:
        raise InputError(f"baseline {wanted!r} is not among the judged predictors: {', '.join(names)}")
    return wanted


def _judged(jobs: pd.DataFrame, leave_out: np.ndarray) -> JudgedJobs:
    rows = np.flatnonzero(~leave_out)
    if len(rows) == 0:
        raise InputError(f"no job is left to judge predictions by ({int(leave_out.sum()):,} of all {len(jobs):,} left out)")
    since = jobs["submit_s"].to_numpy(np.int64) - int(jobs["submit_s"].iloc[0])
    week = np.unique(since[rows] // WEEK_S, return_inverse=True)[1]
    return JudgedJobs(rows, week, since[rows] // MONTH_S, codes(jobs, "user")[rows])


def _predicted(schedule: Schedule, judged: JudgedJobs) -> np.ndarray:
    return schedule.jobs["predicted_s"].to_numpy(np.float64)[judged.rows]


Group = tuple[str, str, float | None]
"""``by``, ``group`` and ``begin`` of a group of jobs."""
EVERYONE: Group = ("all", "all", None)


def _groups(jobs: pd.DataFrame, schedule: Schedule, judged: JudgedJobs) -> Iterator[tuple[Group, np.ndarray]]:
    """Yield every group of jobs with the mask of its jobs among those judged.

    A stage of experience may be empty, other groups are not.
    """
    yield EVERYONE, np.ones(len(judged.rows), bool)
    has_user = judged.user >= 0
    if has_user.any():
        done = completed_jobs(jobs, schedule.jobs["start_s"].to_numpy(np.int64))[judged.rows].astype(np.int64)
        stage = experience(done)
        for number, name in enumerate(EXPERIENCE):
            yield ("experience", name, None), has_user & (stage == number)
        if not has_user.all():
            yield ("experience", UNKNOWN, None), ~has_user
    for month in np.unique(judged.month):
        yield ("month", f"{month + 1}", float(month * MONTH_S)), judged.month == month


class _Means(NamedTuple):
    """Means of measures over some jobs, with intervals.

    ``figures`` is float64 [measures, 3]: value, low and high; and the numbers of jobs and weeks.
    """

    measures: Sequence[str]
    figures: np.ndarray
    jobs: int
    weeks: int


def _means(values: pd.DataFrame, week: np.ndarray, group: Group) -> _Means:
    weeks, block = np.unique(week, return_inverse=True)
    ends = np.full((2, values.shape[1]), np.nan) if group[0] == "month" else mean_intervals(values.to_numpy(), block)
    return _Means(list(values.columns), np.vstack([values.mean().to_numpy(), ends]).T, len(values), len(weeks))


def _measured(predictor: str, group: Group, own: _Means, change: _Means) -> list[dict[str, Any]]:
    """Return the rows of one group, one per measure."""
    by, name, begin = group
    identity = {"predictor": predictor, "by": by, "group": name, "begin": begin, "jobs": own.jobs, "weeks": own.weeks}
    note = "" if by == "month" else remark(own.weeks)
    rows: list[dict[str, Any]] = []
    for measure, mean, difference in zip(own.measures, own.figures, change.figures, strict=True):
        figures = dict(zip(("value", "low", "high"), mean, strict=True))
        differences = dict(zip(("difference", "difference_low", "difference_high"), difference, strict=True))
        rows.append({**identity, "measure": measure, **figures, **differences, "note": note})
    return rows


def _held(schedule: Schedule, runtime: np.ndarray, judged: JudgedJobs, levels: Sequence[float]) -> list[dict[str, Any]]:
    """Return the rows by level: how many jobs ran at most as long as each quantile that the predictor has."""
    quantiles = schedule.quantiles
    if quantiles is None:
        return []
    rows: list[dict[str, Any]] = []
    for level in levels:
        if level not in quantiles:
            continue
        held = runtime <= quantiles[level].to_numpy(np.float64)[judged.rows]
        group: Group = ("level", f"{level:g}", level)
        mean = _means(pd.DataFrame({"at_most": held.astype(np.float64)}), judged.week, group)
        value, low, high = mean.figures[0]
        identity = {"predictor": schedule.predictor, "by": "level", "group": group[1], "begin": level, "measure": "at_most"}
        rows.append({**identity, "jobs": mean.jobs, "weeks": mean.weeks, "value": value, "low": low, "high": high, "note": ""})
    return rows
