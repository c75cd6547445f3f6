"""The stages of the pipeline as functions from tables to tables; assets call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.jobs.cleaning import CleanTrace
from features.jobs.history import history
from features.jobs.schema import recorded_end_s
from models.runtime.dispatch import tells_quantiles
from models.runtime.protocol import CompiledPredictor, Predictor
from pipelines.report.wording import takes_correction
from pipelines.storage.lake import Lake
from sim.campaigns.campaign import campaign_schedules, predictor_name
from sim.estimates import as_predictor
from sim.history_starts import history_starts
from sim.schedule import Schedule, recorded, schedule_table
from sim.settings import Campaign
from sim.shaken import moved_by_seed

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class History:
    """What was known of its user at each job's submission.

    ``source`` says whether the starts behind it were recorded or simulated.
    """

    table: pd.DataFrame
    start_s: np.ndarray
    source: str


def user_history(clean: CleanTrace) -> History:
    """Return the history features of a cleaned trace, one row a job in order of submission."""
    start, source = history_starts(clean.jobs, clean.procs)
    local = local_clock_s(clean.jobs["submit_s"].to_numpy(), clean.origin_unix_s, clean.timezone)
    return History(history(clean.jobs, start, local, recorded_end_s(clean.jobs, start)), start, source)


def keep_history(lake: Lake, clean: CleanTrace) -> History:
    """Write the user history of ``clean`` with its starts, and return it."""
    known = user_history(clean)
    lake.write_for(clean, "user_history", known.table.assign(start_s=known.start_s), {"starts": known.source})
    return known


def read_history(lake: Lake, clean: CleanTrace) -> History:
    """Return the user history that the lake keeps of ``clean``."""
    table, marks = lake.read_for(clean, "user_history")
    return History(table.drop(columns="start_s"), table["start_s"].to_numpy(np.int64), marks["starts"])


SCHEDULERS = ("EASY", "EASY-SJBF", "EASY-SRF")
WEIGHING = ("Harm",)
"""Simulated by default with predictors that tell a distribution, exact runtimes and registered models: not with those that learn a point."""
PRIOR = "prior"
"""What these go by in place of requests: the distribution that a request tells without any model."""
COMPARED = ("requested", "last2", "lightgbm", "quantile", "clairvoyant")
CORRECTIONS = ("conditional(when=pass)",)
"""Simulated by default: every learned predictor under one correction, so that predictors are compared and not corrections."""


def campaign(
    clean: CleanTrace,
    schedulers: Sequence[str],
    predictors: Sequence[str | Predictor],
    corrections: Sequence[str] = ("requested",),
    seed: int = 0,
    progress: Progress | None = None,
    weighing: Sequence[str] = (),
) -> list[Schedule]:
    """Simulate every scheduler with every predictor and correction.

    Corrections apply where jobs can outlive the predictor's predictions and the scheduler goes by these. The schedulers
    ``weighing`` are simulated too, with ``PRIOR`` in place of requests and without learned points (:func:`worth_weighing`).
    Schedules come scheduler by scheduler, and in the order of predictors and corrections within one.
    """
    told = [each for each in predictors if not never_outlived(predictor_name(each))]
    correcting = [name for name in schedulers if takes_correction(name)]
    added = [name for name in weighing if name not in schedulers]
    order, one = [*schedulers, *added], ("requested",)
    weighed = {predictor_name(each): each for each in (PRIOR if each == "requested" else each for each in predictors)}
    groups: list[tuple[list[str], list[str | Predictor], tuple[str, ...]]] = [
        (correcting, [each for each in predictors if each not in told], one),
        (correcting, told, tuple(corrections)),
        ([name for name in schedulers if name not in correcting], list(predictors), one),
        (added, [each for each in weighed.values() if worth_weighing(each)], one),
    ]
    # a seed is refused where nothing learns by it; the schedules of such a run still record it
    parts = [
        Campaign(
            schedulers=tuple(by),
            predictors=tuple(group),
            corrections=fixes,
            seeds=(seed if any(moved_by_seed(each, 0, by) for each in group) else 0,),
        )
        for by, group, fixes in groups
        if by and group
    ]
    total = sum(len(part.schedulers) * len(part.predictors) * len(part.corrections) for part in parts)
    made: list[Schedule] = []
    for part in parts:
        before = len(made)
        made += campaign_schedules(
            clean.jobs,
            part,
            procs=clean.procs,
            trace=clean.name,
            generated=clean.generated,
            clock=clean.clock,
            progress=(lambda done, _, before=before: progress(before + done, total)) if progress else None,  # type: ignore[misc]
        )
    places = {name: place for place, name in reversed([*enumerate(map(predictor_name, predictors)), *enumerate(weighed)])}
    made = [replace(schedule, seed=seed) for schedule in made]
    return sorted(made, key=lambda schedule: (order.index(schedule.scheduler), places[schedule.predictor]))


def worth_weighing(predictor: str | Predictor) -> bool:
    """Tell whether ``predictor`` is no learner of points.

    Either it tells a distribution, or it learns nothing in the simulator.
    """
    source = as_predictor(predictor)
    return not isinstance(source, CompiledPredictor) or tells_quantiles(source.code)


def never_outlived(predictor: str) -> bool:
    """Tell whether no job runs longer than ``predictor`` says.

    These are the request, the runtime itself, and multiples of at least one of them.
    """
    name, _, factor = predictor.partition("*")
    return name in ("requested", "clairvoyant") and float(factor or 1) >= 1


def recorded_schedule(clean: CleanTrace) -> list[Schedule]:
    """Return the schedule the site recorded, or nothing where it recorded no waits."""
    if clean.jobs["wait_s"].isna().any():
        return []
    return [recorded(clean.jobs, clean.procs, trace=clean.name, generated=clean.generated)]


_SETTINGS = (
    *("scheduler", "predictor", "correction", "semantics", "starvation_s", "seed", "shake_s"),
    *("clamped_predictions", "simulate_s"),
)


def pack_schedules(schedules: Sequence[Schedule]) -> tuple[pd.DataFrame, list[dict[str, object]]]:
    """Return schedules of one trace as a single table, and the settings of each."""
    tables = []
    for number, schedule in enumerate(schedules):
        rows = schedule.jobs[["job_id", "start_s", "predicted_s", "corrections"]].copy()
        rows.insert(0, "schedule", np.int32(number))
        tables.append(rows)
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame({"schedule": [], "job_id": []})
    return table, [{name: getattr(schedule, name) for name in _SETTINGS} for schedule in schedules]


def unpack_schedules(clean: CleanTrace, table: pd.DataFrame, settings: Sequence[dict[str, object]]) -> list[Schedule]:
    """Invert :func:`pack_schedules`, with the jobs of ``clean``."""
    schedules = []
    for number, made in enumerate(settings):
        rows = table[table["schedule"] == number]
        jobs = schedule_table(
            clean.jobs, rows["start_s"].to_numpy(), rows["predicted_s"].to_numpy(), rows["corrections"].to_numpy()
        )
        schedules.append(Schedule(jobs=jobs, procs=clean.procs, trace=clean.name, generated=clean.generated, **made))  # type: ignore[arg-type]
    return schedules
