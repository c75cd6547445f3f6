"""The work of ``queuecast evaluate``: simulate predictors, judge them, make records."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.damage import among
from pipelines.studies.progress import Listener
from pipelines.studies.questions import Protocol
from sim.campaigns.campaign import predictor_name
from sim.campaigns.quality import Quality, judge
from sim.kernel.scratch import Scratch
from sim.policy import Policy
from sim.replays import seeded
from sim.schedule import IDENTITY, Schedule
from sim.simulation import simulate_policy

_FIGURES = ("value", "low", "high", "difference", "difference_low", "difference_high")


@dataclass(frozen=True)
class Evaluation:
    """A ``Quality`` for each part, and each predictor's schedule, in order.

    ``left_out`` counts jobs that are not judged: their request was taken from their runtime, and predictions are cut at the request.
    """

    schedules: list[Schedule]
    qualities: list[Quality]
    left_out: int


def evaluate_predictors(
    workload: CleanTrace, protocol: Protocol, progress: Listener = lambda predictor, ended, jobs: None
) -> Evaluation:
    """Simulate ``workload`` with each predictor of ``protocol``, and judge the predictors.

    ``progress`` receives a predictor, the jobs that have ended and all jobs. Raises InputError as :func:`sim.simulate` and
    :func:`sim.campaigns.quality.judge`, and if every request was taken from a runtime.
    """
    jobs = workload.jobs
    leave_out = _requests_from_runtimes(workload)
    if leave_out.all():
        raise InputError(
            f"{workload.name}: every request was taken from the job's runtime, which no prediction exceeds: there is nothing to judge predictions by"
        )
    schedules: list[Schedule] = []
    named: dict[str, Any] = {name: getattr(workload, name) for name in ("procs", "generated", "clock")}
    named |= {"trace": workload.name, "scratch": Scratch()}
    for source in protocol.predictors:
        learner: Any = seeded(source, protocol.seed)
        policy, tell = Policy(protocol.scheduler, learner), partial(progress, predictor_name(source))
        schedules.append(replace(simulate_policy(jobs, policy, progress=tell, **named), seed=protocol.seed))
    qualities = [
        judge(jobs, schedules, part=part, baseline=protocol.baseline, levels=protocol.levels, leave_out=leave_out)
        for part in protocol.parts
    ]
    return Evaluation(schedules, qualities, int(leave_out.sum()))


def _requests_from_runtimes(workload: CleanTrace) -> np.ndarray:
    """Return which jobs have their runtime as request, bool [jobs]."""
    altered = workload.rejected_jobs
    taken = altered[altered["rule"] == "request-from-runtime"]
    same = workload.jobs["requested_s"].to_numpy() == workload.jobs["runtime_s"].to_numpy()
    return among(workload.jobs, taken) & same


def as_records(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return one record per part and predictor, in plain Python values for JSON.

    It has identity, and the measures over all jobs, each with ``_low``, ``_high`` and ``_difference`` to the baseline. Missing values
    are None.
    """
    records = []
    for quality in evaluation.qualities:
        for schedule in evaluation.schedules:
            figures = quality.figures(schedule.predictor)
            first = next(iter(figures.values()))
            record = _identity(evaluation, quality, schedule)
            record |= {"jobs": first["jobs"], "weeks": first["weeks"], "note": first["note"]}
            for measure, row in figures.items():
                record |= {measure + ("" if name == "value" else f"_{name}"): row[name] for name in _FIGURES}
            records.append({key: _plain(value) for key, value in record.items()})
    return records


def _identity(evaluation: Evaluation, quality: Quality, schedule: Schedule) -> dict[str, Any]:
    return {
        **{name: getattr(schedule, name) for name in IDENTITY if name != "tau_s"},
        "part": quality.part,
        "baseline": quality.baseline,
        "left_out_jobs": evaluation.left_out,
        "clamped_predictions": int(schedule.clamped_predictions),
        "simulate_s": float(schedule.simulate_s),
    }


def _plain(value: Any) -> Any:
    """Return a value for JSON: no numpy types, and None for a float that is not finite."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
