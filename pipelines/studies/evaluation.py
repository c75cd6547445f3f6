"""The work of ``queuecast evaluate``: simulate predictors, judge them, make records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from features.clock import local_clock_s
from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.identity import among
from models.runtime.evaluation import accuracy
from pipelines.studies.progress import Listener
from pipelines.studies.protocol import Protocol
from sim.campaigns.campaign import predictor_name
from sim.kernel.scratch import Scratch
from sim.policy import Policy
from sim.predictions.cost import Cost, prediction_cost
from sim.predictions.quality import MONTH_S, Quality, judge
from sim.predictions.sharpness import REFERENCES
from sim.replays import seeded
from sim.schedule import IDENTITY, Schedule
from sim.simulation import simulate_policy

KIND = "evaluation"
"""The kind of Parquet file that holds the figures."""
BY_CHANCE, WITH_FEEDBACK = "band of 99 % by chance", "band of 99 % by chance, with the update's feedback"
_FIGURES = ("value", "low", "high", "difference", "difference_low", "difference_high")


@dataclass(frozen=True)
class Evaluation:
    """A ``Quality`` for each part, and each predictor's schedule and cost, in order.

    Costs are None if they are not measured. ``left_out`` counts jobs that are not judged: their request was taken from their
    runtime, and predictions are cut at the request. ``interrupted`` tells that Ctrl-C left out the last predictors.
    """

    schedules: list[Schedule]
    qualities: list[Quality]
    costs: dict[str, Cost | None]
    left_out: int
    interrupted: bool = False


def evaluate_predictors(
    workload: CleanTrace,
    protocol: Protocol,
    *,
    done: Callable[[Schedule, float], None] | None = None,
    progress: Listener = lambda predictor, ended, jobs: None,
) -> Evaluation:
    """Simulate ``workload`` with each predictor of ``protocol``, and judge the predictors.

    ``done`` receives each schedule, and the mean accuracy of its predictions; ``progress`` a predictor, the jobs that have ended
    and all jobs. An interruption ends the simulations, and those that are done are judged. Raises InputError as :func:`sim.simulate` and
    :func:`sim.predictions.quality.judge`, and if every request was taken from a runtime.
    """
    jobs = workload.jobs
    leave_out = _requests_from_runtimes(workload)
    if leave_out.all():
        raise InputError(
            f"{workload.name}: every request was taken from the job's runtime, which no prediction exceeds: there is nothing to judge predictions by"
        )
    schedules: list[Schedule] = []
    costs: dict[str, Cost | None] = {}
    named: dict[str, Any] = {name: getattr(workload, name) for name in ("procs", "generated", "clock")}
    named |= {"trace": workload.name, "scratch": Scratch()}
    interrupted = False
    for source in protocol.predictors:
        learner: Any = seeded(source, protocol.seed)
        try:
            policy, tell = Policy(protocol.scheduler, learner), partial(progress, predictor_name(source))
            schedule = simulate_policy(jobs, policy, progress=tell, **named)
            costs[schedule.predictor] = prediction_cost(jobs, schedule, source, protocol.repeats, workload.clock)
        except KeyboardInterrupt:
            if not schedules or protocol.baseline not in (None, *costs):
                raise
            interrupted = True
            break
        schedules.append(replace(schedule, seed=protocol.seed))
        if done is not None:
            judged = schedule.jobs.loc[~leave_out, ["predicted_s", "runtime_s"]].to_numpy(np.float64)
            done(schedule, float(accuracy(judged[:, 0], judged[:, 1]).mean()))
    local = local_clock_s(jobs["submit_s"].to_numpy(np.int64), workload.origin_unix_s, workload.timezone)
    judging: dict[str, Any] = {
        "baseline": protocol.baseline,
        "levels": protocol.levels,
        "leave_out": leave_out,
        "seed": protocol.seed,
    }
    qualities = [judge(jobs, schedules, local, part=part, **judging) for part in protocol.parts]
    return Evaluation(schedules, qualities, costs, int(leave_out.sum()), interrupted)


def _requests_from_runtimes(workload: CleanTrace) -> np.ndarray:
    """Return which jobs have their runtime as request, bool [jobs]."""
    altered = workload.rejected_jobs
    taken = altered[altered["rule"] == "request-from-runtime"]
    same = workload.jobs["requested_s"].to_numpy() == workload.jobs["runtime_s"].to_numpy()
    return among(workload.jobs, taken) & same


def as_records(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return one record per part and predictor, in plain Python values for JSON.

    It has identity, cost, and the measures over all jobs, each with ``_low``, ``_high`` and ``_difference`` to the baseline;
    ``crps_s`` scores the predictor as a distribution. Missing values are None. :func:`as_table` has groups, levels and references, too.
    """
    records = []
    for quality in evaluation.qualities:
        scores = quality.sharpness.scores.set_index("predictor")
        for schedule in evaluation.schedules:
            measures = quality.measures
            rows = measures[(measures["predictor"] == schedule.predictor) & (measures["by"] == "all")]
            first, score = rows.iloc[0], scores.loc[schedule.predictor]
            record = _identity(evaluation, quality, schedule)
            record |= {"jobs": first["jobs"], "weeks": first["weeks"], "note": first["note"]}
            for row in rows.to_dict("records"):
                record |= {row["measure"] + ("" if name == "value" else f"_{name}"): row[name] for name in _FIGURES}
            record |= {"crps_s": score["crps_s"], "crps_s_low": score["low"], "crps_s_high": score["high"]}
            records.append({key: _plain(value) for key, value in record.items()})
    return records


