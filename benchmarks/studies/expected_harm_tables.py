"""Tables of :mod:`benchmarks.studies.expected_harm`, a function each: what is measured on one trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.policy_frontier import Sums, change, replicated, weeks_of
from benchmarks.studies.expected_harm_runs import HALVES, TOLD, TRACES, WIDENED, Half, Place, Run, half_of, waits
from features.jobs.schema import codes
from features.statistics import Ratio, interval_of_mean
from sim.metrics.comparison import by_week, by_week_and_user, pooled
from sim.metrics.schedule_metrics import ratios
from sim.schedule import Schedule, schedule_table

METRICS = {"mean_bounded_slowdown": "slowdown", "awf_s": "AWF", "p2sf_s": "P2SF"}
SLOWDOWN, AWF, P2SF = METRICS.values()
LONGEST_1, LONGEST = "longest 1 %", "longest wait"
ALL_METRICS = (SLOWDOWN, AWF, P2SF, LONGEST_1, LONGEST)
BASE = Run()
LEARNED, PRIOR = "quantile", "prior"
RUNS = {PRIOR: Run("Harm", PRIOR), LEARNED: Run("Harm", TOLD)}
"""What is compared with ``BASE``."""
LOADS = (1.0, 1.15, 1.3)
FRONTIER_LOADS = (1.15,)
KNOBS = {"urgency": (0.25, 0.5, 1, 2), "fairness": (1, 2, 4)}
"""The two options that trade slowdown for fairness, each at values around its default."""


class Counts(NamedTuple):
    """How many replicates: of the cells, and of each point of the frontier."""

    replicates: int = 20
    frontier: int = 3


class Judged(NamedTuple):
    """Sums of waits by week, [replicates, weeks], and by week and user, [weeks, users], added over replicates."""

    weekly: Sums
    by_user: dict[str, Ratio]


def judged_sums(half: Half, wait_s: np.ndarray) -> Judged:
    """Return the sums of waits [replicates, jobs]; weeks are of recorded submissions."""
    jobs, trace = half.judged, half.trace
    submit, user = jobs["submit_s"].to_numpy(np.int64), codes(jobs, "user")
    week, requested = weeks_of(submit), jobs["requested_s"].to_numpy(np.int64)
    weekly, by_user = [], []
    for each in wait_s:
        over_jobs = ratios(Schedule(schedule_table(jobs, submit + each, requested), trace.procs))
        weekly.append({name: by_week(over_jobs[name], week) for name in METRICS})
        by_user.append({name: by_week_and_user(over_jobs[name], week, user) for name in METRICS})
    return Judged(replicated(weekly), {name: pooled([each[name] for each in by_user]) for name in METRICS})


def compared(half: Half, wait_s: np.ndarray, base_s: np.ndarray) -> list[dict[str, Any]]:
    """Compare waits with a baseline's, both [replicates, jobs]: a row a metric.

    Columns are those of :class:`benchmarks.common.policy_frontier.Change`. Intervals of the longest waits are over replicates
    alone: they cover a schedule's chaos, and say nothing of other weeks.
    """
    mine, base = judged_sums(half, wait_s), judged_sums(half, base_s)
    rows: list[dict[str, Any]] = []
    for metric, words in METRICS.items():
        weighed = change(mine.weekly, base.weekly, metric, users=(mine.by_user[metric], base.by_user[metric]))
        rows.append({"metric": words, **weighed._asdict()})
    for words, values, baseline in zip((LONGEST_1, LONGEST), longest(wait_s), longest(base_s), strict=True):
        figures = {"value": values.mean(), "baseline": baseline.mean(), "relative": values.mean() / baseline.mean() - 1.0}
        interval = interval_of_mean(values / baseline)
        rows.append({"metric": words, **figures, "replicates": len(values), **interval._asdict()})
    return rows


def longest(wait_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the longest 1 % of waits and the longest wait in seconds, each float64 [replicates]."""
    ascending = np.sort(wait_s, axis=1)
    return ascending[:, -max(1, ascending.shape[1] // 100) :].mean(axis=1), ascending[:, -1].astype(np.float64)


def against_easy(place: Place, title: str, runs: Mapping[str, Run], load: float, replicates: int) -> pd.DataFrame:
    """Compare ``runs`` at a load with EASY with requested times at the same: a row a run and metric."""
    base = BASE._replace(load=load)
    results = waits(place, title, [*(run._replace(load=load) for run in runs.values()), base], replicates)
    half = half_of(title, place.shared, place.half)
    rows = []
    for name, run in runs.items():
        identity = {"name": name, "scheduler": run.scheduler, "load": load}
        rows += [identity | row for row in compared(half, results[run._replace(load=load)], results[base])]
    return pd.DataFrame(rows).astype(dict.fromkeys(("relative", "low", "high", "p"), "float64"))


def cells(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return Harm by what it knows at each load."""
    return pd.concat([against_easy(place, title, RUNS, load, counts.replicates) for load in LOADS])


def frontier(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return Harm at each value of its knobs on the first half."""
    names = dict.fromkeys(f"Harm({knob}={value})" for knob, values in KNOBS.items() for value in values)
    first = place._replace(half=HALVES[0])
    runs = {f"{name} / {predictor}": run._replace(scheduler=name) for name, (predictor, run) in product(names, RUNS.items())}
    rows = pd.concat([against_easy(first, title, runs, load, counts.frontier) for load in FRONTIER_LOADS])
    return rows.assign(name=rows["name"].str.rpartition(" / ")[2])


Section = Callable[[Place, str, Counts], pd.DataFrame]
SECTIONS: dict[str, Section] = {each.__name__: each for each in (cells, frontier)}
TITLES = (*TRACES, *WIDENED)
