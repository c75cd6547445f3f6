"""Simulate the registered model as served, beside learners in the simulator.

A run replays the trace under the same schedulers and corrections, and is judged on the jobs submitted from its date on.
Before the date, learners in the simulator learn. A night replays the last days, with the answers that the champions of
those nights served.

As served, each job is answered from the snapshot of the night before its submission. The version is loaded back from
the registry. Its learned part stays; its snapshot is made anew each midnight from the jobs that had ended by then.
Before the date there was no such model: there the request answers, so it begins from the baseline's state, and no job
is judged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from models.packed.methods import LEVELS, PREDICTED, Method, Requested
from models.registry.as_served import CHAMPION, quantile_columns, serve
from models.registry.candidates import TRAINERS, Accounting
from models.registry.registration import trained_number, unrecorded
from models.registry.runtime_registration import RUNTIME, trained_method
from models.registry.tracking import Tracking
from models.runtime.protocol import Predictor, TablePredictor
from pipelines.lake.registry import PREFIX, quantile_table, registered_predictor, replaced
from pipelines.lake.tables import read_features
from pipelines.readers.read import simulated_on
from pipelines.report.table import takes_correction
from pipelines.studies.progress import progress_reporter
from pipelines.training import judge
from pipelines.training.compare import keep_schedules
from pipelines.training.policy import policy_schedules
from pipelines.training.run_settings import PRIOR, RunSettings, shaken
from pipelines.training.work import Cutoff, Work, cutoff_of, date_of, midnights
from sim.campaigns.campaign import campaign_schedules, policies, predictor_name
from sim.schedule import Schedule
from sim.settings import Campaign
from sim.simulation import in_order, moved_by_seed


@dataclass(frozen=True)
class ServedModel:
    """A version whose answers are simulated, by its number of the training.

    ``predictor`` is it in the simulator, if it was asked for.
    """

    model: str
    version: str
    method: str
    learned_until_s: int
    trained: Method
    predictor: TablePredictor | None = None


def served_model(name: str, version: str, store: Tracking) -> ServedModel:
    """Read the method of a ``version`` of ``name``; raise InputError if it cannot be read."""
    registered = store.client.get_model_version(name, version)
    if missing := unrecorded(registered.tags, RUNTIME):
        raise InputError(f"models:/{name}/{version}: has no readable tag {missing}, so it cannot be simulated as served")
    trained = trained_number(store, registered)
    method = trained_method(store, name.removeprefix("runtime-"), trained)
    learned = int(registered.tags["training_window_s"].split("..")[1])
    return ServedModel(name, trained, method.name, learned, method)


def simulated_model(
    name: str,
    version: str,
    clean: CleanTrace,
    records: Accounting,
    date: Cutoff,
    store: Tracking,
    *,
    shown: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> ServedModel:
    """Return a ``version`` of ``name`` as it would have served submissions from ``date`` on.

    Tables call it ``shown``. Raises InputError if it cannot be loaded, or if it learned after ``date``.
    """
    served = served_model(name, version, store)
    if served.learned_until_s > date.until_s:
        raise InputError(
            f"{shown or name}: has learned from jobs up to {date_of(clean, served.learned_until_s)}, and jobs from {date_of(clean, date.until_s)} on are "
            "simulated, so it would predict jobs that it was trained on"
        )
    rows = date.judged(records.jobs["submit_s"].to_numpy(np.int64))
    answers = serve(served.trained, records, rows, midnights(clean, date.until_s), progress)
    request = clean.jobs["requested_s"].to_numpy(np.float64)
    seconds = replaced(request, rows, answers[PREDICTED])
    quantiles = quantile_table(request, rows, {level: answers[output] for output, level in LEVELS.items() if output in answers})
    predictor = TablePredictor(shown or f"{PREFIX}{name}", lambda _: seconds, quantiles=lambda _: quantiles)
    return replace(served, predictor=predictor)


LAST_DAYS = RunSettings(schedulers=("EASY", "EASY-SJBF", "Harm"), predictors=("requested",), corrections=("requested",))
"""Settings of a night's simulations of the last days, beside the champion."""


@dataclass(frozen=True)
class Simulated:
    """The schedules of a run or night, and the registered ``model`` in them, called ``shown``.

    ``quality`` is the table ``prediction_quality``.
    """

    date: Cutoff
    schedules: list[Schedule]
    quality: pd.DataFrame
    model: ServedModel
    shown: str


