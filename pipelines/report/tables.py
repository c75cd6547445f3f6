"""The tables of a comparison: metrics, fairness, predictions and cleaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from features.errors import InputError
from pipelines.report.style import Key, Looks, key
from pipelines.report.table import Cell, Table
from pipelines.report.wording import takes_correction, tone
from sim.metrics.formats import change, interval, number
from sim.metrics.names import FAIRNESS, METRICS, Metric
from sim.metrics.user_fairness import fairness
from sim.predictions.quality import STAGES
from sim.schedule import Schedule

_SHARES = ("accuracy", "rate")
"""Endings of the names of prediction metrics printed in per cent."""


def metrics_of(comparison: pd.DataFrame) -> dict[str, Metric]:
    """Return the metrics of a comparison by name; InputError for an unknown one."""
    names = list(comparison["metric"].unique())
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise InputError(f"the report has no text for the metrics {', '.join(unknown)}; known: {', '.join(METRICS)}")
    return {name: METRICS[name] for name in names}


def metric_table(comparison: pd.DataFrame, looks: Looks, baseline: Key, kinds: Mapping[str, str] | None = None) -> Table:
    """Return a row a combination, with the words of ``kinds`` about its predictor.

    Its correction, too, where the scheduler takes one. Below each value: its change and interval, with their tone. The best
    simulated value of a metric is marked.
    """
    metrics, best = metrics_of(comparison), _best(comparison)
    rows, classes = [], []
    for combination, look in looks.items():
        scheduler, predictor, correction = combination
        kind = "baseline" if combination == baseline else "" if predictor else "recorded"
        words = [f"correction: {correction}"] if kind == "" and correction and takes_correction(scheduler) else []
        words += filter(None, [(kinds or {}).get(predictor, "")])
        cells = [
            Cell(
                number(row["value"], METRICS[row["metric"]].kind),
                () if combination == baseline else _changes(row),
                best=predictor != "" and row["value"] == best.get(row["metric"]),
            )
            for row in _records(comparison)
            if (row["scheduler"], row["predictor"], row["correction"]) == combination
        ]
        rows.append([Cell(look.label, tuple((text, "") for text in words), colour=look.colour), *cells])
        classes.append(kind)
    headings = [Cell(metric.title + (", s" if name.endswith("_s") else ""), tip=name) for name, metric in metrics.items()]
    return Table("Metrics", ["combination", *headings], rows, classes=classes)


def _changes(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the change to the baseline and its interval, with a tone where it is sure.

    One replay shows nothing of a schedule's chaos.
    """
    sure = tone(row["low"], row["high"], METRICS[row["metric"]].lower_is_better) if row["sure"] else ""
    return (change(row["relative"]), sure), (interval(row["low"], row["high"], row["coverage"]), sure)


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


def fairness_table(schedules: Sequence[Schedule], looks: Looks) -> Table | None:
    """Return fairness between users, a row a schedule; None where the trace names no users."""
    if schedules[0].jobs["user"].isna().all():
        return None
    rows = []
    for schedule in schedules:
        record = fairness(schedule)
        cells = [number(record[name], metric.kind) for name, metric in FAIRNESS.items()]
        counts = [number(record[name], "count") for name in ("users", "jobs_without_user")]
        rows.append([looks[key(schedule)].label, counts[0], *cells, counts[1]])
    titles = [metric.title for metric in FAIRNESS.values()]
    return Table("Fairness between users", ["combination", "users", *titles, "jobs of no known user"], rows)


def accuracies(quality: pd.DataFrame) -> pd.DataFrame:
    """``predictor`` and ``accuracy`` over all judged jobs, a row a predictor."""
    rows = quality[(quality["by"] == "all") & (quality["measure"] == "accuracy")]
    return rows[["predictor", "value"]].rename(columns={"value": "accuracy"}).reset_index(drop=True)


def prediction_table(quality: pd.DataFrame, kinds: Mapping[str, str]) -> Table | None:
    """Return a row a predictor: each measure, accuracy with its interval, coverage by level."""
    if quality.empty:
        return None
    overall, levels = quality[quality["by"] == "all"], quality[quality["by"] == "level"]
    measures, told = list(overall["measure"].unique()), list(levels["group"].unique())
    headings = ["predictor", "where its answers come from", "jobs", *(_heading(name) for name in measures)]
    headings += [f"runtimes within its {float(level):.0%} quantile" for level in told]
    rows = []
    for predictor, mine in overall.groupby("predictor", sort=False):
        values = mine.set_index("measure")
        cells = [str(predictor), kinds.get(str(predictor), ""), number(mine["jobs"].iloc[0], "count")]
        for name in measures:
            row = values.loc[name]
            cells.append(_measure(name, row["value"]) + (_bounds(row) if name == "accuracy" else ""))
        shares = levels[levels["predictor"] == predictor].set_index("group")["value"]
        rows.append([*cells, *(number(shares.get(level, np.nan), "share") for level in told)])
    return Table("Predictions", headings, rows)


def experience_table(quality: pd.DataFrame) -> Table | None:
    """Return accuracy by experience, a row a predictor; None where no users are named."""
    found = quality[(quality["by"] == "experience") & (quality["measure"] == "accuracy")] if len(quality) else quality
    if found.empty:
        return None
    groups = list(found["group"].unique())
    rows = []
    for predictor, mine in found.groupby("predictor", sort=False):
        values = mine.set_index("group")
        cells = [f"{number(values['value'][group], 'share')} of {number(values['jobs'][group], 'count')} jobs" for group in groups]
        rows.append([str(predictor), *cells])
    return Table("Accuracy by experience", ["predictor", *(STAGES.get(group, group) for group in groups)], rows)


def _bounds(row: pd.Series) -> str:
    return "" if pd.isna(row["low"]) else f" [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"


def cleaning_table(counts: pd.Series) -> Table | None:
    """Return action, rule and number of jobs, from counts by (action, rule); None without any."""
    rules: dict[Any, Any] = counts.to_dict()
    rows = [(str(action), str(rule), number(count, "count")) for (action, rule), count in rules.items()]
    return Table("Cleaning", ["action", "rule", "jobs"], rows, left=["rule"]) if rows else None


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


def _heading(name: str) -> str:
    text = name.removesuffix("_s").replace("_", " ").replace("mae", "MAE").replace("pinball", "quantile loss")
    return f"{text}, s" if name.endswith("_s") else text


def _measure(name: str, value: float) -> str:
    """A prediction measure: names that end in ``_s`` are seconds, in accuracy or rate shares."""
    return number(value, "share" if name.endswith(_SHARES) else "seconds" if name.endswith("_s") else "ratio")
