"""What the stages of the pipeline compute, as functions from tables to tables: the assets around them read, call one and write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.jobs.cleaning import CleanTrace
from features.jobs.history import history
from features.jobs.inputs import model_inputs
from features.jobs.schema import recorded_end_s
from models.runtime.last2 import last2_table
from models.runtime.names import takes_seed
from sim.campaigns.campaign import Campaign, campaign_schedules
from sim.history_starts import history_starts
from sim.schedule import Schedule, recorded, schedule_table

if TYPE_CHECKING:
    from models.registry.accounting import Accounting
    from models.registry.tracking import Tracking
    from pipelines.workflows.retraining import Incumbent, Retrained

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
    local = local_clock_s(clean.jobs["submit_s"].to_numpy(), clean.origin_unix_s, clean.timezone)
    return History(history(clean.jobs, start, local, recorded_end_s(clean.jobs, start)), start, source)


@dataclass(frozen=True)
class Predictions:
    """Runtime predictions of a whole trace made walk-forward: ``table`` has ``job_id``, one column in seconds a predictor, and ``week_model``, the number of
    the model of the ``lightgbm-users`` that predicted the job (-1 where there was none yet); ``trained`` has one row a model."""

    table: pd.DataFrame
    trained: pd.DataFrame
    fallback_jobs: int


BY_USERS = "lightgbm-users"
"""The learner over users' histories that runs and nights register; the simulator's ``lightgbm`` goes by groups of jobs that are alike."""
IN_EASY = ("lightgbm", "quantile", "quantile(order=accuracy)")
"""Predictors that learn from event to event: what they say of each job at its submission in EASY's schedule."""
PREDICTORS = ("requested", "last2", BY_USERS, *IN_EASY, "clairvoyant")
"""Columns of the table of predictions, from the simplest to the bound; a name means what it means in the simulator and in the registry."""
SCHEDULERS = ("EASY", "EASY-SJBF", "EASY-SRF")
COMPARED = ("requested", "last2", "lightgbm", "quantile", "clairvoyant")
CORRECTIONS = ("conditional(when=pass)",)
"""Simulated by default: every learned predictor under one correction, so that predictors are compared and not corrections."""


def walk_forward_predictions(
    clean: CleanTrace, known: pd.DataFrame, end_s: np.ndarray, seed: int = 0, progress: Progress | None = None
) -> Predictions:
    """Predict each job by what was known at its submission; ``known`` is the history table, ``end_s`` the ends it goes by, int64 [jobs].

    ``IN_EASY`` learn inside a simulation of EASY, as they do where schedules are compared.
    """
    from models.registry.walk_forward import walk_forward
    from models.runtime.gradient_boosting import GradientBoosting

    requested = clean.jobs["requested_s"].to_numpy(np.float64)
    walked = walk_forward(clean.jobs, model_inputs(clean.jobs, known), end_s, config=GradientBoosting(seed=seed), progress=progress)
    table = pd.DataFrame(
        {
            "job_id": clean.jobs["job_id"].to_numpy(),
            "requested": requested,
            "last2": last2_table(known["mean_last2_runtime_s"].to_numpy(), requested),
            BY_USERS: walked.predicted_s,
            **{
                schedule.predictor: schedule.jobs["predicted_s"].to_numpy(np.float64)
                for schedule in campaign(clean, ("EASY",), IN_EASY, CORRECTIONS)
            },
            "clairvoyant": clean.jobs["runtime_s"].to_numpy(np.float64),
            "week_model": walked.model,
        }
    )
    return Predictions(table, walked.models, walked.fallback_jobs)


def prediction_metrics(clean: CleanTrace, predictions: pd.DataFrame, completed_jobs: np.ndarray) -> pd.DataFrame:
    """Measures of each predictor by the user's experience: ``predictor experience jobs accuracy underprediction_rate mae_s pinball_...``."""
    from models.runtime.evaluation import evaluate_by_experience

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
    # a seed is refused where nothing learns by it; the schedules of such a run bear it all the same
    parts = [
        Campaign(tuple(schedulers), tuple(names), fixes, seeds=(seed if any(map(takes_seed, names)) else 0,))
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
            clock=clean.clock,
            progress=(lambda done, _, before=before: progress(before + done, total)) if progress else None,  # type: ignore[misc]
        )
    places = {name: place for place, name in enumerate(predictors)}
    made = [replace(schedule, seed=seed) for schedule in made]
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


_SETTINGS = (
    *("scheduler", "predictor", "correction", "semantics", "starvation_s", "seed", "shake_s"),
    *("clamped_predictions", "simulate_s"),
)


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