def as_table(evaluation: Evaluation) -> pd.DataFrame:
    """Return every figure in one tidy table: one row per part, predictor, group, measure.

    The columns are the identity, and those of ``Quality.measures``. Calibration is ``by`` ``level``, the share ``at_most`` and
    the losses; coverage is ``by`` ``level, all``, ``level, request`` and ``level, width``. The under-prediction rate of a level
    in 30 days is ``by`` ``level, month``, and there ``low`` and ``high`` are the band that the ``note`` names. References are
    predictors with a name in brackets.
    """
    tables = []
    for quality in evaluation.qualities:
        for schedule in evaluation.schedules:
            identity = _identity(evaluation, quality, schedule)
            parts: list[pd.DataFrame] = [
                quality.measures[quality.measures["predictor"] == schedule.predictor],
                *_calibration_rows(quality, schedule.predictor),
                *_scored_rows(quality, schedule.predictor),
            ]
            tables.append(_identified(identity, pd.concat(parts, ignore_index=True)))
        first = next((schedule for schedule in evaluation.schedules if schedule.quantiles is not None), None)
        for name in REFERENCES:
            if first is None:
                break
            identity = _identity(evaluation, quality, first) | {"microseconds": None, "retraining_share": None}
            tables.append(_identified(identity, pd.concat(_scored_rows(quality, name), ignore_index=True)))
    table = pd.concat(tables, ignore_index=True)
    return table.astype({"starvation_s": "Int64", **dict.fromkeys(("begin", *_FIGURES), "float64")})


def _identified(identity: dict[str, Any], rows: pd.DataFrame) -> pd.DataFrame:
    own = [name for name in identity if name not in rows]
    front = pd.DataFrame({name: [identity[name]] * len(rows) for name in own})
    return pd.concat([front, rows], axis=1)


def _identity(evaluation: Evaluation, quality: Quality, schedule: Schedule) -> dict[str, Any]:
    cost = evaluation.costs[schedule.predictor]
    return {
        **{name: getattr(schedule, name) for name in IDENTITY if name != "tau_s"},
        "part": quality.part,
        "baseline": quality.baseline,
        "left_out_jobs": evaluation.left_out,
        "clamped_predictions": int(schedule.clamped_predictions),
        "simulate_s": float(schedule.simulate_s),
        "microseconds": cost.microseconds if cost else None,
        "retraining_share": cost.retraining_share if cost else None,
    }


def _scored_rows(quality: Quality, predictor: str) -> list[pd.DataFrame]:
    """Return the scores as a distribution in the columns of ``Quality.measures``."""
    sharpness = quality.sharpness
    same: dict[str, Any] = {"jobs": quality.jobs, "weeks": quality.weeks, "note": ""}
    score = sharpness.scores[sharpness.scores["predictor"] == predictor]
    tables = [
        pd.DataFrame({"predictor": predictor, "by": "all", "group": "all", "measure": "crps_s", "value": score["crps_s"]}).assign(
            low=score["low"], high=score["high"], **same
        )
    ]
    if predictor not in set(quality.calibration.get("predictor", ())):
        rows = sharpness.losses[sharpness.losses["predictor"] == predictor]
        tables.append(
            _by_level(rows, "level", rows["level"], predictor).assign(measure="pinball_s", value=rows["pinball_s"], **same)
        )
    if sharpness.coverage.empty:
        return tables
    rows = sharpness.coverage[sharpness.coverage["predictor"] == predictor]
    for measure in ("at_most", "below", "work_at_most", "work_below"):
        table = _by_level(rows, "level, " + rows["by"], rows["begin"], predictor)
        tables.append(table.assign(measure=measure, value=rows[measure], jobs=rows["jobs"], note=""))
    windows = sharpness.windows[sharpness.windows["predictor"] == predictor]
    for prefix, note in (("", BY_CHANCE), ("feedback_", WITH_FEEDBACK)):
        banded = windows[windows[f"{prefix}low"].notna()]
        band = _by_level(banded, "level, month", banded["month"] * MONTH_S, predictor)
        band = band.assign(measure="underprediction_rate", jobs=banded["jobs"], note=note)
        tables.append(band.assign(value=banded["rate"], low=banded[f"{prefix}low"], high=banded[f"{prefix}high"]))
    return tables


def _by_level(rows: pd.DataFrame, by: str | pd.Series, begin: pd.Series, predictor: str) -> pd.DataFrame:
    group = rows["level"].map("{:g}".format)
    return pd.DataFrame({"predictor": predictor, "by": by, "group": group, "begin": begin.astype(float)}, index=rows.index)


def _calibration_rows(quality: Quality, predictor: str) -> list[pd.DataFrame]:
    """Return calibration in the columns of ``Quality.measures``."""
    if quality.calibration.empty:
        return []
    curve = quality.calibration[quality.calibration["predictor"] == predictor]
    tables = []
    for measure in ("at_most", "below", "above", "pinball_s"):
        rows = pd.DataFrame(
            {"predictor": predictor, "by": "level", "group": curve["level"].map("{:g}".format), "begin": curve["level"]}
        )
        rows = rows.assign(measure=measure, jobs=quality.jobs, weeks=quality.weeks, value=curve[measure], note="")
        if measure == "at_most":
            rows = rows.assign(low=curve["at_most_low"], high=curve["at_most_high"])
        tables.append(rows)
    return tables


def _plain(value: Any) -> Any:
    """Return a value for JSON: no numpy types, and None for a float that is not finite."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
