"""The page of an evaluation of predictions: tables by predictor, experience, and figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipelines.report import evaluation_plots, sharpness_plots
from pipelines.report.page import data_uri, template
from pipelines.report.style import Look, looks
from pipelines.report.wording import MINUS, group_name, number
from pipelines.workflows.evaluation import Evaluation
from sim.predictions.at_once import AT_ONCE
from sim.predictions.cost import Cost
from sim.predictions.quality import STAGES, Quality
from sim.predictions.sharpness import REFERENCES, outside
from sim.schedule import Schedule

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
        headline={
            "jobs": f"{len(first.jobs):,}",
            "procs": f"{first.procs:,}",
            "users": f"{first.jobs['user'].nunique():,}",
            "predictors": f"{len(predictors):,}",
        },
        baseline=baseline,
        confidence=f"{100 * evaluation.qualities[0].confidence:g}",
        parts=[_part(quality, evaluation, drawn) for quality in evaluation.qualities],
        stages=list(STAGES.values()),
        not_drawn=[name for name in predictors if name not in drawn],
        retraining=any(cost is not None and cost.retraining_share > 0 for cost in evaluation.costs.values()),
        notes=[f"{note[0].upper()}{note[1:].removesuffix('.')}." for note in notes],
        provenance=[(name, value if isinstance(value, str) else json.dumps(value)) for name, value in provenance.items()],
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
    distributions = [
        {
            "predictor": name,
            "image": data_uri(evaluation_plots.calibration(quality, name, generated)),
            "rows": _calibration(quality, name),
            "covered": data_uri(sharpness_plots.coverage(quality.sharpness.coverage, name, generated)),
            "coverage": _coverage(quality, name),
        }
        for name in predictors
        if not quality.calibration.empty and (quality.calibration["predictor"] == name).any()
    ]
    levels = [name for name in quality.figures(predictors[0]) if name.startswith("pinball_")]
    return {
        "title": "The whole trace" if quality.part == "all" else f"The {quality.part.replace('-', ' ')} of the jobs",
        "jobs": f"{quality.jobs:,}",
        "weeks": quality.weeks,
        "sentences": _sentences(quality, predictors),
        "remark": quality.figures(quality.baseline)["accuracy"]["note"],
        "levels": [name.removeprefix("pinball_").removesuffix("_s") for name in levels],
        "rows": [_row(quality, schedule, levels, evaluation.costs[schedule.predictor]) for schedule in evaluation.schedules],
        "unseen": [name for name in predictors if name not in shown],
        "knows_users": quality.knows_users,
        "figures": figures,
        "distributions": distributions,
        "sharpness": _sharpness(quality, generated) if distributions else None,
    }


def _row(quality: Quality, schedule: Schedule, levels: Sequence[str], cost: Cost | None) -> dict[str, Any]:
    predictor = schedule.predictor
    overall = quality.figures(predictor)
    stages = [quality.figures(predictor, "experience", stage).get("accuracy") for stage in STAGES] if quality.knows_users else []
    cells = [_cell(overall["accuracy"], "share", True), _cell(overall["underprediction_rate"], "share", None)]
    cells += [_cell(overall["mae_s"], "seconds", False), *(_cell(overall[level], "seconds", False) for level in levels)]
    return {
        "label": predictor,
        "kind": "baseline" if predictor == quality.baseline else "",
        "cells": cells,
        "stages": [_cell(row, "share", True) for row in stages if row is not None],
        "cost": "–" if cost is None else f"{cost.microseconds:.2f}" if cost.microseconds >= 0.01 else "< 0.01",
        "clamped": f"{schedule.clamped_predictions:,}",
        "retraining": "" if cost is None or not cost.retraining_share else f"{cost.retraining_share:.0%}",
    }


def _cell(row: Mapping[str, Any], kind: Any, higher_is_better: bool | None) -> dict[str, str]:
    """Return a value with its interval and its difference to the baseline.

    Coloured where the interval of the difference leaves out 0.
    """
    value = "–" if pd.isna(row["value"]) else number(row["value"], kind)
    low, high = row["difference_low"], row["difference_high"]
    sure = higher_is_better is not None and pd.notna(low) and (low > 0 or high < 0)
    return {
        "value": value,
        "interval": "" if pd.isna(row["low"]) else f"[{number(row['low'], kind)}, {number(row['high'], kind)}]",
        "difference": "" if pd.isna(row["difference"]) else _difference(row["difference"], low, high, kind),
        "tone": ("better" if (low > 0) == higher_is_better else "worse") if sure else "",
        "jobs": f"{row['jobs']:,} jobs",
    }


def _difference(value: float, low: float, high: float, kind: str) -> str:
    scale, form = (100.0, "+.1f") if kind == "share" else (1.0, "+,.0f")
    text = f"{scale * value:{form}}"
    if pd.notna(low):
        text += f" [{scale * low:{form}}, {scale * high:{form}}]"
    return text.replace("-", MINUS)


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
    change = _difference(row["difference"], row["difference_low"], row["difference_high"], "share")
    return [f"{text}, against {quality.baseline} {change} percentage points."]


def _calibration(quality: Quality, predictor: str) -> list[dict[str, str]]:
    rows = []
    for row in quality.calibration[quality.calibration["predictor"] == predictor].to_dict("records"):
        interval = "" if pd.isna(row["at_most_low"]) else f"[{100 * row['at_most_low']:.1f}, {100 * row['at_most_high']:.1f}]"
        rows.append(
            {
                "level": f"{row['level']:g}",
                "at_most": f"{100 * row['at_most']:.2f} %",
                "interval": interval,
                "below": f"{100 * row['below']:.2f} %",
                "above": f"{100 * row['above']:.2f} %",
                "pinball": number(row["pinball_s"], "seconds"),
            }
        )
    return rows


def _sharpness(quality: Quality, generated: bool) -> dict[str, Any]:
    """Return scores of all predictors and references as distributions, and their figures.

    With how often rates left the bands of chance.
    """
    found = quality.sharpness
    by_name: Any = found.losses.pivot(index="predictor", columns="level", values="pinball_s")
    rows: Any = found.scores.to_dict("records")
    levels = [level for level in by_name.columns if any(abs(level - shown) < 1e-9 for shown in _LEVELS)]
    scores = [
        {
            "predictor": row["predictor"],
            "crps": _cell(row | {"value": row["crps_s"], "jobs": quality.jobs}, "seconds", False),
            "losses": [number(by_name.at[row["predictor"], level], "seconds") for level in levels],
        }
        for row in rows
    ]
    points: Any = found.scores[found.scores["kind"] == "point"]
    others = ["requested", "nag", *([str(points.loc[points["crps_s"].idxmin(), "predictor"])] if len(points) else [])]
    told = found.scores.loc[found.scores["kind"] == "distribution", "predictor"].tolist()
    names = [name for name in dict.fromkeys([*told, *others, *REFERENCES]) if name in by_name.index]
    counted: Any = outside(found.windows).to_dict("records")
    windows = [
        {
            "predictor": row["predictor"],
            "level": f"{row['level']:g}",
            "rate": f"{100 * row['rate']:.2f} %",
            "counts": [
                "–" if pd.isna(row[name]) else f"{row[name]} of {row['windows']}" for name in ("by_chance", "with_feedback")
            ],
        }
        for row in counted
    ]
    return {
        "levels": [f"{level:g}" for level in levels],
        "scores": scores,
        "windows": windows,
        "image": data_uri(sharpness_plots.losses(found.losses, names, generated)),
    }


def _coverage(quality: Quality, predictor: str) -> dict[str, Any]:
    """Return for which jobs the quantiles of ``predictor`` hold: levels, and a row a group."""
    mine = quality.sharpness.coverage
    mine = mine[mine["predictor"] == predictor]
    levels = sorted(mine["level"].unique())
    rows = []
    groups: Any = mine.groupby(["by", "begin"], sort=False)
    for (by, begin), group in groups:
        found = group.set_index("level")
        shares = [f"{100 * found.at[level, name]:.1f} %" for name in ("at_most", "work_at_most") for level in levels]
        name = group_name(by, begin)
        rows.append({"name": name, "jobs": f"{int(group['jobs'].iloc[0]):,}", "shares": shares})
    return {"levels": [f"{level:g}" for level in levels], "rows": rows}
