"""What the stages of the pipeline compute, as functions from tables to tables: the assets around them read, call one and write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.cleaning import CleanTrace
from features.clock import DAY_S, local_clock_s
from features.history import history
from features.inputs import model_inputs
from models.last2 import last2_table
from sim.campaign import Campaign, campaign_schedules
from sim.schedule import Schedule, recorded, schedule_table
from sim.starts import history_starts

if TYPE_CHECKING:
    from models.tracking import Tracking

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class History:
    """What was known of its user at each job's submission, and by which starts: ``source`` says whether they were recorded or simulated."""

    table: pd.DataFrame
    start_s: np.ndarray
    source: str


def user_history(clean: CleanTrace) -> History:
    """The history features of a cleaned trace; ``table`` has one row a job, in order of submission."""
    start, source = history_starts(clean.jobs, clean.procs)
    return History(
        history(clean.jobs, start, local_clock_s(clean.jobs["submit_s"].to_numpy(), clean.origin_unix_s, clean.timezone)),
        start,
        source,
    )


@dataclass(frozen=True)
class Predictions:
    """Runtime predictions of a whole trace made walk-forward: ``table`` has ``job_id``, one column in seconds a predictor, and ``lightgbm_model``, the number
    of the model that predicted the job (-1 where there was none yet); ``trained`` has one row a model."""

    table: pd.DataFrame
    trained: pd.DataFrame
    fallback_jobs: int


PREDICTORS = ("requested", "last2", "lightgbm", "clairvoyant")
"""Columns of the table of predictions, from the simplest to the bound."""
SCHEDULERS = ("EASY", "EASY-SJBF", "EASY-SRF")
COMPARED = ("requested", "last2", "lightgbm", "quantile", "clairvoyant")
CORRECTIONS = ("conditional(when=pass)",)
"""Simulated by default: every learned predictor under one correction, so that predictors are compared and not corrections."""


def walk_forward_predictions(
    clean: CleanTrace, known: pd.DataFrame, end_s: np.ndarray, seed: int = 0, progress: Progress | None = None
) -> Predictions:
    """Predict each job by what was known at its submission; ``known`` is the history table, ``end_s`` the ends it goes by, int64 [jobs]."""
    from models.gradient_boosting import GradientBoosting
    from models.walk_forward import walk_forward

    requested = clean.jobs["requested_s"].to_numpy(np.float64)
    walked = walk_forward(clean.jobs, model_inputs(clean.jobs, known), end_s, config=GradientBoosting(seed=seed), progress=progress)
    table = pd.DataFrame(
        {
            "job_id": clean.jobs["job_id"].to_numpy(),
            "requested": requested,
            "last2": last2_table(known["mean_last2_runtime_s"].to_numpy(), requested),
            "lightgbm": walked.predicted_s,
            "clairvoyant": clean.jobs["runtime_s"].to_numpy(np.float64),
            "lightgbm_model": walked.model,
        }
    )
    return Predictions(table, walked.models, walked.fallback_jobs)


def prediction_metrics(clean: CleanTrace, predictions: pd.DataFrame, completed_jobs: np.ndarray) -> pd.DataFrame:
    """Measures of each predictor by the user's experience: ``predictor experience jobs accuracy underprediction_rate mae_s pinball_...``."""
    from models.evaluation import evaluate_by_experience

    runtime = clean.jobs["runtime_s"].to_numpy(np.float64)
    tables = []
    for name in PREDICTORS:
        rows = evaluate_by_experience(predictions[name].to_numpy(), runtime, completed_jobs, quantiles=(0.5, 0.8)).reset_index()
        rows.insert(0, "predictor", name)
        tables.append(rows)
    return pd.concat(tables, ignore_index=True)


def campaign(
    clean: CleanTrace,
    schedulers: Sequence[str],
    predictors: Sequence[str],
    corrections: Sequence[str] = ("requested",),
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Schedule]:
    """Simulate every scheduler with every predictor, and with every correction where jobs can outlive the predictor's predictions.

    Schedules come scheduler by scheduler, and in the order of predictors and corrections within one.
    """
    told = [name for name in predictors if not never_outlived(name)]
    parts = [
        Campaign(tuple(schedulers), tuple(names), fixes, seeds=(seed,))
        for names, fixes in (([name for name in predictors if name not in told], ("requested",)), (told, tuple(corrections)))
        if names
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
            progress=(lambda done, _, before=before: progress(before + done, total)) if progress else None,  # type: ignore[misc]
        )
    places = {name: place for place, name in enumerate(predictors)}
    return sorted(made, key=lambda schedule: (list(schedulers).index(schedule.scheduler), places[schedule.predictor]))


