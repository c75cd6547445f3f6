"""What the stages of the pipeline compute, as functions from tables to tables: the assets around them read, call one and write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.cleaning import CleanTrace
from features.clock import WEEK_S, local_clock_s
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
COMPARED = ("requested", "last2", "lightgbm", "quantile", "clairvoyant")
"""Simulated by default."""


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
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Schedule]:
    """Every scheduler with every predictor on a cleaned trace."""
    asked = Campaign(tuple(schedulers), tuple(predictors), seeds=(seed,))
    return campaign_schedules(clean.jobs, asked, procs=clean.procs, trace=clean.name, generated=clean.generated, progress=progress)


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


def register_predictors(
    clean: CleanTrace, known: History, predictions: pd.DataFrame, store: Tracking, run_id: str, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Register last2 and the boosted trees as ``runtime-<trace>``, both as they stand after the last job of the trace has ended.

    They are judged by their walk-forward ``predictions`` of the last weeks (:func:`models.registration.judged_jobs`). Returns the
    registered versions, ``model version method alias accuracy judged_jobs why``, and what the champion, loaded back from the registry,
    says of the last submissions (``predicted_s``) beside what it says in this process (``expected_s``, null for a champion of before).
    """
    from features.schema import fingerprint
    from features.snapshot import snapshot
    from models.evaluation import accuracy, evaluate_predictions
    from models.gradient_boosting import GradientBoosting, predict
    from models.packed.snapshot_inputs import inputs_from_snapshot
    from models.registration import Training, judged_jobs, log_and_register, promote
    from models.walk_forward import final_model
    from pipelines.registry import predict_registered, submissions

    jobs = clean.jobs
    submit, runtime = jobs["submit_s"].to_numpy(np.int64), jobs["runtime_s"].to_numpy(np.float64)
    judged = judged_jobs((submit - submit[0]) // WEEK_S)
    at = int((known.start_s + jobs["runtime_s"].to_numpy(np.int64)).max())
    config = GradientBoosting(seed=seed)
    training = Training(
        trace=clean.name,
        fingerprint=fingerprint(jobs),
        jobs=len(jobs),
        window_s=(int(submit[0]), at),
        snapshot=snapshot(jobs, known.start_s, at),
        snapshot_s=at,
        origin_unix_s=clean.origin_unix_s,
        timezone=clean.timezone,
        generated=clean.generated,
        seed=seed,
    )
    trees = final_model(jobs, model_inputs(jobs, known.table), config)
    candidates = []
    for method, booster, parameters in (("last2", None, {}), ("lightgbm", trees, vars(config))):
        seconds = predictions[method].to_numpy(np.float64)
        metrics = {str(name): float(value) for name, value in evaluate_predictions(seconds, runtime).items()}
        score = (float(accuracy(seconds[judged], runtime[judged]).mean()), int(judged.sum()))
        tags = {"dagster_run_id": run_id, "history_starts": known.source}
        candidates.append(
            log_and_register(store, method, training, metrics, score, booster=booster, parameters=parameters, tags=tags)
        )
    champion, challenger = promote(store, clean.name, candidates)
    name = f"runtime-{clean.name}"
    aliases = {champion: "champion", challenger: "challenger"}
    registered = pd.DataFrame(
        [
            {
                "model": name,
                "version": int(each.version),
                "method": each.method,
                "alias": aliases.get(each.version, ""),
                "accuracy": each.accuracy,
                "judged_jobs": each.judged_jobs,
                "why": store.client.get_model_version(name, each.version).description or "",
            }
            for each in candidates
        ]
    )
    last = submissions(clean).tail(20).reset_index(drop=True)
    local = last["submit_time"].to_numpy("datetime64[s]").astype(np.int64)
    asked = last.assign(submit_s=submit[-len(last) :], local_s=local)
    inputs = inputs_from_snapshot(asked, training.snapshot)
    expected = {
        "last2": last2_table(inputs["mean_last2_runtime_s"].to_numpy(), last["requested_s"].to_numpy(np.float64)),
        "lightgbm": predict(trees, inputs),
    }
    crowned = next((each.method for each in candidates if each.version == champion), None)
    said = predict_registered(name, last)["predicted_s"]
    return registered, last.assign(predicted_s=said, expected_s=expected[crowned] if crowned else np.nan)
