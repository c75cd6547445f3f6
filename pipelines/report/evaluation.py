"""The page of an evaluation of predictions: a picture, and tables by predictor."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipelines.report import evaluation_plots
from pipelines.report.page import MOST_ROWS, Front, Picture, data_uri, render
from pipelines.report.sharpness_tables import compared, coverage, difference, scores, windows
from pipelines.report.table import Cell, Row, Table
from pipelines.report.wording import kind_of_jobs
from pipelines.workflows.evaluation import Evaluation
from sim.metrics.formats import number, sentence
from sim.metrics.verdict import is_bound
from sim.predictions.quality import STAGES, Quality

_LEVELS = (0.05, 0.2, 0.5, 0.8, 0.9, 0.95)
"""Levels whose losses the table shows."""


def render_evaluation(evaluation: Evaluation, provenance: Mapping[str, object], notes: Sequence[str] = (), data: str = "") -> str:
    """Return the page of an evaluation; reads no files.

    ``evaluation`` comes from :func:`pipelines.workflows.evaluation.evaluate_predictors`, and ``data`` is the file beside the page
    that holds its table; ``provenance`` and ``notes`` are printed in their order.
    """
    first = evaluation.schedules[0]
    predictors = [schedule.predictor for schedule in evaluation.schedules]
    whole, *others = evaluation.qualities
    shown = _first(whole, predictors)
    parts = [_part(quality, evaluation, shown) for quality in evaluation.qualities]
    front = Front(
        title=f"{first.trace}: how good the predictions are",
        answer=[text if not others else f"{part['title']}: {text}" for part in parts for text in part["sentences"]][:3],
        table=parts[0]["predictors"],
        hint=f"{parts[0]['title']}: {whole.jobs:,} jobs judged, submitted in {whole.weeks} week{'s' * (whole.weeks != 1)}. Each is given a runtime at "
        f"its submission, in a simulation under {first.scheduler}, with only what had ended there by then. Below each value: its "
        f"{100 * whole.confidence:g} % interval over weeks, then the difference to {whole.baseline} on "
        "the same jobs (percentage points or seconds), coloured where its interval leaves out 0."
        + (f" {sentence(remark)}" if (remark := whole.figures(whole.baseline)["accuracy"]["note"]) else ""),
        picture=parts[0]["picture"],
        data=data,
        generated="evaluation" if first.generated else "",
        facts=[
            (f"{len(first.jobs):,}", f"jobs{kind_of_jobs(first.generated)}"),
            (f"{first.procs:,}", "processors"),
            (f"{first.jobs['user'].nunique():,}", "users"),
            (f"{len(predictors):,}", "predictors"),
        ],
        notes=list(map(sentence, notes)),
        provenance=provenance,
    )
    confidence = f"{100 * whole.confidence:g}"
    return render("evaluation.html.j2", front, parts=parts, baseline=whole.baseline, confidence=confidence)


def _first(quality: Quality, predictors: Sequence[str]) -> list[str]:
    """Return the predictors that are read first: baseline, requests, most accurate, bound."""
    accurate = sorted(predictors, key=lambda name: -quality.figures(name)["accuracy"]["value"])
    bound = [name for name in predictors if is_bound(name)][:1]
    requests = [name for name in predictors if name == "requested"]  # what a site has
    able = [name for name in dict.fromkeys([quality.baseline, *requests, *accurate]) if not is_bound(name)]
    return able[: MOST_ROWS - len(bound)] + bound


def _part(quality: Quality, evaluation: Evaluation, shown: Sequence[str]) -> dict[str, Any]:
    """Return one part: its title, sentences, tables of the predictors ``shown``, and figures."""
    generated, baseline = evaluation.schedules[0].generated, quality.baseline
    title = "The whole trace" if quality.part == "all" else f"The {quality.part.replace('-', ' ')} of the jobs"
    able = [name for name in shown if not is_bound(name)] or shown
    with_quantiles = [name for name in shown if not quality.calibration.empty and (quality.calibration["predictor"] == name).any()]
    distributions = [
        {
            "predictor": name,
            "image": data_uri(evaluation_plots.calibration(quality, name, generated)),
            "coverage": coverage(quality, name),
        }
        for name in with_quantiles
    ]
    overall = data_uri(evaluation_plots.overall(quality, able, generated))
    return {
        "title": title,
        "sentences": _sentences(quality, [schedule.predictor for schedule in evaluation.schedules]),
        "picture": Picture("", overall, f"{title}. Lines are {100 * quality.confidence:g} % intervals; {baseline} is in bold."),
        "predictors": _predictors(quality, evaluation, shown),
        "losses": _losses(quality, evaluation, shown),
        "stages": _stages(quality, shown),
        "distributions": distributions,
        "sharpness": {"scores": scores(quality, _LEVELS), "windows": windows(quality)} if distributions else None,
    }


def _predictors(quality: Quality, evaluation: Evaluation, shown: Sequence[str]) -> Table:
    """Return accuracy, errors and cost of a prediction, one row per predictor."""
    rows: list[Row] = []
    for name in shown:
        overall, cost, baseline = quality.figures(name), evaluation.costs[name], name == quality.baseline
        rows.append(
            [
                Cell(name, (("a bound: knows the runtimes", ""),) if is_bound(name) else ()),
                compared(overall["accuracy"], "share", False, baseline),
                compared(overall["underprediction_rate"], "share", None, baseline),
                compared(overall["mae_s"], "seconds", True, baseline),
                "–" if cost is None else f"{cost.microseconds:.2f}" if cost.microseconds >= 0.01 else "< 0.01",
            ]
        )
    headings = ["predictor", "accuracy", "under-predicted", "mean absolute error, s", "cost a job, µs"]
    return Table("Predictions", headings, rows, classes=_classes(quality, shown))


def _losses(quality: Quality, evaluation: Evaluation, shown: Sequence[str]) -> Table:
    """Return losses, clamped predictions and retraining's share of cost, a row per predictor."""
    levels = [name for name in quality.figures(quality.baseline) if name.startswith("pinball_")]
    clamped = {schedule.predictor: schedule.clamped_predictions for schedule in evaluation.schedules}
    rows: list[Row] = []
    for name in shown:
        cost, figures = evaluation.costs[name], quality.figures(name)
        share = "" if cost is None or not cost.retraining_share else f"{cost.retraining_share:.0%}"
        losses = [compared(figures[level], "seconds", True, name == quality.baseline) for level in levels]
        rows.append([name, *losses, f"{clamped[name]:,}", share])
    headings = [f"quantile loss at {name.removeprefix('pinball_').removesuffix('_s')}, s" for name in levels]
    return Table("Losses", ["predictor", *headings, "clamped", "of the cost retraining"], rows, classes=_classes(quality, shown))


