"""Policies on paired trials of a simulated cluster, compared as those of a trace.

A trial's seed decides its submissions, the background and each run's own noise. Trials lie weeks apart, so that they are the
blocks of :func:`sim.metrics.comparison.compare`, which leaves out the same trial of both policies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from features.clock import WEEK_S
from features.statistics import Ratio, surely
from sim.metrics.comparison import compare
from sim.metrics.verdict import Key, is_bound
from sim.policy import NAMES
from sim.schedule import Schedule

METRICS = (
    "mean_bounded_slowdown",
    "mean_wait_s",
    "mean_response_s",
    "awf_s",
    "p2sf_s",
    "longest_wait_s",
    "makespan_s",
    "varied_runs",
    "largest_runtime",
    "underprediction_rate",
)
_ORACLE = "model=oracle"


def as_schedules(runs: pd.DataFrame, procs: int, trace: str) -> list[Schedule]:
    """Return one schedule of all trials of each policy.

    ``runs`` come from :func:`sim.cluster.experiments.trials`. Users are left out: all trials are of the same ones, so an interval
    is about other days and not about other users.
    """
    jobs = runs.rename(columns={"nodes": "procs", "work_s": "undisturbed_s"}).assign(
        runtime_s=runs["end_s"] - runs["start_s"], user=pd.Series(pd.NA, index=runs.index, dtype="category")
    )
    groups: dict[Any, pd.Index] = runs.groupby([*NAMES], sort=False).groups
    return [
        Schedule(jobs.loc[rows].reset_index(drop=True), procs, trace=trace, generated=True, **dict(zip(NAMES, key, strict=True)))
        for key, rows in groups.items()
    ]


def of_trials(schedule: Schedule) -> dict[str, Ratio]:
    """Return makespan, runs with variation and largest runtime of each trial."""
    jobs = schedule.jobs
    trials = jobs.groupby((jobs["submit_s"] - jobs["submit_s"].min()) // WEEK_S)
    values = {
        "makespan_s": trials["end_s"].max() - trials["submit_s"].min(),
        "varied_runs": trials["varied"].sum(),
        "largest_runtime": trials["relative"].max(),
    }
    return {name: Ratio(value.to_numpy(np.float64), np.ones(len(value))) for name, value in values.items()}


def compare_trials(schedules: Sequence[Schedule], beside: Mapping[Key, Sequence[Key]]) -> pd.DataFrame:
    """Compare schedules of trials with the first, and some with others.

    ``beside`` names policies, and others that each is compared with. Columns are those of :func:`sim.metrics.comparison.compare`,
    and ``compared_with``, the label of the baseline. A trial is a replicate, and no week. ``sure`` is corrected, for each metric,
    over all policies that are compared with the first but bounds, and over all comparisons of ``beside``.
    """
    by_key = {tuple(getattr(schedule, name) for name in NAMES): schedule for schedule in schedules}
    tables = [_compared(schedules, schedules[0])]
    tables += [
        _compared([by_key[other], by_key[key]], by_key[other]).iloc[len(METRICS) :]
        for key, others in beside.items()
        for other in others
    ]
    table = pd.concat(tables, ignore_index=True)
    first = table["compared_with"] == schedules[0].label
    itself = first & (table["scheduler"] == schedules[0].scheduler) & (table["predictor"] == schedules[0].predictor)
    bound = [
        is_bound(predictor) or _ORACLE in scheduler
        for scheduler, predictor in zip(table["scheduler"], table["predictor"], strict=True)
    ]
    sure = table["p"].mask(itself).groupby([table["metric"], first, np.array(bound)]).transform(surely)
    return table.assign(sure=sure.astype(bool))


def _compared(schedules: Sequence[Schedule], baseline: Schedule) -> pd.DataFrame:
    table = compare(schedules, (baseline.scheduler, baseline.predictor), METRICS, further=of_trials)
    nothing = {"least": np.nan, "most": np.nan, "weeks": 0}
    note = table["note"].str.replace("week", "trial")
    return table.assign(replicates=table["weeks"], note=note, compared_with=baseline.label, **nothing)
