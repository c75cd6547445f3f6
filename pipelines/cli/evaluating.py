"""Judge predictors on a trace, and print how good their predictions are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
import pandas as pd

from pipelines.cli import note
from pipelines.cli.options import load
from pipelines.cli.progress import stage_bars
from pipelines.cli.simulation import fitted
from pipelines.studies.evaluation import as_records, evaluate_predictors
from pipelines.studies.questions import Protocol
from sim.campaigns.campaign import check_policies
from sim.campaigns.quality import STAGES
from sim.settings import Campaign

if TYPE_CHECKING:
    from features.jobs.cleaning import CleanTrace
    from pipelines.studies.evaluation import Evaluation
    from sim.campaigns.quality import Quality


def judge_predictors(protocol: Protocol, as_json: bool) -> None:
    """Judge the predictors of ``protocol``; print their figures."""
    workload = load(protocol)
    check_names(workload, protocol)
    predictors = tuple(fitted(name, workload) for name in protocol.predictors)
    with stage_bars() as bars:
        evaluation = evaluate_predictors(workload, protocol.model_copy(update={"predictors": predictors}), bars)
    for text in said_of(workload, evaluation):
        note(f"{workload.name}: {text}")
    if as_json:
        for record in as_records(evaluation):
            click.echo(json.dumps(record))
    else:
        for quality in evaluation.qualities:
            print_quality(quality, workload, evaluation, protocol.levels)


def check_names(workload: CleanTrace, protocol: Protocol) -> None:
    """Raise InputError for an unknown scheduler or predictor before any work."""
    from models.runtime.names import predictor as named_predictor
    from pipelines.readers.people_tables import PREFIX

    check_policies(workload.jobs, Campaign(schedulers=(protocol.scheduler,)), workload.procs)
    for name in protocol.predictors:
        if not name.startswith(("registry:", PREFIX)):
            named_predictor(name)


def said_of(workload: CleanTrace, evaluation: Evaluation) -> list[str]:
    """Return sentences on figures that the trace does not allow."""
    sentences = []
    unknown = int(workload.jobs["user"].isna().sum())
    if unknown == len(workload.jobs):
        sentences.append("names no users, so there are no figures by experience, and predictors by user have no history")
    elif unknown:
        sentences.append(f"{unknown:,} jobs name no user and are in no stage of experience")
    if any(schedule.predictor.startswith("prior") for schedule in evaluation.schedules):
        sentences.append("prior is made of the request alone: as a number it is the request, so its figures are those of requested")
    if evaluation.left_out:
        sentences.append(f"{evaluation.left_out:,} jobs, whose request was taken from their runtime, are simulated and not judged")
    return sentences


def print_quality(quality: Quality, workload: CleanTrace, evaluation: Evaluation, levels: tuple[float, ...]) -> None:
    """Print the figures of one part, one row per predictor."""
    from pipelines.report.table import Table

    part = "" if quality.part == "all" else f" of the {quality.part.replace('-', ' ')}"
    generated = ", a generated workload" if workload.generated else ""
    title = f"{workload.name}: {quality.jobs:,} jobs{part} in {quality.weeks} week{'s' * (quality.weeks != 1)}{generated}"
    stages = STAGES if quality.knows_users else {}
    losses = [f"pinball_{level:g}_s" for level in levels]
    headings = (
        "predictor",
        "accuracy",
        f"against {quality.baseline}",
        *stages.values(),
        "under-predicted",
        "MAE s",
        *(f"pinball {level:g} s" for level in levels),
        "clamped",
    )
    cells = []
    for schedule in evaluation.schedules:
        overall = quality.figures(schedule.predictor)
        accuracy = overall["accuracy"]
        by_stage = [quality.figures(schedule.predictor, "experience", stage)["accuracy"]["value"] for stage in stages]
        cells.append(
            [
                schedule.predictor,
                f"{accuracy['value']:.2%}" + bracketed(accuracy, "low", "high", ".1%"),
                difference(accuracy) if schedule.predictor != quality.baseline else "",
                *("–" if pd.isna(value) else f"{value:.1%}" for value in by_stage),
                f"{overall['underprediction_rate']['value']:.1%}",
                f"{overall['mae_s']['value']:,.0f}",
                *(f"{overall[loss]['value']:,.0f}" for loss in losses),
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
