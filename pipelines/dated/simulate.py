"""Simulate a run: the registered model as served, beside learners in the simulator.

All are judged on the same jobs. Every policy replays the whole trace under the same schedulers and corrections, and is judged on
what was submitted from the run's date on. Before it the learners in the simulator learn; for the registered model the request
answers, so that it begins from the state in which the baseline is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.jobs.cleaning import CleanTrace
from features.statistics import CONFIDENCE
from models.packed.methods import LEVELS
from models.registry.accounting import Accounting
from models.registry.as_served import CHAMPION
from models.registry.tracking import Tracking
from models.registry.versions import aliases
from models.runtime.protocol import Predictor
from pipelines.dated.dated import Split, date_of
from pipelines.dated.served import SimulatedModel, simulated_model
from pipelines.dated.stages import PRIOR, campaign, pack_schedules, recorded_schedule, unpack_schedules
from pipelines.storage.lake import Lake
from pipelines.storage.registry import PREFIX, Ask, registered_name, registered_predictor
from pipelines.workflows.progress import progress_reporter
from sim.metrics.comparison import compare
from sim.predictions.quality import judge
from sim.schedule import Schedule

JUDGED_LEVELS = (0.5, 0.8)
"""Levels of the quantile losses that predictions are judged by."""


@dataclass(frozen=True)
class RunSchedules:
    """The schedules of a run, of the whole trace.

    ``model`` is the registered one that the run is about, ``others`` those asked for by name.
    """

    schedules: list[Schedule]
    model: SimulatedModel
    others: tuple[SimulatedModel, ...]


def run_schedules(
    clean: CleanTrace,
    known: Accounting,
    date: Split,
    version: str,
    store: Tracking,
    *,
    schedulers: Sequence[str],
    predictors: Sequence[str],
    corrections: Sequence[str],
    weighing: Sequence[str] = (),
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    ask: Ask | None = None,
) -> RunSchedules:
    """Simulate ``schedulers`` with ``predictors`` and with the registered ``version``.

    ``weighing`` as :func:`pipelines.dated.stages.campaign`. The version is of ``runtime-<trace>`` and answers from ``date`` on.
    ``registry:NAME[@ALIAS]`` may be among the predictors: a version of this trace's model is served night by night, another's model answers from the
    one snapshot that it brings, by ``ask``. Raises InputError for a model that has learned from jobs submitted from the date on and is not asked for as seen.
    """
    name = f"runtime-{clean.name}"
    named = aliases(store, name)
    shown = f"{PREFIX}{name}"
    model = simulated_model(
        name, version, clean, known, date, store, shown=shown, progress=progress_reporter("serve the registered model")
    )
    sources: list[str | Predictor] = []
    others: list[SimulatedModel] = []
    for text in dict.fromkeys(predictors):
        if not text.startswith(PREFIX):
            sources.append(text)
        elif text != shown:
            asked = registered_name(text)
            if asked.name == name and asked.alias in named:
                others.append(simulated_model(name, named[asked.alias], clean, known, date, store, shown=text, seen=asked.seen))
                sources.append(others[-1].predictor)
            else:
                sources.append(registered_predictor(text, clean, date.at_s, ask))
    place = len(sources) - (sources[-1:] == ["clairvoyant"])  # the bound comes last
    sources.insert(place, model.predictor)
    made = campaign(clean, schedulers, sources, corrections, seed, progress, weighing)
    return RunSchedules(made, model, tuple(others))


def keep_schedules(
    lake: Lake,
    clean: CleanTrace,
    made: Sequence[Schedule],
    date: Split,
    model: Mapping[str, Any],
    *,
    first_s: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Write ``schedules`` of the jobs submitted from ``first_s`` on, judged from ``date`` on.

    By default of all jobs.
    ``model`` says which registered version was simulated. Writes ``prediction_quality``, too, and returns it.
    """
    table, settings = pack_schedules(made)
    replayed = submitted_from(clean, first_s)
    quality = prediction_quality(replayed, made, date, seed) if made else pd.DataFrame({"predictor": [], "by": [], "measure": []})
    marks = {"until_s": date.at_s, "until_note": date.note, "first_s": first_s, "model": dict(model)}
    lake.write_for(clean, "schedules", table, {"schedules": settings, **marks})
    lake.write_for(clean, "prediction_quality", quality, marks)
    return quality


