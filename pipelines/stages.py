"""What the stages of the pipeline compute, as functions from tables to tables: the assets around them read, call one and write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.cleaning import CleanTrace
from features.clock import local_clock_s
from features.history import history
from features.inputs import model_inputs
from models.last2 import last2_table
from models.protocol import Predictor, TablePredictor
from models.tracking import Tracking
from sim.campaign import run_campaign
from sim.schedule import Schedule, recorded, schedule_table
from sim.starts import history_starts

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
"""Compared by default, from the simplest to the bound."""


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


def simulator_predictors(names: Sequence[str], predictions: pd.DataFrame) -> list[str | Predictor]:
    """Predictors for the simulator: a fitted one brings its table of ``predictions``, all others learn or know during the run."""

    def table(name: str) -> TablePredictor:
        seconds = predictions[name].to_numpy()
        return TablePredictor(name, lambda jobs: seconds)

    return [table(name) if name == "lightgbm" else name for name in names]


def campaign(
    clean: CleanTrace,
    predictions: pd.DataFrame,
    schedulers: Sequence[str],
    predictors: Sequence[str],
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Schedule]:
    """Every scheduler with every predictor on a cleaned trace."""
    return run_campaign(
        clean.jobs,
        procs=clean.procs,
        schedulers=schedulers,
        predictors=simulator_predictors(predictors, predictions),
        trace=clean.name,
        generated=clean.generated,
        seed=seed,
        progress=progress,
    )


def recorded_schedule(clean: CleanTrace) -> list[Schedule]:
    """The schedule the site recorded, or nothing where it recorded no waits."""
    if clean.jobs["wait_s"].isna().any():
        return []
    return [recorded(clean.jobs, clean.procs, trace=clean.name, generated=clean.generated)]


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


VALIDATION_JOBS = 1000
"""Fewest jobs on which candidates are compared, where there are as many."""


def register_predictors(
    clean: CleanTrace, known: History, predictions: pd.DataFrame, place: Tracking, run_id: str, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Register last2 and the boosted trees as ``runtime-<trace>``, both as they stand after the last job of the trace.

    They are compared on the last quarter of the trace (at least ``VALIDATION_JOBS``), by their walk-forward ``predictions``. Returns the
    registered versions, best first, and what the champion, loaded back from the registry, says of the last submissions.
    """
    from features.schema import fingerprint
    from features.snapshot import snapshot
    from models.evaluation import accuracy, evaluate_predictions
    from models.gradient_boosting import GradientBoosting
    from models.registration import Candidate, Lineage, register
    from models.walk_forward import final_model
    from pipelines.provenance import code_version
    from pipelines.registry import predict_registered, submissions

    jobs = clean.jobs
    runtime = jobs["runtime_s"].to_numpy(np.float64)
    judged = slice(-min(len(jobs), max(VALIDATION_JOBS, len(jobs) // 4)), None)
    end = known.start_s + jobs["runtime_s"].to_numpy(np.int64)
    at = int(end.max())
    config = GradientBoosting(seed=seed)
    booster = final_model(jobs, model_inputs(jobs, known.table), config)
    candidates = []
    for method, trees, parameters in (("last2", None, {}), ("lightgbm", booster, vars(config))):
        seconds = predictions[method].to_numpy(np.float64)
        candidates.append(
            Candidate(
                method=method,
                accuracy=float(accuracy(seconds[judged], runtime[judged]).mean()),
                metrics={str(key): float(value) for key, value in evaluate_predictions(seconds, runtime).items()},
                parameters=parameters,
                booster=trees,
            )
        )
    raw = submissions(clean)
    window = raw["submit_time"].iloc[[0, -1]].dt.strftime("%Y-%m-%d %H:%M:%S").tolist()
    lineage = Lineage(
        trace=clean.name,
        generated=clean.generated,
        fingerprint=fingerprint(jobs),
        training_window=" to ".join(window),
        jobs=len(jobs),
        validation_jobs=len(runtime[judged]),
        code_version=code_version(),
        dagster_run=run_id,
        history=known.source,
    )
    last = raw.tail(20).reset_index(drop=True)
    registered = register(
        candidates,
        lineage,
        snapshot(jobs, known.start_s, at),
        last.head(2),
        experiment=place.connect(),
        at_s=at,
        origin_unix_s=clean.origin_unix_s or 0,
        timezone=clean.timezone if clean.origin_unix_s is not None else None,
    )
    answers = predict_registered(f"{registered['model'].iloc[0]}@champion", last)
    return registered, last.assign(predicted_s=answers["predicted_s"])


def fitted_predictor(name: str, clean: CleanTrace) -> TablePredictor:
    """A predictor that needs a history or a registered model, as a table for the trace ``clean``."""
    if name.startswith("registry:"):
        from pipelines.registry import registered_predictor

        return registered_predictor(name.removeprefix("registry:"), clean)
    known = user_history(clean)
    end = known.start_s + clean.jobs["runtime_s"].to_numpy(np.int64)
    seconds = walk_forward_predictions(clean, known.table, end).table[name].to_numpy()
    return TablePredictor(name, lambda jobs: seconds)