@dataclass(frozen=True)
class Registered:
    """What a run left in the registry.

    ``versions`` are the new ones or, where there was ``nothing_new``, those that serve: ``model version method alias accuracy judged_jobs why``. ``answers``
    is what the champion, loaded back from the registry, says of the last submissions (``predicted_s``) beside what it says in this process
    (``expected_s``, null for a champion chosen by hand). ``models`` are the versions to be champion and challenger once the run is published.
    """

    versions: pd.DataFrame
    answers: pd.DataFrame
    nothing_new: bool
    models: Mapping[str, str]


def register_predictors(
    clean: CleanTrace, known: History, predictions: pd.DataFrame, store: Tracking, home: Path, run_id: str, seed: int = 0
) -> Registered:
    """Train the candidates of ``runtime-<trace>`` on all its jobs, register and judge them as served
    (:mod:`pipelines.workflows.retraining`); no alias moves.

    Metrics of the whole trace's walk-forward ``predictions``, which go by histories up to the second, are logged beside those as served. Registers nothing
    over unchanged jobs and code, and leaves nothing in the registry if it fails. Nights of the trace in ``home`` wait, and are waited for. Raises InputError
    where one takes too long, and for a version that does not answer when it is loaded back.
    """
    from models.packed.methods import PREDICTED
    from models.registry.accounting import Accounting
    from models.registry.candidates import carried_on
    from models.registry.runtime_registration import ask, load
    from models.registry.versions import aliases, all_or_nothing
    from pipelines.storage.lake import Lake
    from pipelines.storage.publishing import RUN_WAITS_S, alone, finish
    from pipelines.storage.registry import submissions
    from pipelines.workflows.nothing_new import serving
    from pipelines.workflows.retraining import MEASURES, incumbent, versions_of_before

    jobs, name = clean.jobs, f"runtime-{clean.name}"
    accounting = Accounting(jobs, known.start_s, model_inputs(jobs, known.table), clean.origin_unix_s, clean.timezone)
    last = submissions(clean).tail(20).reset_index(drop=True)
    with alone(home, clean.name, RUN_WAITS_S):
        finish(Lake(home / "lake"), store, name)
        present = incumbent(store, clean.name)
        method = present.method if present else None
        before = versions_of_before(store, clean, accounting, present, seed)
        if before:
            versions, models = serving(store, name, before, MEASURES), aliases(store, name)
        else:
            with all_or_nothing(store):
                made = _retrained(clean, known, accounting, predictions, present, store, run_id, seed)
            models = {"champion": made.champion, "challenger": made.challenger}
            method = made.trained[made.method] if made.promoted else method
            versions = made.registered
        said = ask(load(store, name, models["champion"]), last)[PREDICTED]
    if method is None:
        return Registered(versions, last.assign(predicted_s=said, expected_s=np.nan), bool(before), models)
    rows, until = np.arange(len(jobs) - len(last), len(jobs)), accounting.until_s
    expected = carried_on(method, accounting, until).answer(accounting.served_inputs(rows, until), accounting.asked(rows))
    return Registered(versions, last.assign(predicted_s=said, expected_s=expected[PREDICTED]), bool(before), models)


def _retrained(
    clean: CleanTrace,
    known: History,
    accounting: Accounting,
    predictions: pd.DataFrame,
    present: Incumbent | None,
    store: Tracking,
    run_id: str,
    seed: int,
) -> Retrained:
    """One retraining (:func:`pipelines.workflows.retraining.retrain`), the last weeks predicted as they would have been served."""
    from models.registry.as_served import predict_served
    from models.registry.candidates import TRAINERS
    from models.registry.judged_window import judged_window
    from models.runtime.evaluation import evaluate_predictions
    from pipelines.workflows.judging import judging_instants
    from pipelines.workflows.night_schedules import against_the_champion
    from pipelines.workflows.retraining import retrain, served_by

    submit, runtime = (clean.jobs[name].to_numpy(np.int64) for name in ("submit_s", "runtime_s"))
    trained_until_s = present.trained_until_s if present is not None and present.method is not None else None
    instants = judging_instants(judged_window(submit, accounting.end_s), trained_until_s)
    rows = np.flatnonzero(submit >= instants[0])
    served = predict_served(accounting, rows, instants, names=tuple(TRAINERS), champion=served_by(present, submit), seed=seed)
    up_to_second = {
        name: evaluate_predictions(predictions[name].to_numpy(np.float64), runtime.astype(np.float64))
        for name in TRAINERS
        if name in predictions
    }
    return retrain(
        clean,
        accounting,
        served,
        present,
        store,
        seed=seed,
        schedules=against_the_champion(clean, accounting, served, present.trained_until_s if present else 0, seed=seed),
        tags={"dagster_run_id": run_id, "history_starts": known.source},
        metrics={name: {str(key): float(value) for key, value in found.items()} for name, found in up_to_second.items()},
    )
