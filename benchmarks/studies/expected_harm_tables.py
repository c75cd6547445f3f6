"""Tables of :mod:`benchmarks.studies.expected_harm`, a function each: what is measured on one trace."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.policy_frontier import Sums, change, replicated, weeks_of
from benchmarks.studies.expected_harm_runs import (
    ASKING,
    HALVES,
    HONEST,
    TOLD,
    Half,
    Place,
    Run,
    as_table,
    half_of,
    strategic,
    told,
    waits,
)
from features.clock import DAY_S, WEEK_S
from features.errors import InputError
from features.jobs.cleaning import CleanTrace, clean
from features.jobs.schema import codes
from features.jobs.shaking import SHAKE_S
from features.statistics import Ratio
from models.runtime.protocol import TablePredictor
from models.runtime.remaining import LEVELS
from pipelines.ingest.workload import Workload, generate
from sim.harm import Harm
from sim.metrics.comparison import by_week, by_week_and_user, pooled
from sim.metrics.schedule_metrics import ratios
from sim.names import scheduler
from sim.schedule import Schedule, schedule_table
from sim.simulate import simulate

TRACES = ("KTH-SP2", "SDSC-SP2", "LANL-CM5", "ALCF-Theta")
METRICS = {"mean_bounded_slowdown": "slowdown", "awf_s": "AWF", "p2sf_s": "P2SF"}
AGAIN = "conditional(when=pass)"
"""The correction of every prediction that a job may outlive. Harm needs none."""
BASE = Run()
REQUESTS, POINT, LEARNED, EXACT = "requests, no model", "requests as a point", "quantile", "exact runtimes"
HEADLINE = {
    REQUESTS: Run("Harm", "prior"),
    POINT: Run("Harm"),
    LEARNED: Run("Harm", "quantile"),
    EXACT: Run("Harm", "clairvoyant"),
}
"""What ``Harm`` may know: a fixed distribution of runtimes relative to requests, requests alone, what is learned, and all."""
RIVALS = ("EASY", "EASY-SJBF", "EASY-SRF", "EASY-WFP3", "SAF-EASY", "JustBF")
PLAIN = ("SRF-EASY", "F1-EASY", "SAF-EASY")
"""Plain orders by requested times that win on slowdown alone; jobs that have waited for ``STARVATION_S`` go first."""
STARVATION_S = DAY_S
WHOLE, WEEKS = "whole trace", "second half of its weeks"
"""Other jobs to judge than the second half of them."""
RIVALS_PREDICTORS = {"requested": "requested", "last2": AGAIN, "quantile": AGAIN, "clairvoyant": "requested"}
"""What rivals go by, with the correction."""
NIGHTLY = "quantile"
"""The predictor that is retrained every night: its rivals have fewer replicates."""
FULL = Run("Harm", "told")
"""What variants are compared with: the rule with a table of quantiles, which costs no learning."""
NOT_PARTS = ("short_level",)
"""Options that are no weight, so that 0 would not leave a part out."""
SCENARIOS = (1, 4, 16, 64)
LOADS = (0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
HOUR_S = 3600.0
COST_REPEATS = 15
LARGE = Workload(jobs=230_000, procs=1152, users=1000, load=0.8, generator=1)
SPARED = "ALCF-Theta"
"""The trace on which the prototype failed: its target is to do no harm."""


class Counts(NamedTuple):
    """How many replicates: of the headline, of everything else, and of rivals that learn every night."""

    replicates: int = 20
    few: int = 5
    nightly: int = 3


Section = Callable[[Place, str, Counts], pd.DataFrame]


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

    Columns: ``name scheduler predictor metric`` and those of :class:`benchmarks.common.policy_frontier.Change`.
    """
    against = {name: bases if isinstance(bases, Run) else bases[name] for name in runs}
    results = waits(place, title, [*runs.values(), *against.values()], replicates)
    half = half_of(title, place.shared, place.half)
    sums = {run: judged_sums(half, each) for run, each in results.items()}
    rows = []
    for name, run in runs.items():
        identity = {"name": name, "scheduler": run.scheduler, "predictor": run.predictor}
        rows += changes(identity, sums[run], sums[against[name]])
    return pd.DataFrame(rows).astype(dict.fromkeys(("relative", "low", "high"), "float64"))


