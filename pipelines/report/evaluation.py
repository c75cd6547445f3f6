"""The page of an evaluation of predictions: tables by predictor, experience, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipelines.report import evaluation_plots, sharpness_plots
from pipelines.report.page import data_uri, stated, template
from pipelines.report.sharpness_tables import compared, coverage, difference, scores, windows
from pipelines.report.style import Look, looks
from pipelines.report.table import Cell, Row, Table
from pipelines.report.wording import kind_of_jobs
from pipelines.workflows.evaluation import Evaluation
from sim.metrics.formats import number, sentence
from sim.predictions.at_once import AT_ONCE
from sim.predictions.quality import STAGES, Quality
from sim.predictions.sharpness import REFERENCES

_CURVES = 6
"""Max predictors drawn as curves; more cannot be told apart."""
_BOUND = "clairvoyant"
_LEVELS = (0.05, 0.2, 0.5, 0.8, 0.9, 0.95)
"""Levels whose losses the table shows."""


def render_evaluation(evaluation: Evaluation, provenance: Mapping[str, object], notes: Sequence[str] = ()) -> str:
    """Return the page, from values alone.

    ``evaluation`` comes from :func:`pipelines.workflows.evaluation.evaluate_predictions`; ``provenance`` and ``notes`` are
    printed in their order.
    """
    first = evaluation.schedules[0]
    predictors = [schedule.predictor for schedule in evaluation.schedules]
    baseline = evaluation.qualities[0].baseline
    drawn = _drawn(evaluation.qualities[0], predictors)
    return template("evaluation.html.j2").render(
        trace=first.trace,
        generated=first.generated,
        scheduler=first.scheduler,
        at_once=first.scheduler == AT_ONCE,
        facts=[
            (f"{len(first.jobs):,}", f"jobs{kind_of_jobs(first.generated)}"),
            (f"{first.procs:,}", "processors"),
            (f"{first.jobs['user'].nunique():,}", "users"),
            (f"{len(predictors):,}", "predictors"),
        ],
        baseline=baseline,
        confidence=f"{100 * evaluation.qualities[0].confidence:g}",
        parts=[_part(quality, evaluation, drawn) for quality in evaluation.qualities],
        not_drawn=[name for name in predictors if name not in drawn],
        notes=list(map(sentence, notes)),
        provenance=stated(provenance),
    )


def _drawn(quality: Quality, predictors: Sequence[str]) -> dict[str, Look]:
    """Return the look of each predictor that has a curve.

    These are the baseline, the requests, and the most accurate of the others.
    """
    accurate = sorted(predictors, key=lambda name: -quality.figures(name)["accuracy"]["value"])
    wanted = [quality.baseline, *(name for name in ("requested",) if name in predictors), *accurate]
    chosen = [name for name in dict.fromkeys(wanted) if name != _BOUND][:_CURVES] or [_BOUND]
    return {name: look for (_, name, _), look in looks(("", name, "") for name in chosen).items()}


def _part(quality: Quality, evaluation: Evaluation, drawn: Mapping[str, Look]) -> dict[str, Any]:
    """Return one part: its title, sentences, table rows and figures."""
    generated = evaluation.schedules[0].generated
    predictors = [schedule.predictor for schedule in evaluation.schedules]
    shown = [name for name in predictors if name != _BOUND] or predictors
    figures: dict[str, Any] = {
        "overall": data_uri(evaluation_plots.overall(quality, shown, drawn, generated)),
        "learning": data_uri(evaluation_plots.learning(quality, drawn, generated)),
        "errors": data_uri(evaluation_plots.errors(quality, shown, generated)),
    }
    if quality.knows_users:
        figures["experience"] = data_uri(evaluation_plots.by_experience(quality, shown, drawn, generated))
    told = [name for name in predictors if not quality.calibration.empty and (quality.calibration["predictor"] == name).any()]
    distributions = [
        {
            "predictor": name,
            "image": data_uri(evaluation_plots.calibration(quality, name, generated)),
            "calibration": _calibration(quality, name),
            "covered": data_uri(sharpness_plots.coverage(quality.sharpness.coverage, name, generated)),
            "coverage": coverage(quality, name),
        }
        for name in told
    ]
    return {
        "title": "The whole trace" if quality.part == "all" else f"The {quality.part.replace('-', ' ')} of the jobs",
        "jobs": f"{quality.jobs:,}",
        "weeks": quality.weeks,
        "sentences": _sentences(quality, predictors),
        "remark": quality.figures(quality.baseline)["accuracy"]["note"],
        "predictors": _predictors(quality, evaluation),
        "stages": _stages(quality, predictors),
        "unseen": [name for name in predictors if name not in shown],
        "knows_users": quality.knows_users,
        "figures": figures,
        "distributions": distributions,
        "sharpness": _sharpness(quality, generated) if distributions else None,
    }


def _predictors(quality: Quality, evaluation: Evaluation) -> Table:
    """Return accuracy, errors and losses, and what a prediction costs, a row a predictor."""
    levels = [name for name in quality.figures(quality.baseline) if name.startswith("pinball_")]
    retraining = any(cost is not None and cost.retraining_share > 0 for cost in evaluation.costs.values())
    rows = []
    for schedule in evaluation.schedules:
        overall, cost = quality.figures(schedule.predictor), evaluation.costs[schedule.predictor]
        baseline = schedule.predictor == quality.baseline
        row: Row = [
            schedule.predictor,
            compared(overall["accuracy"], "share", False, baseline),
            compared(overall["underprediction_rate"], "share", None, baseline),
            *(compared(overall[name], "seconds", True, baseline) for name in ("mae_s", *levels)),
            f"{schedule.clamped_predictions:,}",
            "–" if cost is None else f"{cost.microseconds:.2f}" if cost.microseconds >= 0.01 else "< 0.01",
        ]
        share = "" if cost is None or not cost.retraining_share else f"{cost.retraining_share:.0%}"
        rows.append([*row, share] if retraining else row)
    headings = ["predictor", "accuracy", "under-predicted", "mean absolute error, s"]
    headings += [f"quantile loss at {name.removeprefix('pinball_').removesuffix('_s')}, s" for name in levels]
    headings += ["clamped", "cost a job, µs", *(["of that retraining"] if retraining else [])]
    return Table("Predictions", headings, rows, classes=_classes(quality, [row[0] for row in rows]))


def _stages(quality: Quality, predictors: Sequence[str]) -> Table | None:
    """Return accuracy in each stage of experience, a row a predictor; None without users."""
    if not quality.knows_users:
        return None
    rows: list[Row] = []
    for name in predictors:
        found = [quality.figures(name, "experience", stage).get("accuracy") for stage in STAGES]
        cells = [
            compared(row, "share", False, name == quality.baseline, [f"{row['jobs']:,} jobs"]) for row in found if row is not None
        ]
        rows.append([name, *cells])
    return Table("Accuracy by experience", ["predictor", *STAGES.values()], rows, classes=_classes(quality, predictors))


def _classes(quality: Quality, predictors: Sequence[object]) -> list[str]:
    return ["baseline" if name == quality.baseline else "" for name in predictors]


def _sentences(quality: Quality, predictors: Sequence[str]) -> list[str]:
    """Say which predictor is most accurate, and by how much, with its interval."""
    fair = [name for name in predictors if name != _BOUND]
    if not fair:
        return []
    rows = {name: quality.figures(name)["accuracy"] for name in fair}
    best = max(fair, key=lambda name: rows[name]["value"])
    row = rows[best]
    text = f"The most accurate is {best}: {number(row['value'], 'share')}"
    if best == quality.baseline:
        return [text + ", the baseline."]
    return [f"{text}, against {quality.baseline} {difference(row, 'share')} percentage points."]


def _calibration(quality: Quality, predictor: str) -> Table:
    rows: list[Row] = []
    for row in quality.calibration[quality.calibration["predictor"] == predictor].to_dict("records"):
        between = "" if pd.isna(row["at_most_low"]) else f"[{100 * row['at_most_low']:.1f}, {100 * row['at_most_high']:.1f}]"
        shares = [f"{100 * row[name]:.2f} %" for name in ("at_most", "below", "above")]
        rows.append([f"{row['level']:g}", Cell(shares[0], ((between, ""),)), *shares[1:], number(row["pinball_s"], "seconds")])
    return Table("Calibration", ["level", "jobs at most as long", "shorter", "longer", "quantile loss, s"], rows)


def _sharpness(quality: Quality, generated: bool) -> dict[str, Any]:
    """Return scores and losses of all predictors as distributions, and windows outside chance."""
    found = quality.sharpness
    points: Any = found.scores[found.scores["kind"] == "point"]
    others = ["requested", "nag", *([str(points.loc[points["crps_s"].idxmin(), "predictor"])] if len(points) else [])]
    told = found.scores.loc[found.scores["kind"] == "distribution", "predictor"].tolist()
    known = set(found.losses["predictor"])
    names = [name for name in dict.fromkeys([*told, *others, *REFERENCES]) if name in known]
    return {
        "scores": scores(quality, _LEVELS),
        "windows": windows(quality),
        "image": data_uri(sharpness_plots.losses(found.losses, names, generated)),
    }
