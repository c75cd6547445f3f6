"""Tables of :mod:`benchmarks.studies.expected_harm`, a function each: what is measured on one trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.policy_frontier import Sums, change, replicated, weeks_of
from benchmarks.studies.expected_harm_runs import HALVES, TOLD, Half, Place, Run, half_of, waits
from features.clock import DAY_S
from features.jobs.schema import codes
from features.statistics import Ratio
from sim.metrics.comparison import by_week, by_week_and_user, pooled
from sim.metrics.schedule_metrics import ratios
from sim.schedule import Schedule, schedule_table

TRACES = ("KTH-SP2", "SDSC-SP2", "LANL-CM5", "ALCF-Theta")
METRICS = {"mean_bounded_slowdown": "slowdown", "awf_s": "AWF", "p2sf_s": "P2SF"}
AGAIN = "conditional(when=pass)"
"""The correction of every prediction that a job may outlive. Harm needs none."""
BASE = Run()
REQUESTS, LEARNED, INSIDE, BOUND = "Harm / prior", "Harm / quantile", "Harm / quantile inside", "EASY / exact runtimes"
RUNS = {LEARNED: Run("Harm", TOLD), REQUESTS: Run("Harm", "prior"), BOUND: Run("EASY", "clairvoyant")}
"""What is compared with ``BASE``."""
LOADS = dict(zip(HALVES, ((1.0, 1.1, 1.2, 1.3), (1.0, 1.15, 1.3)), strict=True))
"""By half: how many times as fast jobs are submitted."""
PLAIN = ("SRF-EASY", "F1-EASY", "SAF-EASY")
"""Plain orders by requested times that win on slowdown alone; jobs that have waited for ``STARVATION_S`` go first."""
STARVATION_S = DAY_S
VARIANTS = ("Harm", *(f"Harm({option})" for option in ("urgency=0.3", "short=0", "fairness=6", "order_urgency=1")))
"""What was compared on first halves, each by ``told`` and by ``prior``."""
HOUR_S = 3600.0


class Counts(NamedTuple):
    """How many replicates: of all, and of what learns inside the simulation."""

    replicates: int = 20
    inside: int = 2


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


def compared(place: Place, title: str, runs: Mapping[str, Run], bases: Mapping[str, Run] | Run, replicates: int) -> pd.DataFrame:
    """Compare each of ``runs`` with its base, or with the one base: a row a run and metric.

    Columns: ``name scheduler predictor load metric`` and those of :class:`benchmarks.common.policy_frontier.Change`.
    """
    against = {name: bases if isinstance(bases, Run) else bases[name] for name in runs}
    results = waits(place, title, [*runs.values(), *against.values()], replicates)
    half = half_of(title, place.shared, place.half)
    sums = {run: judged_sums(half, each) for run, each in results.items()}
    rows = []
    for name, run in runs.items():
        identity = {"name": name, "scheduler": run.scheduler, "predictor": run.predictor, "load": run.load}
        rows += changes(identity, sums[run], sums[against[name]])
    return pd.DataFrame(rows).astype(dict.fromkeys(("relative", "low", "high"), "float64"))


def changes(identity: Mapping[str, Any], mine: Judged, base: Judged) -> list[dict[str, Any]]:
    """Return the change of each metric with its interval, a row a metric."""
    return [
        {
            **identity,
            "metric": METRICS[metric],
            **change(mine.weekly, base.weekly, metric, users=(mine.by_user[metric], base.by_user[metric]))._asdict(),
        }
        for metric in METRICS
    ]


def at_loads(place: Place, runs: Mapping[str, Run]) -> dict[str, Run]:
    """Return ``runs`` at each load of the half, by name and load."""
    return {f"{name}, {load:g}": run._replace(load=load) for load, (name, run) in product(LOADS[place.half], runs.items())}


def _against(place: Place, title: str, runs: Mapping[str, Run], base: Run, replicates: int) -> pd.DataFrame:
    """Return ``runs`` at each load against ``base`` at the same."""
    asked = at_loads(place, runs)
    rows = compared(place, title, asked, {name: base._replace(load=run.load) for name, run in asked.items()}, replicates)
    return rows.assign(name=rows["name"].str.rpartition(", ")[0])


def cells(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return Harm by what it knows, and EASY with exact runtimes, against EASY with requested times."""
    return _against(place, title, RUNS, BASE, counts.replicates)


def inside(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return Harm with ``quantile`` learning inside the simulation."""
    return _against(place, title, {INSIDE: Run("Harm", "quantile")}, BASE, counts.inside)


def bound(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return Harm with ``quantile`` against EASY with exact runtimes."""
    return _against(place, title, {LEARNED: RUNS[LEARNED]}, RUNS[BOUND], counts.replicates)


def plain(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return plain orders with a starvation threshold, against EASY with requested times."""
    runs = {f"{name}, starvation 1 day": Run(name, starvation_s=STARVATION_S) for name in PLAIN}
    return compared(place, title, runs, BASE, counts.replicates)


def longest(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return the mean of the longest 1 % of waits in hours, over replicates, and its change.

    ``error`` is the standard error of the change over replicates.
    """
    rows = []
    for load, (name, run) in product(LOADS[place.half], RUNS.items()):
        asked = [run._replace(load=load), BASE._replace(load=load)]
        sorted_h = [np.sort(each / HOUR_S, axis=1) for each in waits(place, title, asked, counts.replicates).values()]
        mine, base = (each[:, -max(1, each.shape[1] // 100) :].mean(axis=1) for each in sorted_h)
        moved = mine / base - 1.0
        error = moved.std(ddof=1) / len(moved) ** 0.5 if len(moved) > 1 else np.nan
        figures = {"value": mine.mean(), "baseline": base.mean(), "relative": moved.mean(), "error": error}
        rows.append({"name": name, "load": load, "metric": "longest 1 %", **figures, "replicates": len(moved)})
    return pd.DataFrame(rows)


def variants(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return variants of the rule at each load, by ``told`` and by ``prior``, against EASY with requested times."""
    runs = {f"{name} / {predictor}": Run(name, predictor) for name, predictor in product(VARIANTS, (TOLD, "prior"))}
    return _against(place, title, runs, BASE, counts.replicates)


Section = Callable[[Place, str, Counts], pd.DataFrame]
SECTIONS: dict[str, Section] = {each.__name__: each for each in (cells, bound, longest, plain, inside)}
CHOICE: dict[str, Section] = {"variants": variants}
"""What a look measures, and what first halves are asked to choose by."""