def headline(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return Harm by what it knows, against EASY with requested times."""
    return compared(place, title, HEADLINE, BASE, counts.replicates)


def rivals(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return the other schedulers with four predictors, against EASY with requested times."""
    runs = {
        f"{name} / {predictor}": Run(name, predictor, correction)
        for name, (predictor, correction) in product(RIVALS, RIVALS_PREDICTORS.items())
    }
    nightly = {name: run for name, run in runs.items() if run.predictor == NIGHTLY}
    quick = {name: run for name, run in runs.items() if name not in nightly and run != BASE}
    tables = [compared(place, title, quick, BASE, counts.few), compared(place, title, nightly, BASE, counts.nightly)]
    return pd.concat(tables, ignore_index=True)


def simulated(half: Half, run: Run, seed: int, starvation_s: int | None = None) -> np.ndarray:
    """Simulate one replicate of all jobs; return their waits, int64 [jobs]."""
    trace = half.trace
    schedule = simulate(
        trace.jobs, procs=trace.procs, scheduler=run.scheduler, predictor=run.predictor, starvation_s=starvation_s,
        clock=trace.clock, seed=seed, shake_s=SHAKE_S,
    ).jobs  # fmt: skip
    return (schedule["start_s"] - schedule["submit_s"]).to_numpy(np.int64)


def plain(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return plain orders with a starvation threshold, against EASY with requested times."""
    half = half_of(title, place.shared, place.half)
    base = judged_sums(half, waits(place, title, [BASE], counts.replicates)[BASE])
    rows = []
    for name in PLAIN:
        run = Run(name)
        mine = np.stack([simulated(half, run, seed, STARVATION_S)[half.first :] for seed in range(counts.replicates)])
        rows += changes(
            {"name": f"{name}, starvation 1 day", "scheduler": name, "predictor": run.predictor}, judged_sums(half, mine), base
        )
    return pd.DataFrame(rows)


def elsewhere(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return Harm without a model on the whole trace and on the second half of its weeks, against EASY."""
    half = half_of(title, place.shared, HALVES[1])
    submit = half.trace.jobs["submit_s"].to_numpy(np.int64)
    week = (submit - submit.min()) // WEEK_S
    runs = HEADLINE[REQUESTS], BASE
    mine, base = (np.stack([simulated(half, run, seed) for seed in range(counts.few)]) for run in runs)
    rows = []
    for name, first in {WHOLE: 0, WEEKS: int(np.searchsorted(week, (week.max() + 1) // 2))}.items():
        judged = half._replace(first=first)
        identity = {"name": name, "scheduler": runs[0].scheduler, "predictor": runs[0].predictor}
        rows += changes(identity, *(judged_sums(judged, each[:, first:]) for each in (mine, base)))
    return pd.DataFrame(rows)


def changes(identity: Mapping[str, str], mine: Judged, base: Judged) -> list[dict[str, Any]]:
    """Return the change of each metric with its interval, a row a metric."""
    return [
        {
            **identity,
            "metric": METRICS[metric],
            **change(mine.weekly, base.weekly, metric, users=(mine.by_user[metric], base.by_user[metric]))._asdict(),
        }
        for metric in METRICS
    ]


def numbers() -> dict[str, float]:
    """Return the options of ``Harm`` that are numbers other than 0, with their defaults."""
    known = {name: value for name, value in asdict(Harm()).items() if isinstance(value, (int, float))}
    return {name: value for name, value in known.items() if value and name != "scenarios"}


def accepted(name: str, *values: float) -> list[Run]:
    """Return the rule with the first of ``values`` that its option ``name`` takes, if any, as one run."""
    for value in values:
        rule = f"Harm({name}={value:g})"
        try:
            scheduler(rule)
        except InputError:
            continue
        return [FULL._replace(scheduler=rule)]
    return []


def named(runs: Sequence[Run]) -> dict[str, Run]:
    """Return runs by the option that they state."""
    return {run.scheduler.removeprefix("Harm(").removesuffix(")"): run for run in runs}


def parts(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return the rule without one part at a time, against the rule."""
    off = [run for name in numbers() if name not in NOT_PARTS for run in accepted(name, 0.0)]
    return compared(place, title, named(off), FULL, counts.few)


def constants(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return the rule with each constant at half and double, against the rule.

    A level in (0, 1) that cannot be doubled goes halfway to 1; a number that must be whole is rounded down.
    """
    changed = [
        run
        for name, value in numbers().items()
        for tried in ((value / 2, value // 2), (2 * value, (1 + value) / 2))
        for run in accepted(name, *tried)
    ]
    return compared(place, title, named(changed), FULL, counts.few)


def scenarios(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return the rule with fewer and more scenarios, against EASY with requested times."""
    runs = {f"{count} scenarios": FULL._replace(scheduler=f"Harm(scenarios={count})") for count in SCENARIOS}
    return compared(place, title, runs, BASE, counts.few)


def loads(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return the rule with submissions compressed, against EASY at the same load."""
    known = {"prior": HEADLINE[REQUESTS], "told": FULL, "exact runtimes": HEADLINE[EXACT]}
    runs = {f"{load:g}, {name}": run._replace(load=load) for load, (name, run) in product(LOADS, known.items())}
    return compared(place, title, runs, {name: BASE._replace(load=run.load) for name, run in runs.items()}, counts.few)


def qualities(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return the rule with better and worse predictions, against EASY with requested times."""
    return compared(place, title, {name: Run("Harm", name) for name in (*TOLD, "sp3", "prior", "requested")}, BASE, counts.few)


def slowdown(jobs: pd.DataFrame, wait_s: np.ndarray) -> np.ndarray:
    """Return bounded slowdowns of waits [..., jobs] with the threshold of 10 s."""
    runtime = jobs["runtime_s"].to_numpy(np.float64)
    return np.maximum(1.0, (wait_s + runtime) / np.maximum(runtime, 10.0))


def area_of(jobs: pd.DataFrame) -> np.ndarray:
    """Return processor-seconds, float64 [jobs]."""
    return jobs["procs"].to_numpy(np.float64) * jobs["runtime_s"].to_numpy(np.float64)


def binned(values: np.ndarray, edges: Sequence[float], unit: str = "") -> pd.Categorical:
    """Return the range of each value, in words; a value on an edge is in the range below."""
    names = [f"up to {edges[0]:g}{unit}", *(f"{low:g} to {high:g}{unit}" for low, high in pairwise(edges))]
    names.append(f"above {edges[-1]:g}{unit}")
    return pd.Categorical.from_codes(np.searchsorted(edges, values, side="left"), names)


def decomposed(jobs: pd.DataFrame, group: pd.Categorical, before: np.ndarray, after: np.ndarray) -> pd.DataFrame:
    """Split what changes between waits ``before`` and ``after`` [replicates, jobs] by group.

    Columns: ``group jobs area`` (shares), mean slowdowns and waits before and after, and ``slowdown_part wait_part weighted_part``: the group's
    part of the relative change of mean slowdown, mean wait and AWF over all jobs. Parts add up to these changes.
    """
    area, runtime = area_of(jobs), jobs["runtime_s"].to_numpy(np.float64)
    table = pd.DataFrame({"group": group, "jobs": 1.0 / len(jobs), "area": area / area.sum()})
    for name, waited in (("before", before), ("after", after)):
        table[f"slowdown_{name}"], table[f"wait_{name}"] = slowdown(jobs, waited).mean(axis=0), waited.mean(axis=0)
    totals = table[["slowdown_before", "wait_before"]].sum()
    for name in ("slowdown", "wait"):
        table[f"{name}_part"] = (table[f"{name}_after"] - table[f"{name}_before"]) / totals[f"{name}_before"]
    table["weighted_part"] = area * (table["wait_after"] - table["wait_before"]) / (area * (table["wait_before"] + runtime)).sum()
    means = dict.fromkeys(("slowdown_before", "slowdown_after", "wait_before", "wait_after"), "mean")
    sums = dict.fromkeys(("jobs", "area", "slowdown_part", "wait_part", "weighted_part"), "sum")
    return table.groupby("group", observed=True).agg(sums | means).reset_index()


def apart(wait_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split replicates in two: one part to choose jobs by, the other to measure them by."""
    return wait_s[0::2], wait_s[1::2] if len(wait_s) > 1 else wait_s


def groups(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return who gains and who loses from EASY with requests to Harm with ``quantile``, and without a model.

    A job's age at its start under EASY is of other replicates than what it is measured by: else chance would look like an effect.
    """
    jobs = half_of(title, place.shared, place.half).judged
    asked = {name: HEADLINE[name] for name in (LEARNED, REQUESTS)}
    results = waits(place, title, [BASE, *asked.values()], counts.replicates)
    procs, easy = jobs["procs"].to_numpy(np.int64), results[BASE]
    quartiles = np.unique(np.quantile(procs, (0.25, 0.5, 0.75), method="lower"))
    each = jobs["user"].map(jobs["user"].value_counts()).astype("float64").fillna(1.0).to_numpy()
    groups = {
        "processors (quartiles)": binned(procs, quartiles),
        "runtime": binned(jobs["runtime_s"].to_numpy() / 60, (1, 15, 60, 240), " min"),
        "jobs of its user": binned(each, (10, 100, 1000)),
    }
    age = binned(apart(easy)[0].mean(axis=0) / HOUR_S, (0.1, 1, 6, 24), " h")
    tables = []
    for name, run in asked.items():
        shares = {by: decomposed(jobs, group, easy, results[run]) for by, group in groups.items()}
        shares["wait under EASY"] = decomposed(jobs, age, apart(easy)[1], apart(results[run])[1])
        tables += [table.assign(name=name, by=by) for by, table in shares.items()]
    return pd.concat(tables, ignore_index=True)


def worst(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return the tenth of the jobs, users and widths whose mean wait grows most.

    Beside it the same tenth between two sets of replicates of EASY: what chance makes look so. Users and widths of ten jobs at least. Hours.
    """
    jobs = half_of(title, place.shared, place.half).judged
    easy, harm = waits(place, title, [BASE, HEADLINE[LEARNED]], counts.replicates).values()
    before, again = (each.mean(axis=0) / HOUR_S for each in apart(easy))
    after = apart(harm)[1].mean(axis=0) / HOUR_S
    table = pd.DataFrame({"before": before, "longer": after - before, "by chance": again - before})
    rows = []
    for unit, keys, fewest in (
        ("jobs", np.arange(len(jobs)), 1),
        ("users", jobs["user"].cat.codes, 10),
        ("widths", jobs["procs"], 10),
    ):
        each = table.assign(key=np.asarray(keys), jobs=1).query("key >= 0").groupby("key")
        means = each[["before", "longer", "by chance"]].mean()[each["jobs"].sum() >= fewest]
        tenth = max(1, len(means) // 10)
        most = means.nlargest(tenth, "longer")
        rows.append({
            "unit": unit, "units": len(means), "waited_h": most["before"].mean(), "longer_h": most["longer"].mean(),
            "by_chance_h": means["by chance"].nlargest(tenth).mean(), "shorter_h": -means["longer"].nsmallest(tenth).mean(),
            "all_h": means["longer"].mean(), "share_over_an_hour": (means["longer"] > 1.0).mean(),
        })  # fmt: skip
    return pd.DataFrame(rows)


def longest(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return the longest waits in hours, means over replicates."""
    runs = {"EASY / requests": BASE} | {f"Harm / {name}": run for name, run in HEADLINE.items()}
    results = waits(place, title, list(runs.values()), counts.replicates)
    rows = []
    for name, run in runs.items():
        hours = np.sort(results[run] / HOUR_S, axis=1)
        tail = hours[:, -max(1, hours.shape[1] // 100) :]
        told = {"max_h": hours[:, -1], "thousandth_h": np.quantile(hours, 0.999, axis=1), "worst_percent_h": tail.mean(axis=1)}
        rows.append({"name": name} | {column: values.mean() for column, values in told.items()})
    return pd.DataFrame(rows)


def strategy(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return what a tenth of the users gains by asking for more or less, and what it costs all others.

    A row a run, way of asking, side and metric: relative changes from honest requests in the same replicate, their mean, and the standard
    error over replicates, each of which draws its users.
    """
    jobs = half_of(title, place.shared, place.half).judged
    runs = {"EASY / requests": BASE, "Harm / prior": HEADLINE[REQUESTS], "Harm / told": FULL}
    results = waits(place, title, [run._replace(asking=each) for run in runs.values() for each in (HONEST, *ASKING)], counts.few)
    whole, first = half_of(title, place.shared, place.half).trace.jobs, half_of(title, place.shared, place.half).first
    theirs = np.stack([strategic(whole, HONEST, seed)[1][first:] for seed in range(counts.few)])
    rows = []
    for (name, run), asking in product(runs.items(), ASKING):
        honest, asked = (_judged_by_side(jobs, results[run._replace(asking=each)], theirs) for each in (HONEST, asking))
        for side, metric in honest:
            changes = asked[side, metric] / honest[side, metric] - 1.0
            error = changes.std(ddof=1) / len(changes) ** 0.5 if len(changes) > 1 else np.nan
            rows.append(
                {"name": name, "asking": asking, "side": side, "metric": metric, "relative": changes.mean(), "error": error}
            )
    return pd.DataFrame(rows)


def _judged_by_side(jobs: pd.DataFrame, wait_s: np.ndarray, theirs: np.ndarray) -> dict[tuple[str, str], np.ndarray]:
    """Return means [replicates] over strategic users' jobs and over all others, by side and metric."""
    runtime, area = jobs["runtime_s"].to_numpy(np.float64), area_of(jobs)
    values = {"slowdown": (slowdown(jobs, wait_s), 1.0), "wait": (wait_s, 1.0), "AWF": (wait_s + runtime, area)}
    sides = {"strategic": theirs, "others": ~theirs}
    return {
        (side, metric): (each * mine * weight).sum(axis=1) / (mine * weight).sum(axis=1)
        for (side, mine), (metric, (each, weight)) in product(sides.items(), values.items())
    }


def cost(place: Place, title: str, counts: Counts) -> pd.DataFrame:
    """Return microseconds a job beside the predictor: medians, interleaved with EASY in one process.

    Of the trace as simulated for this half, with a table of quantiles; once also of a generated trace with made-up quantiles.
    """
    trace = half_of(title, place.shared, place.half).trace
    rows = _timed(trace, title, as_table(told(place, title), "told", trace.jobs["requested_s"].to_numpy(np.int64), 0), COST_REPEATS)
    if title == TRACES[0]:
        rows += _timed(large := clean(generate(LARGE)), f"generated, {LARGE.jobs:,} jobs", made_up(large.jobs), COST_REPEATS // 3)
    return pd.DataFrame(rows)


def made_up(jobs: pd.DataFrame) -> TablePredictor:
    """Return distributions that are wrong by a factor of about two either way, for measuring time alone."""
    rng = np.random.default_rng(0)
    spread = np.exp(0.7 * np.array([statistics.NormalDist().inv_cdf(level) for level in LEVELS]))
    middle = jobs["runtime_s"].to_numpy(np.float64) * np.exp(0.7 * rng.standard_normal(len(jobs)))
    table = pd.DataFrame(np.clip(middle[:, None] * spread, 1.0, jobs["requested_s"].to_numpy(np.float64)[:, None]), columns=LEVELS)
    return TablePredictor("made up", lambda _: table.iloc[:, len(LEVELS) // 2].to_numpy(), quantiles=lambda _: table)


def _timed(trace: CleanTrace, name: str, source: TablePredictor, repeats: int) -> list[dict[str, Any]]:
    asked = {"requests": "requested", "quantiles": source}
    runs = [("EASY", "requests"), ("EASY-SJBF", "requests"), ("EASY", "quantiles"), ("Harm", "requests"), ("Harm", "quantiles")]
    taken: dict[tuple[str, str], list[float]] = {run: [] for run in runs}
    for _, (rule, told_by) in product(range(repeats), runs):
        schedule = simulate(trace.jobs, procs=trace.procs, scheduler=rule, predictor=asked[told_by], clock=trace.clock)
        taken[rule, told_by].append(1e6 * schedule.simulate_s / len(trace.jobs))
    return [{"jobs_of": name, "name": " / ".join(run), "us": statistics.median(taken[run])} for run in runs]


SECTIONS: dict[str, Section] = {
    each.__name__: each
    for each in (
        headline,
        rivals,
        plain,
        elsewhere,
        parts,
        constants,
        scenarios,
        loads,
        qualities,
        groups,
        worst,
        longest,
        strategy,
        cost,
    )
}