def simulate(work: Work, clean: CleanTrace, settings: RunSettings = LAST_DAYS) -> Simulated:
    """Simulate by ``settings`` with the registered model, and keep the schedules.

    A night simulates by :data:`LAST_DAYS`, whatever the settings of its run are.

    Writes ``schedules`` and ``prediction_quality``. ``registry:NAME[@ALIAS]`` may be among the predictors: such a model
    answers from its own snapshot. Raises InputError for a model that has learned from jobs submitted from the date on.
    """
    lake, store, name = work.lake, work.store, work.subject
    records = read_features(lake, clean)
    _, marks = lake.read_for(clean, "runtime_model")
    date, version = cutoff_of(marks), marks["simulated"]
    if date.follows:
        shown = f"{PREFIX}{name}"
        report = progress_reporter("serve the registered model")
        model = simulated_model(name, version, clean, records, date, store, shown=shown, progress=report)
        assert model.predictor is not None
        place = lake.root.parent
        sources: list[str | Predictor] = [
            registered_predictor(text, clean, date.until_s, store, place) if text.startswith(PREFIX) else text
            for text in dict.fromkeys(settings.predictors)
            if text != shown
        ]
        sources.insert(len(sources) - (sources[-1:] == ["clairvoyant"]), model.predictor)  # clairvoyant, a bound, comes last
        facts = {"version": model.version, "method": model.method, "learned_until_s": model.learned_until_s}
        rows = np.flatnonzero(clean.jobs["submit_s"] >= (date.first_s or 0))
        sources = [source if isinstance(source, str) else in_order(source, clean.jobs, rows) for source in sources]
        beside = policy_schedules(lake, clean, store, settings.seed, settings.replicates, date.first_s or 0)
    else:
        settings, shown, model = LAST_DAYS, CHAMPION, served_model(name, version, store)
        served, method = lake.read("served", clean.name)[0], marks["night"]["row"]["method"]
        rows = date.judged(records.jobs["submit_s"].to_numpy(np.int64))
        answers = champion_answers(served, method or next(iter(TRAINERS))).iloc[judge.rows_served(records, rows, served)]
        sources = ["requested", judge.answers_table(CHAMPION, answers)] if len(rows) else []
        facts, beside = {"version": version, "method": method}, []
    schedules = campaign(
        date.replayed(clean),
        settings.schedulers,
        sources,
        settings.corrections,
        settings.seed,
        progress_reporter("simulate"),
        settings.replicates,
    )
    schedules += beside
    quality = keep_schedules(lake, clean, schedules, date, {**facts, "why": marks["why"]})
    return Simulated(date, schedules, quality, model, shown)


def champion_answers(served: pd.DataFrame, stand_in: str) -> pd.DataFrame:
    """Return the champion's answers as the table of a predictor.

    Rows are in the order of ``served``. Jobs without an answer get that of the method ``stand_in``, or their request if
    ``served`` has no such column. If some jobs have quantiles, jobs without quantiles get their point estimate at every
    level.
    """
    stand_in = stand_in if stand_in in served else Requested.name
    absent, levels = served[CHAMPION].isna(), quantile_columns(stand_in)
    answers = pd.DataFrame({PREDICTED: served[CHAMPION].where(~absent, served[stand_in])})
    for level, column in quantile_columns(CHAMPION).items():
        answers[level] = served[column].where(~absent, served[levels[level]] if level in levels else np.nan)
    if answers.drop(columns=PREDICTED).isna().all(axis=None):
        return answers[[PREDICTED]]
    return answers.apply(lambda column: column.fillna(answers[PREDICTED]))


def campaign(
    clean: CleanTrace,
    schedulers: Sequence[str],
    predictors: Sequence[str | Predictor],
    corrections: Sequence[str] = ("requested",),
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    replicates: int = 1,
) -> list[Schedule]:
    """Simulate every scheduler with every predictor and correction.

    Corrections apply if jobs can outlive the predictions and the scheduler takes corrections. Other schedulers take
    ``PRIOR`` in place of requests. Schedules are in the order of ``schedulers``, then predictors, then corrections;
    ``replicates`` follow each other, shaken by the seeds from ``seed`` on.
    """
    outlived = [predictor for predictor in predictors if not never_outlived(predictor_name(predictor))]
    correcting, one = [name for name in schedulers if takes_correction(name)], ("requested",)
    spread = [PRIOR if predictor == "requested" else predictor for predictor in predictors]
    weighed = {predictor_name(predictor): predictor for predictor in spread}  # each once
    groups: list[tuple[list[str], list[str | Predictor], tuple[str, ...]]] = [
        (correcting, [predictor for predictor in predictors if predictor not in outlived], one),
        (correcting, outlived, tuple(corrections)),
        ([name for name in schedulers if name not in correcting], list(weighed.values()), one),
    ]
    parts = []
    for by, group, fixes in groups:
        if by and group:
            # a seed is refused if nothing depends on it; the schedules of such a run still record it
            seeds = (seed if any(moved_by_seed(predictor, 0, by) for predictor in group) else 0,)
            replays: dict[str, Any] = {"seeds": seeds} | shaken(seed, replicates)
            parts.append(Campaign(schedulers=tuple(by), predictors=tuple(group), corrections=fixes, **replays))
    total = sum(len(policies(part)) for part in parts)
    schedules: list[Schedule] = []
    for part in parts:
        before = len(schedules)
        schedules += campaign_schedules(
            clean.jobs,
            part,
            **simulated_on(clean),
            progress=(lambda done, _, before=before: progress(before + done, total)) if progress else None,  # type: ignore[misc]
        )
    places = {name: place for place, name in reversed([*enumerate(map(predictor_name, predictors)), *enumerate(weighed)])}
    schedules = [schedule if schedule.shake_s else replace(schedule, seed=seed) for schedule in schedules]
    return sorted(schedules, key=lambda schedule: (schedulers.index(schedule.scheduler), places[schedule.predictor]))


def never_outlived(predictor: str) -> bool:
    """Tell whether no job runs longer than ``predictor`` predicts.

    This holds for the request, the runtime itself, and multiples of them by a factor of at least 1.
    """
    name, _, factor = predictor.partition("*")
    return name in ("requested", "clairvoyant") and float(factor or 1) >= 1
