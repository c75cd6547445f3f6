"""Compare kept schedules on the same judged jobs, and judge their predictions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from features.jobs.cleaning import CleanTrace
from features.jobs.workload_changes import moves
from features.statistics import CONFIDENCE
from pipelines.lake.tables import Lake
from pipelines.report.tables import BASELINE
from pipelines.training.work import Cutoff, cutoff_of, date_of
from sim.campaigns.quality import judge
from sim.metrics.comparison import compare
from sim.schedule import Schedule, recorded, schedule_table

JUDGED_LEVELS = (0.5, 0.8)
"""Levels of the quantiles that predictions are judged by."""


def keep_schedules(
    lake: Lake, clean: CleanTrace, schedules: Sequence[Schedule], date: Cutoff, model: Mapping[str, Any]
) -> pd.DataFrame:
    """Write ``schedules`` of the jobs that ``date`` replays.

    ``model`` identifies the simulated version. Also writes ``prediction_quality``, and returns it.
    """
    table, settings = pack_schedules(schedules)
    quality = pd.DataFrame({"predictor": [], "by": [], "measure": []})
    if schedules:
        quality = prediction_quality(date.replayed(clean), schedules, date)
    marks = {**date.marks, "model": dict(model)}
    lake.write_for(clean, "schedules", table, {"schedules": settings, **marks})
    lake.write_for(clean, "prediction_quality", quality, marks)
    return quality


def kept_schedules(lake: Lake, clean: CleanTrace) -> tuple[list[Schedule], Cutoff]:
    """Return the kept schedules of ``clean`` with all replayed jobs, and their date."""
    table, marks = lake.read_for(clean, "schedules")
    date = cutoff_of(marks)
    return unpack_schedules(date.replayed(clean), table, marks["schedules"]), date


def judged_schedules(lake: Lake, clean: CleanTrace) -> tuple[list[Schedule], Cutoff]:
    """Return the judged part of the kept schedules, and their date.

    A run adds the schedule that its site recorded.
    """
    schedules, date = kept_schedules(lake, clean)
    replayed = date.replayed(clean)
    if schedules and date.follows:
        first = schedules[0]
        # the recorded schedule is compared with the baseline as a replicate of its seed
        shaken = moved(replayed, first.shake_s, first.seed)
        schedules += [replace(schedule, seed=first.seed) for schedule in recorded_schedule(shaken)]
    rows = date.judged(replayed.jobs["submit_s"].to_numpy(np.int64))
    return [judged(schedule, rows) for schedule in schedules], date


def keep_comparison(lake: Lake, clean: CleanTrace) -> pd.DataFrame:
    """Compare the judged schedules with EASY on requests; write and return ``comparison``.

    The table is empty if there are no schedules to compare.
    """
    schedules, date = judged_schedules(lake, clean)
    table = pd.DataFrame({"scheduler": [], "predictor": [], "correction": [], "metric": [], "value": []})
    if schedules:
        table = compare(schedules, BASELINE)
    settings = {"confidence": CONFIDENCE, "procs": clean.procs, "compared_with": " / ".join(BASELINE)}
    counts = {"judged_jobs": len(schedules[0].jobs) if schedules else 0, "all_jobs": len(clean.jobs)}
    counts["replayed_jobs"] = len(date.replayed(clean).jobs)
    lake.write_for(clean, "comparison", table, {**settings, "since": date_of(clean, date.simulate_from_s), **counts})
    return table


def judged(schedule: Schedule, rows: np.ndarray) -> Schedule:
    """Return the part of a schedule that is judged: the jobs ``rows``."""
    quantiles = schedule.quantiles
    return replace(
        schedule,
        jobs=schedule.jobs.iloc[rows].reset_index(drop=True),
        quantiles=None if quantiles is None else quantiles.iloc[rows].reset_index(drop=True),
    )


def prediction_quality(clean: CleanTrace, schedules: Sequence[Schedule], date: Cutoff) -> pd.DataFrame:
    """Judge each predictor in its first schedule, on the jobs submitted from ``date`` on.

    Returns ``Quality.measures`` of :mod:`sim.campaigns.quality`.
    """
    first: dict[str, Schedule] = {}
    submit = clean.jobs["submit_s"].to_numpy(np.int64)
    for schedule in schedules:  # the waits of a shaken replay, counted from the recorded submissions
        by_s = schedule.jobs["submit_s"] - submit
        begun = {"submit_s": submit, "start_s": schedule.jobs["start_s"] - by_s, "end_s": schedule.jobs["end_s"] - by_s}
        first.setdefault(schedule.predictor, replace(schedule, jobs=schedule.jobs.assign(**begun)))
    return judge(clean.jobs, list(first.values()), levels=JUDGED_LEVELS, leave_out=submit < date.simulate_from_s).measures


def moved(clean: CleanTrace, shake_s: int, seed: int) -> CleanTrace:
    """Return a trace with the submissions of a shaken replay, in the order of the trace."""
    if not shake_s:
        return clean
    submit = clean.jobs["submit_s"] + moves(len(clean.jobs), shake_s, seed)
    return replace(clean, jobs=clean.jobs.assign(submit_s=submit))


def recorded_schedule(clean: CleanTrace) -> list[Schedule]:
    """Return the schedule that the site recorded; an empty list if a wait is missing."""
    if clean.jobs["wait_s"].isna().any():
        return []
    return [recorded(clean.jobs, clean.procs, trace=clean.name, generated=clean.generated)]


_SETTINGS = (
    *("scheduler", "predictor", "correction", "semantics", "starvation_s", "seed", "shake_s", "machine"),
    *("clamped_predictions", "simulate_s"),
)


KEYS = ("scheduler", "predictor", "correction", "seed")
ROW = ["job_id", "user", "submit_s", "start_s", "end_s", "procs", "predicted_s", "corrections"]


def pack_schedules(schedules: Sequence[Schedule]) -> tuple[pd.DataFrame, list[dict[str, object]]]:
    """Return schedules of the same jobs as one table, and the settings of each.

    Schedules follow one another. Each row names its schedule by ``scheduler predictor correction seed``.
    """
    if not schedules:
        return pd.DataFrame({name: [] for name in (*KEYS, *ROW)}), []
    rows = pd.concat([schedule.jobs[ROW] for schedule in schedules], ignore_index=True)
    of_schedule = np.repeat(np.arange(len(schedules)), [len(schedule.jobs) for schedule in schedules])
    for place, name in enumerate(KEYS):
        codes, values = pd.factorize(np.array([getattr(schedule, name) for schedule in schedules], dtype=object))
        column = pd.Categorical.from_codes(codes[of_schedule], pd.Index(values).astype("int64" if name == "seed" else "str"))
        rows.insert(place, name, pd.Series(column))
    return rows, [{name: getattr(schedule, name) for name in _SETTINGS} for schedule in schedules]


def unpack_schedules(clean: CleanTrace, table: pd.DataFrame, settings: Sequence[dict[str, object]]) -> list[Schedule]:
    """Invert :func:`pack_schedules`, with the jobs of ``clean``."""
    schedules = []
    for number, facts in enumerate(settings):
        rows = table.iloc[number * len(clean.jobs) : (number + 1) * len(clean.jobs)]
        shaken = moved(clean, int(str(facts["shake_s"])), int(str(facts["seed"])))
        jobs = schedule_table(
            shaken.jobs, rows["start_s"].to_numpy(), rows["predicted_s"].to_numpy(), rows["corrections"].to_numpy()
        )
        schedules.append(Schedule(jobs=jobs, procs=clean.procs, trace=clean.name, generated=clean.generated, **facts))  # type: ignore[arg-type]
    return schedules
