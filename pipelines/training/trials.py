"""Both registered predictors in one simulation: trials on the simulated cluster.

A trial is an afternoon of the cluster's own users, after the last day of its accounting. Runtimes are predicted by
``runtime-simulated`` as its champion serves them, from its snapshot; variation by ``variability-simulated``. Trials
have seeds of their own, on which nothing was chosen. Everything is simulated but the models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features.clock import WEEK_S
from features.errors import InputError
from models.registry.tracking import Tracking
from models.registry.variability_registration import VARIABILITY, Registered, registered_classifier
from models.runtime.protocol import TablePredictor
from pipelines.lake.registry import PREFIX, registered_predictor
from pipelines.lake.tables import Lake
from pipelines.readers import SIMULATED
from pipelines.readers.simulated_site import CLUSTER, SEED
from pipelines.report.table import Cell, Row, Table, changed
from pipelines.training.compare import KEYS, ROW
from sim.cluster.applications import APPLICATIONS, INPUTS
from sim.cluster.experiments import as_schedules, compare_trials, trials, usual
from sim.cluster.simulate import Adviser
from sim.cluster.users import SIZES, population, submissions
from sim.metrics.names import METRICS
from sim.metrics.verdict import Key, change, interval, number
from sim.policy import NAMES, Policy
from sim.workloads.people import HOUR_S

REGISTERED = "registered"
"""Name of the registered classifier in schedulers."""
RUSH = f"+RUSH(model={REGISTERED})"
SERVED = f"{PREFIX}runtime-{SIMULATED}"
"""Name of the registered model of runtimes among predictors."""
NOON_S, HOURS = 12 * HOUR_S, 3
"""When a trial begins, and the hours of its submissions."""
USUAL_DAYS = 4.0
"""Days of control runs that give the usual runtimes."""


def policy(scheduler: str, predictor: str = "requested") -> Policy:
    """Return a policy with the correction that the predictor takes; Harm needs none."""
    corrections = {SERVED: "conditional(when=pass)", "clairvoyant": "tsafrir"}  # the first as in runs of a trace
    return Policy(scheduler, predictor, "requested" if scheduler.startswith("Harm") else corrections.get(predictor, "requested"))


POLICIES = (
    policy("EASY"),
    policy("EASY-SJBF", SERVED),
    policy("Harm", SERVED),
    policy(f"EASY{RUSH}"),
    policy(f"EASY-SJBF{RUSH}", SERVED),
    policy(f"Harm{RUSH}", SERVED),
    policy("EASY-SJBF", "clairvoyant"),
    policy("EASY+RUSH(model=oracle)"),
)
"""By requests, with runtimes, with variability, with both; last are bounds: undisturbed runtimes, and an oracle of
variation."""


@dataclass(frozen=True)
class TrialPlan:
    """``trials`` trials under each of :data:`POLICIES`; ``seed`` fixes all draws."""

    trials: int
    seed: int = 0

    @property
    def seeds(self) -> range:
        first = 10_000 * self.seed + 5_000  # no trial with such a seed was looked at when anything was chosen
        return range(first, first + self.trials)

    @cached_property
    def submitted(self) -> Mapping[int, pd.DataFrame]:
        """Return the jobs of each trial by its seed, numbered through, the trials a week apart."""
        users, jobs, count = population(SEED), {}, 0
        for place, seed in enumerate(self.seeds):
            table = submissions(users, HOURS / 24, seed, procs=CLUSTER.procs, begins_s=NOON_S)
            jobs[seed] = table.assign(submit_s=table["submit_s"] + place * WEEK_S, job_id=table["job_id"] + count)
            count += len(table)
        return jobs

    @property
    def beside(self) -> dict[Key, list[Key]]:
        """Return the policies with both predictors, each with those that have one of them alone."""
        keys: list[Key] = [policy[:3] for policy in POLICIES]
        alone = {key: [(key[0].removesuffix(RUSH), *key[1:]), (f"EASY{RUSH}", "requested", "requested")] for key in keys}
        return {key: [other for other in alone[key] if other in keys] for key in keys if key[0].endswith(RUSH) and key[1] == SERVED}


def published_models(plan: TrialPlan, place: Path, store: Tracking) -> tuple[TablePredictor, Registered]:
    """Return the published models that the plan's policies ask.

    Without a champion of variability it is the best classifier. ``place`` is the home directory. Raises InputError if a
    model is missing.
    """
    name = VARIABILITY.registered(SIMULATED)
    named = Lake(place / "lake").models(name)
    classifier = registered_classifier(store, name, named.get("champion") or named.get("simulated") or "champion")
    return served(plan, place, store), classifier


def check_accounting(lake: Lake) -> None:
    """Raise InputError if the simulated cluster's accounting was never run."""
    if not lake.has("jobs", SIMULATED):
        raise InputError(f"runtime-{SIMULATED}: is not registered yet; queuecast run --trace {SIMULATED} registers it")