def _stages(quality: Quality, predictors: Sequence[str]) -> Table | None:
    """Return accuracy by stage of experience, one row per predictor; None without users."""
    if not quality.knows_users:
        return None
    rows: list[Row] = []
    for name in predictors:
        figures = [quality.figures(name, "experience", stage).get("accuracy") for stage in STAGES]
        cells = [
            compared(row, "share", False, name == quality.baseline, [f"{row['jobs']:,} jobs"]) for row in figures if row is not None
        ]
        rows.append([name, *cells])
    return Table("Accuracy by experience", ["predictor", *STAGES.values()], rows, classes=_classes(quality, predictors))


def _classes(quality: Quality, predictors: Sequence[str]) -> list[str]:
    return ["baseline" if name == quality.baseline else "bound" if is_bound(name) else "" for name in predictors]


def _sentences(quality: Quality, predictors: Sequence[str]) -> list[str]:
    """Return a sentence on the most accurate predictor, its lead and the interval."""
    able = [name for name in predictors if not is_bound(name)]
    if not able:
        return []
    rows = {name: quality.figures(name)["accuracy"] for name in able}
    best = max(able, key=lambda name: rows[name]["value"])
    row = rows[best]
    text = f"The most accurate is {best}: {number(row['value'], 'share')}"
    if best == quality.baseline:
        return [text + ", the baseline."]
    chosen = (
        "" if pd.isna(row["low"]) else f"; the interval is of this one comparison, not corrected for the choice among {len(able)}"
    )
    return [f"{text}, against {quality.baseline} {difference(row, 'share')} percentage points{chosen}."]
