"""The report's tables as texts, ready for the templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from features.errors import InputError
from pipelines.report.style import Key, Looks, key
from pipelines.report.wording import change, interval, number
from sim.metrics.names import FAIRNESS, METRICS
from sim.metrics.user_fairness import fairness
from sim.predictions.quality import STAGES
from sim.schedule import Schedule

_SHARES = ("accuracy", "rate")
"""Endings of the names of prediction metrics printed in per cent."""


def metric_columns(comparison: pd.DataFrame) -> list[dict[str, str]]:
    """Return name, title, meaning and source of each metric; InputError for an unknown one."""
    names = list(comparison["metric"].unique())
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise InputError(f"the report has no text for the metrics {', '.join(unknown)}; known: {', '.join(METRICS)}")
    return [
        {"name": name, "title": METRICS[name].title, "meaning": METRICS[name].meaning, "source": METRICS[name].source}
        for name in names
    ]


def metric_rows(
    comparison: pd.DataFrame, table: Looks, baseline: Key, kinds: Mapping[str, str] | None = None
) -> list[dict[str, object]]:
    """Return a row a combination, with the words of ``kinds`` about its predictor.

    Each cell has its value, change and interval, whether it is better or worse, and whether it is the best simulated.
    """
    best = _best(comparison)
    rows: list[dict[str, object]] = []
    for combination, look in table.items():
        cells = [
            {
                "value": number(row["value"], METRICS[row["metric"]].kind),
                "change": change(row["relative"]),
                "interval": interval(row["low"], row["high"]),
                "tone": _tone(row["low"], row["high"], METRICS[row["metric"]].lower_is_better) if row["replicates"] > 1 else "",
                "best": row["predictor"] != "" and row["value"] == best.get(row["metric"]),
            }
            for row in _records(comparison)
            if (row["scheduler"], row["predictor"], row["correction"]) == combination
        ]
        kind = "baseline" if combination == baseline else "" if combination[1] else "recorded"
        rows.append(
            {
                "label": look.label,
                "source": (kinds or {}).get(combination[1], ""),
                "correction": combination[2],
                "colour": look.colour,
                "kind": kind,
                "cells": cells,
            }
        )
    return rows


def any_interval(comparison: pd.DataFrame, baseline: Key) -> bool:
    """Tell whether any change to the baseline has an interval, the baseline's own apart."""
    rows = comparison[["scheduler", "predictor", "correction", "low"]].itertuples(index=False)
    return any(pd.notna(low) and tuple(combination) != baseline for *combination, low in rows)


def interval_notes(comparison: pd.DataFrame) -> list[str]:
    """Return each note of the comparison once, with its metrics."""
    noted = comparison[comparison["note"] != ""]
    lines = []
    for note in noted["note"].unique():
        titles = [METRICS[name].title for name in noted.loc[noted["note"] == note, "metric"].unique()]
        lines.append(f"{note[0].upper()}{note[1:]} ({', '.join(titles)}).")
    return lines


def fairness_rows(schedules: Sequence[Schedule], table: Looks) -> list[dict[str, object]]:
    """Return fairness between users, a row a schedule; none where the trace names no users."""
    if schedules[0].jobs["user"].isna().all():
        return []
    rows: list[dict[str, object]] = []
    for schedule in schedules:
        record = fairness(schedule)
        cells = [number(record[name], FAIRNESS[name].kind) for name in FAIRNESS]
        unknown = number(record["jobs_without_user"], "count")
        rows.append(
            {"label": table[key(schedule)].label, "users": number(record["users"], "count"), "cells": cells, "unknown": unknown}
        )
    return rows


def accuracies(quality: pd.DataFrame) -> pd.DataFrame:
    """``predictor`` and ``accuracy`` over all judged jobs, a row a predictor."""
    rows = quality[(quality["by"] == "all") & (quality["measure"] == "accuracy")]
    return rows[["predictor", "value"]].rename(columns={"value": "accuracy"}).reset_index(drop=True)


def prediction_rows(quality: pd.DataFrame, kinds: Mapping[str, str]) -> dict[str, list]:
    """Return a row a predictor: each measure, accuracy with its interval, coverage by level."""
    if quality.empty:
        return {"columns": [], "rows": []}
    overall, levels = quality[quality["by"] == "all"], quality[quality["by"] == "level"]
    measures, told = list(overall["measure"].unique()), list(levels["group"].unique())
    columns = ["predictor", "where its answers come from", "jobs", *(_heading(name) for name in measures)]
    rows = []
    for predictor, mine in overall.groupby("predictor", sort=False):
        values = mine.set_index("measure")
        cells = [str(predictor), kinds.get(str(predictor), ""), number(mine["jobs"].iloc[0], "count")]
        for name in measures:
            row = values.loc[name]
            cells.append(_cell(name, row["value"]) + (_bounds(row) if name == "accuracy" else ""))
        shares = levels[levels["predictor"] == predictor].set_index("group")["value"]
        rows.append([*cells, *(number(shares.get(level, np.nan), "share") for level in told)])
    return {"columns": [*columns, *(f"runtimes within its {float(level):.0%} quantile" for level in told)], "rows": rows}


def experience_rows(quality: pd.DataFrame) -> dict[str, list]:
    """Return accuracy by experience, a row a predictor; none where no users are named."""
    found = quality[(quality["by"] == "experience") & (quality["measure"] == "accuracy")] if len(quality) else quality
    if found.empty:
        return {"columns": [], "rows": []}
    groups = list(found["group"].unique())
    rows = []
    for predictor, mine in found.groupby("predictor", sort=False):
        values = mine.set_index("group")
        cells = [f"{number(values['value'][group], 'share')} of {number(values['jobs'][group], 'count')} jobs" for group in groups]
        rows.append([str(predictor), *cells])
    return {"columns": ["predictor", *(STAGES.get(group, group) for group in groups)], "rows": rows}


def _bounds(row: pd.Series) -> str:
    return "" if pd.isna(row["low"]) else f" [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"


def cleaning_rows(counts: pd.Series) -> list[tuple[str, str, str]]:
    """Return action, rule and number of jobs, from counts by (action, rule)."""
    rules: dict[Any, Any] = counts.to_dict()
    return [(str(action), str(rule), number(count, "count")) for (action, rule), count in rules.items()]


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _best(comparison: pd.DataFrame) -> dict[str, float]:
    """Return the best simulated value of each metric, without ties."""
    simulated = comparison[comparison["predictor"] != ""]
    best = {}
    for metric in simulated["metric"].unique():
        values = simulated.loc[simulated["metric"] == metric, "value"].to_numpy(np.float64)
        top = values.min() if METRICS[metric].lower_is_better else values.max()
        if len(values) > 1 and (values == top).sum() == 1:
            best[metric] = float(top)
    return best


def _tone(low: float, high: float, lower_is_better: bool) -> str:
    """Return ``better`` or ``worse`` where the interval leaves out 0, else ""."""
    if pd.isna(low) or low <= 0 <= high:
        return ""
    return "better" if (high < 0) == lower_is_better else "worse"


def _heading(name: str) -> str:
    text = name.removesuffix("_s").replace("_", " ").replace("mae", "MAE").replace("pinball", "quantile loss")
    return f"{text}, s" if name.endswith("_s") else text


def _cell(name: str, value: float) -> str:
    """A prediction measure: names that end in ``_s`` are seconds, in accuracy or rate shares."""
    return number(value, "share" if name.endswith(_SHARES) else "seconds" if name.endswith("_s") else "ratio")