def kept_schedules(lake: Lake, clean: CleanTrace) -> list[Schedule]:
    """Return the schedules that the lake keeps of ``clean``, of all jobs they replayed."""
    table, marks = lake.read_for(clean, "schedules")
    return unpack_schedules(submitted_from(clean, marks["first_s"]), table, marks["schedules"])


def judged_schedules(lake: Lake, clean: CleanTrace) -> tuple[list[Schedule], Split]:
    """Return the judged part of the kept schedules, and the date from which they are judged.

    Beside the whole trace stands the schedule that its site recorded.
    """
    _, marks = lake.read_for(clean, "schedules")
    date, made = Split(marks["until_s"], marks["until_note"]), kept_schedules(lake, clean)
    if made and marks["first_s"] is None:
        # the recorded schedule is compared with the baseline as a replicate of its seed
        made += [replace(schedule, seed=made[0].seed) for schedule in recorded_schedule(clean)]
    return [judged(schedule, date) for schedule in made], date


def keep_comparison(lake: Lake, clean: CleanTrace, confidence: float = CONFIDENCE) -> pd.DataFrame:
    """Compare the judged schedules with EASY on requests; write and return ``comparison``.

    Empty where nothing was submitted that could be compared.
    """
    made, date = judged_schedules(lake, clean)
    table = pd.DataFrame({"scheduler": [], "predictor": [], "correction": [], "metric": [], "value": []})
    if made:
        table = compare(made, confidence=confidence)
    settings = {"confidence": confidence, "procs": clean.procs}
    counts = {"judged_jobs": len(made[0].jobs) if made else 0, "all_jobs": len(clean.jobs)}
    lake.write_for(clean, "comparison", table, {**settings, "since": date_of(clean, date.at_s), **counts})
    return table


def submitted_from(clean: CleanTrace, first_s: int | None) -> CleanTrace:
    """Return the trace with the jobs submitted from ``first_s`` on, by default all."""
    if first_s is None:
        return clean
    return replace(clean, jobs=clean.jobs[clean.jobs["submit_s"] >= first_s].reset_index(drop=True))


def judged(schedule: Schedule, date: Split) -> Schedule:
    """Return the judged part of a schedule: the jobs submitted from ``date`` on."""
    rows = date.after(schedule.jobs["submit_s"].to_numpy(np.int64))
    told = schedule.quantiles
    return replace(
        schedule,
        jobs=schedule.jobs.iloc[rows].reset_index(drop=True),
        quantiles=None if told is None else told.iloc[rows].reset_index(drop=True),
    )


def prediction_quality(clean: CleanTrace, schedules: Sequence[Schedule], date: Split, seed: int = 0) -> pd.DataFrame:
    """Judge what each predictor said in its first schedule, from ``date`` on.

    Of the jobs submitted since. Returns ``Quality.measures`` of :mod:`sim.predictions.quality`. Of predictors that tell quantiles there are rows ``by``
    ``level``, whose measure ``at_most`` is the share of jobs that ran at most as long.
    """
    first: dict[str, Schedule] = {}
    for schedule in schedules:
        first.setdefault(schedule.predictor, schedule)
    submit = clean.jobs["submit_s"].to_numpy(np.int64)
    local = local_clock_s(submit, clean.origin_unix_s, clean.timezone)
    found = judge(clean.jobs, list(first.values()), local, levels=JUDGED_LEVELS, leave_out=submit < date.at_s, seed=seed)
    if found.calibration.empty:
        return found.measures
    curve = found.calibration[found.calibration["level"].isin(LEVELS.values())]
    levels = pd.DataFrame(
        {
            "predictor": curve["predictor"],
            "by": "level",
            "group": curve["level"].map("{:g}".format),
            "begin": curve["level"],
            "measure": "at_most",
            "jobs": found.jobs,
            "weeks": found.weeks,
            "value": curve["at_most"],
            "low": curve["at_most_low"],
            "high": curve["at_most_high"],
            "note": "",
        }
    )
    return pd.concat([found.measures, levels], ignore_index=True)


def kind_of(predictor: str) -> str:
    """Return where a predictor of a run gets its answers, in words."""
    if predictor.startswith(PREFIX):
        return "registered, has seen these jobs" if registered_name(predictor).seen else "registered, as served"
    name = predictor.partition("*")[0]
    known = {
        "": "",
        CHAMPION: "registered, as served",
        "requested": "stated at submission",
        PRIOR: "the request, no model",
        "clairvoyant": "knows the runtime",
    }
    return known.get(name, "learns in the simulator")
