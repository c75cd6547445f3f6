"""Simulate a trace with each predictor, judge predictions, print how good they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from features.errors import InputError
from features.jobs.cleaning import CleanTrace
from features.jobs.damage import among
from pipelines.cli import note, record
from pipelines.cli.options import load
from pipelines.cli.progress import stage_bars
from pipelines.cli.simulation import check_predictors, fitted
from pipelines.studies.progress import Listener
from pipelines.studies.questions import Protocol
from sim.campaigns.campaign import check_policies, predictor_name
from sim.campaigns.quality import STAGES, Quality, judge
from sim.kernel.scratch import Scratch
from sim.policy import Policy
from sim.schedule import IDENTITY, Schedule
from sim.settings import Campaign
from sim.simulation import seeded, simulate_policy

_FIGURES = ("value", "low", "high", "difference", "difference_low", "difference_high")


@dataclass(frozen=True)
class Evaluation:
    """Each predictor's schedule, in order, and the quality of their predictions.

    ``left_out`` counts jobs that are not judged: their request was taken from their runtime, and predictions are cut at
    the request.
    """

    schedules: list[Schedule]
    quality: Quality
    left_out: int


def evaluate_predictors(workload: CleanTrace, protocol: Protocol, progress: Listener) -> Evaluation:
    """Simulate ``workload`` with each predictor of ``protocol``, and judge the predictors.

    ``progress`` receives a predictor, the jobs that have ended and all jobs. Raises InputError as :func:`sim.simulate` and
    :func:`sim.campaigns.quality.judge`, and if every request was taken from a runtime.
    """
    jobs, leave_out = workload.jobs, _requests_from_runtimes(workload)
    if leave_out.all():
        raise InputError(
            f"{workload.name}: every request was taken from the job's runtime, which no prediction exceeds: there is nothing to judge "
            "predictions by"
        )
    schedules: list[Schedule] = []
    named: dict[str, Any] = {name: getattr(workload, name) for name in ("procs", "generated", "clock")}
    named |= {"trace": workload.name, "scratch": Scratch()}
    for source in protocol.predictors:
        learner: Any = seeded(source, protocol.seed)
        policy, tell = Policy(protocol.scheduler, learner), partial(progress, predictor_name(source))
        schedules.append(replace(simulate_policy(jobs, policy, progress=tell, **named), seed=protocol.seed))
    quality = judge(jobs, schedules, baseline=protocol.baseline, levels=protocol.levels, leave_out=leave_out)
    return Evaluation(schedules, quality, int(leave_out.sum()))


def _requests_from_runtimes(workload: CleanTrace) -> np.ndarray:
    """Return which jobs have their runtime as request, bool [jobs]."""
    altered = workload.rejected_jobs
    taken = altered[altered["rule"] == "request-from-runtime"]
    same = workload.jobs["requested_s"].to_numpy() == workload.jobs["runtime_s"].to_numpy()
    return among(workload.jobs, taken) & same


def judge_predictors(protocol: Protocol, as_json: bool) -> None:
    """Judge the predictors of ``protocol``; print their figures."""
    workload = load(protocol)
    check_policies(workload.jobs, Campaign(schedulers=(protocol.scheduler,)), workload.procs)
    check_predictors(protocol.predictors)
    predictors = tuple(fitted(name, workload) for name in protocol.predictors)
    with stage_bars() as bars:
        evaluation = evaluate_predictors(workload, protocol.model_copy(update={"predictors": predictors}), bars)
    for text in said_of(workload, evaluation):
        note(f"{workload.name}: {text}")
    if not as_json:
        print_quality(evaluation, workload, protocol.levels)
        return
    for fields in as_records(evaluation):
        record(fields)


def said_of(workload: CleanTrace, evaluation: Evaluation) -> list[str]:
    """Return sentences on figures that the trace does not allow."""
    sentences = []
    if unknown := int(workload.jobs["user"].isna().sum()):
        sentences.append(f"{unknown:,} of {len(workload.jobs):,} jobs name no user and are in no stage of experience")
    if evaluation.left_out:
        sentences.append(f"{evaluation.left_out:,} jobs, whose request was taken from their runtime, are simulated and not judged")
    return sentences


def as_records(evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    """Yield one record per predictor.

    It has identity, and the measures over all jobs, each with ``_low``, ``_high`` and ``_difference`` to the baseline.
    """
    quality = evaluation.quality
    for schedule in evaluation.schedules:
        figures = quality.figures(schedule.predictor)
        first = next(iter(figures.values()))
        fields = {name: getattr(schedule, name) for name in IDENTITY if name != "tau_s"}
        fields |= {"baseline": quality.baseline, "left_out_jobs": evaluation.left_out}
        fields |= {"clamped_predictions": int(schedule.clamped_predictions), "simulate_s": float(schedule.simulate_s)}
        fields |= {name: first[name] for name in ("jobs", "weeks", "note")}
        for measure, row in figures.items():
            fields |= {measure + ("" if name == "value" else f"_{name}"): row[name] for name in _FIGURES}
        yield fields


def print_quality(evaluation: Evaluation, workload: CleanTrace, levels: tuple[float, ...]) -> None:
    """Print the figures, one row per predictor."""
    from pipelines.report.table import Table

    quality = evaluation.quality
    generated = ", a generated workload" if workload.generated else ""
    title = f"{workload.name}: {quality.jobs:,} jobs in {quality.weeks} week{'s' * (quality.weeks != 1)}{generated}"
    stages = STAGES if quality.knows_users else {}
    headings = ("predictor", "accuracy", f"against {quality.baseline}", *stages.values(), "under-predicted", "MAE s")
    headings += (*(f"pinball {level:g} s" for level in levels), "clamped")
    cells = []
    for schedule in evaluation.schedules:
        overall = quality.figures(schedule.predictor)
        accuracy = overall["accuracy"]
        by_stage = [quality.figures(schedule.predictor, "experience", stage)["accuracy"]["value"] for stage in stages]
        seconds = [overall[name]["value"] for name in ("mae_s", *(f"pinball_{level:g}_s" for level in levels))]
        cells.append(
            [
                schedule.predictor,
                f"{accuracy['value']:.2%}" + bracketed(accuracy, "low", "high", ".1%"),
                difference(accuracy) if schedule.predictor != quality.baseline else "",
                *("–" if pd.isna(value) else f"{value:.1%}" for value in by_stage),
                f"{overall['underprediction_rate']['value']:.1%}",
                *(f"{value:,.0f}" for value in seconds),
                f"{schedule.clamped_predictions:,}",
            ]
        )
    remark = quality.figures(quality.baseline)["accuracy"]["note"]
    caption = f"accuracy: mean of min(p/r, r/p); {remark or f'brackets: {quality.confidence:.0%} intervals over weeks'}"
    if stages:
        caption += "; by stage of the user's experience: accuracy"
    Table(title, headings, cells, caption).show()


def bracketed(row: Mapping[Any, Any], low: str, high: str, form: str) -> str:
    """Format an interval in brackets, or ""."""
    return "" if pd.isna(row[low]) else f" [{row[low]:{form}}, {row[high]:{form}}]"


def difference(row: Mapping[Any, Any]) -> str:
    """Format a difference of shares in percentage points, with its interval."""
    points = {name: 100 * row[name] for name in ("difference", "difference_low", "difference_high")}
    return f"{points['difference']:+.1f}" + bracketed(points, "difference_low", "difference_high", "+.1f")