def served(plan: TrialPlan, place: Path, store: Tracking) -> TablePredictor:
    """Return the published champion of runtimes, asked once about the jobs of all trials.

    They are submitted on the first day after the accounting that its snapshot was made from, and what happens in a
    trial it does not see.
    """
    lake = Lake(place / "lake")
    check_accounting(lake)
    accounting = lake.read_clean(SIMULATED)
    jobs = pd.concat(plan.submitted.values(), ignore_index=True)
    midnight = accounting.clock.next_midnight(int(accounting.jobs["submit_s"].iloc[-1]))
    afternoon = replace(accounting, jobs=jobs.assign(submit_s=jobs["submit_s"] % WEEK_S + midnight + NOON_S))
    model = registered_predictor(SERVED, afternoon, store=store, place=place)
    assert model.quantiles is not None
    seconds, quantiles = np.asarray(model.estimate(jobs)), model.quantiles(jobs)

    def rows(trial: pd.DataFrame) -> np.ndarray:
        return trial["job_id"].to_numpy(np.int64) - 1

    return TablePredictor(SERVED, lambda trial: seconds[rows(trial)], quantiles=lambda trial: quantiles.iloc[rows(trial)])


def simulate_trials(
    plan: TrialPlan,
    runtimes: TablePredictor,
    classifier: Registered,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Simulate the trials of ``plan``, with the registered models of :func:`published_models`.

    Returns a row a job and policy, as of :func:`sim.cluster.experiments.trials`, and the comparison as of
    :func:`sim.cluster.experiments.compare_trials`.
    """
    policies = [policy._replace(predictor=runtimes) if policy.predictor == SERVED else policy for policy in POLICIES]
    names = tuple(f"{name}{suffix}" for name in APPLICATIONS for suffix in INPUTS)
    advisers = {REGISTERED: Adviser(classifier.model, classifier.scope)}
    runs = trials(
        CLUSTER,
        plan.submitted,
        policies,
        usual_times=usual(CLUSTER, SIZES, days=USUAL_DAYS, seed=10_000 * plan.seed + 4_999, applications=names),
        advisers=advisers,
        progress=progress,
    )
    return runs, compare_trials(as_schedules(runs, CLUSTER.procs, SIMULATED), plan.beside)


COLUMNS = ("mean_bounded_slowdown", "mean_wait_s", "awf_s", "p2sf_s", "makespan_s", "varied_runs", "largest_runtime")
_ASKED = ("mean_bounded_slowdown", "varied_runs")
"""Metrics of the answer: what runtimes are known for, and what variability is known for."""


def keep_trials(lake: Lake, system: str, runs: pd.DataFrame, table: pd.DataFrame, marks: Mapping[str, Any]) -> None:
    """Write the schedules and the comparison of trials of a ``system``.

    Arguments are those that :func:`simulate_trials` returns.
    """
    named = runs.rename(columns={"nodes": "procs", "work_s": "undisturbed_s", "relative": "times_usual"})
    columns = [*KEYS, *ROW, "application", "undisturbed_s", "varied", "times_usual", "skips"]
    lake.write("schedules", system, named[columns], marks)
    lake.write("comparison", system, table, marks)


def knows(key: Key) -> str:
    """Return what a policy knows, in words."""
    if "model=oracle" in key[0] or key[1] == "clairvoyant":
        return "a bound: undisturbed runtimes" if key[1] == "clairvoyant" else "a bound: what will vary"
    words = ["runtimes"] * (key[1] == SERVED) + ["variability"] * key[0].endswith(RUSH)
    return " and ".join(words) or "requests"


def answer(table: pd.DataFrame) -> list[str]:
    """Return two sentences for each policy that knows both: against each predictor alone."""
    at = _by_policy(table[table["compared_with"] != POLICIES[0][0] + " / " + POLICIES[0][1]], "compared_with")
    lines: dict[Key, list[str]] = {}
    for (*key, baseline), rows in at.items():
        alone = "variability" if RUSH in baseline else "runtimes"
        changes = ", and ".join(f"{METRICS[name].title} by {_changed(rows[name])}" for name in _ASKED)
        lines.setdefault((key[0], key[1], key[2]), []).append(f"of {alone} alone, it changes {changes}")
    return [
        f"{key[0].removesuffix(RUSH)} with both predictions: in place {'; in place '.join(parts)}." for key, parts in lines.items()
    ]


def _changed(row: Mapping[Any, Any]) -> str:
    return f"{change(row['relative'])} {interval(row['low'], row['high'])} ({'sure' if row['sure'] else 'not sure'})".replace(
        "  ", " "
    )


def overall(table: pd.DataFrame, title: str = "") -> Table:
    """Return one row a policy: metrics, below each its change from EASY by requests."""
    first = table["compared_with"].iloc[0]
    rows: list[Row] = []
    classes = []
    for key, values in _by_policy(table[table["compared_with"] == first]).items():
        words = knows((key[0], key[1], key[2]))
        rows.append(
            [Cell(key[0].removesuffix(RUSH), ((words, ""),)), *(_cell(values[name], baseline=not rows) for name in COLUMNS)]
        )
        classes.append("bound" if words.startswith("a bound") else "")
    headings = [Cell(METRICS[name].title + ", s" * name.endswith("_s"), tip=METRICS[name].meaning) for name in COLUMNS]
    return Table(title, ["scheduler, and what it knows", *headings], rows, classes=classes)


def _cell(row: Mapping[Any, Any], *, baseline: bool) -> str | Cell:
    if baseline:
        return number(row["value"], METRICS[row["metric"]].kind)
    tone = "" if not row["sure"] else "better" if row["relative"] < 0 else "worse"
    return changed(row, tone, sure=bool(row["sure"]))


def _by_policy(table: pd.DataFrame, *more: str) -> dict[Any, dict[str, dict[Any, Any]]]:
    """Return rows by policy, and by ``more`` columns, and by metric."""
    groups = table.groupby([*NAMES, *more], sort=False)
    return {key: {row["metric"]: row for row in rows.to_dict("records")} for key, rows in groups}