def never_outlived(predictor: str) -> bool:
    """Whether no job runs longer than it says: the request, the runtime itself, and multiples of at least one of them."""
    name, _, factor = predictor.partition("*")
    return name in ("requested", "clairvoyant") and float(factor or 1) >= 1


def recorded_schedule(clean: CleanTrace) -> list[Schedule]:
    """The schedule the site recorded, or nothing where it recorded no waits."""
    if clean.jobs["wait_s"].isna().any():
        return []
    return [recorded(clean.jobs, clean.procs, trace=clean.name, generated=clean.generated)]


_STRAGGLERS = 7
"""Days before the judged window in which jobs may have been submitted that ended within it; the few that waited and ran longer do not judge."""
_SETTINGS = ("scheduler", "predictor", "correction", "semantics", "starvation_s", "seed", "clamped_predictions", "simulate_s")


def pack_schedules(schedules: Sequence[Schedule]) -> tuple[pd.DataFrame, list[dict[str, object]]]:
    """Schedules of one trace as a single table of what the simulator decided, and how each was made."""
    tables = []
    for number, schedule in enumerate(schedules):
        rows = schedule.jobs[["job_id", "start_s", "predicted_s", "corrections"]].copy()
        rows.insert(0, "schedule", np.int32(number))
        tables.append(rows)
    return pd.concat(tables, ignore_index=True), [{name: getattr(schedule, name) for name in _SETTINGS} for schedule in schedules]


def unpack_schedules(clean: CleanTrace, table: pd.DataFrame, settings: Sequence[dict[str, object]]) -> list[Schedule]:
    """The inverse of :func:`pack_schedules`, with the jobs of ``clean``."""
    schedules = []
    for number, made in enumerate(settings):
        rows = table[table["schedule"] == number]
        jobs = schedule_table(
            clean.jobs, rows["start_s"].to_numpy(), rows["predicted_s"].to_numpy(), rows["corrections"].to_numpy()
        )
        schedules.append(Schedule(jobs=jobs, procs=clean.procs, trace=clean.name, generated=clean.generated, **made))  # type: ignore[arg-type]
    return schedules


def register_predictors(
    clean: CleanTrace, known: History, predictions: pd.DataFrame, store: Tracking, run_id: str, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train the candidates of ``runtime-<trace>`` on all its jobs, register and judge them as served (:mod:`pipelines.retraining`), and move the aliases.

    Metrics of the whole trace's walk-forward ``predictions``, which go by histories up to the second, are logged beside those as served. Returns the
    registered versions, ``model version method alias accuracy judged_jobs why``, and what the champion, loaded back from the registry,
    says of the last submissions (``predicted_s``) beside what it says in this process (``expected_s``, null for a champion chosen by hand).
    """
    from models.accounting import Accounting
    from models.evaluation import evaluate_predictions
    from models.packed.methods import PREDICTED
    from models.promotion import JUDGED_DAYS
    from models.registration import crown
    from models.served import predict_served
    from models.trainers import TRAINERS, carried_on
    from pipelines.registry import predict_registered, submissions
    from pipelines.retraining import incumbent, retrain, served_by

    jobs = clean.jobs
    submit, runtime = jobs["submit_s"].to_numpy(np.int64), jobs["runtime_s"].to_numpy(np.float64)
    accounting = Accounting(jobs, known.start_s, model_inputs(jobs, known.table), clean.origin_unix_s, clean.timezone)
    present = incumbent(store, clean.name)
    instants = [accounting.until_s - DAY_S * number for number in range(JUDGED_DAYS + _STRAGGLERS, 0, -1)]
    rows = np.flatnonzero(submit >= instants[0])
    served = predict_served(accounting, rows, instants, champion=served_by(present, submit), seed=seed)
    made = retrain(
        clean,
        accounting,
        served,
        present,
        store,
        seed=seed,
        tags={"dagster_run_id": run_id, "history_starts": known.source},
        metrics={
            name: {
                str(key): float(value)
                for key, value in evaluate_predictions(predictions[name].to_numpy(np.float64), runtime).items()
            }
            for name in TRAINERS
            if name in predictions
        },
    )
    crown(store, clean.name, made.champion, made.challenger)
    last = submissions(clean).tail(20).reset_index(drop=True)
    said = predict_registered(f"runtime-{clean.name}", last)[PREDICTED]
    method = made.trained[made.method] if made.promoted else present.method if present else None
    if method is None:
        return made.registered, last.assign(predicted_s=said, expected_s=np.nan)
    rows, until = np.arange(len(jobs) - len(last), len(jobs)), accounting.until_s
    expected = carried_on(method, accounting, until).answer(accounting.served_inputs(rows, until), accounting.asked(rows))
    return made.registered, last.assign(predicted_s=said, expected_s=expected[PREDICTED])
