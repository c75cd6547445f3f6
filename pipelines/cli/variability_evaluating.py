"""Cross-validate classifiers of variation on control runs, and print how good they are."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import click
import numpy as np
import pandas as pd

from features.statistics import FEWEST_BLOCKS
from models.variability.classifiers import PUBLISHED
from models.variability.evaluation import (
    MEASURES,
    ClassifierTraining,
    earlier_medians,
    folds,
    measured,
    predictions,
    without_features,
)
from pipelines.cli import note, record
from pipelines.cli.progress import shown_progress
from pipelines.lake.places import home
from pipelines.report.table import Table
from pipelines.studies.monitored import TrainingTable, training_table


def evaluate_classifiers(system: str, names: tuple[str, ...], as_json: bool) -> None:
    """Print the measures of each classifier, by default of all published ones."""
    note(f"{system}: computing the features of each run from its counters")
    table = training_table(home(), system)
    learning = ClassifierTraining(names or PUBLISHED)
    with shown_progress("classifiers trained", "training") as progress:
        predicted = judged_runs(table, learning, progress, _show_f1)
    left_out: Mapping[str, int] = {
        **table.left_out,
        "no baseline, or nothing to train on apart from them": folds(table.runs, learning.thresholds)[1],
    }
    for reason, count in left_out.items():
        if count:
            note(f"{system}: {count:,} runs left out: {reason}")
    measures = measured(predicted, learning.seed)
    if as_json:
        for row in measures.to_dict("records"):
            record({"system": system, "generated": table.generated, **row})
        return
    _print(measures, f"{system}{', simulated' if table.generated else ''}: {len(table.runs):,} runs")
    error = abs(earlier_medians(table.runs) / table.runs["runtime_s"].to_numpy() - 1)
    click.echo(f"the median of its application's last runs is {np.nanmean(error):.1%} off a run's runtime on average")
    if text := without_intervals(measures):
        note(f"{system}: {text}")


def judged_runs(
    table: TrainingTable,
    learning: ClassifierTraining,
    progress: Callable[[int, int], None],
    judged: Callable[[pd.DataFrame], None],
) -> pd.DataFrame:
    """Cross-validate every classifier on both scopes; report each to ``judged`` when done."""
    parts = [without_features(table.runs, learning)]
    judged(parts[0])
    total = len(learning.names)
    for at, name in enumerate(learning.names):
        parts.append(
            predictions(
                table.features,
                table.runs,
                replace(learning, names=(name,)),
                progress=lambda done, each, at=at: progress(at * each + done, total * each),
            )
        )
        judged(parts[-1])
    return pd.concat(parts, ignore_index=True)


def _show_f1(predicted: pd.DataFrame) -> None:
    """Print F1 of a classifier that was just judged, for each scope."""
    for (scope, name), rows in predicted.groupby(["features", "classifier"], sort=False):
        hits = int((rows["varies"] & rows["varied"]).sum())
        f1 = 2 * hits / max(int(rows["varies"].sum() + rows["varied"].sum()), 1)
        note(f"{name}, counters {scope}: F1 {f1:.3f}")


def without_intervals(measures: pd.DataFrame) -> str:
    """Return the reason why some values have no interval; "" if all have one."""
    f1 = measures[measures["measure"] == "f1"]
    if f1["low"].notna().all():
        return ""
    days, varied = int(f1["days"].min()), int(f1["varied"].min())
    if days < FEWEST_BLOCKS:
        return f"no intervals: the runs are of {days} days, and {FEWEST_BLOCKS} are needed"
    return f"no interval where some days have nothing to count: {varied} runs varied"


def _print(measures: pd.DataFrame, title: str) -> None:
    cells = []
    for key, rows in measures.groupby(["features", "classifier"], sort=False):
        texts = {str(row["measure"]): _cell(row["value"], row["low"], row["high"]) for row in rows.to_dict("records")}
        counts = (f"{rows[name].iloc[0]:,}" for name in ("varied", "predicted"))
        cells.append([*map(str, key), *(texts[name] for name in MEASURES), *counts])
    headings = [name.replace("_", " ") for name in ("counters", "classifier", *MEASURES, "varied", "predicted")]
    Table(title, headings, cells, keys=2).show()


def _cell(value: float, low: float, high: float) -> str:
    """Format a value, with its interval if it has one."""
    interval = f" [{low:.2f}, {high:.2f}]" if math.isfinite(low) else ""
    return f"{value:.3f}{interval}" if math.isfinite(value) else "–"
