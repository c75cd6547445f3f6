"""Cross-validate classifiers of variation on control runs, and print how good they are."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import click
import numpy as np
import pandas as pd

from models.variability.classifiers import PUBLISHED
from models.variability.evaluation import (
    BLOCKED,
    PROTOCOLS,
    ClassifierTraining,
    difference,
    earlier_medians,
    folds,
    measured,
    predictions,
    without_features,
)
from pipelines.cli.notes import note, record
from pipelines.cli.progress import shown_progress
from pipelines.report.table import Table
from pipelines.studies.variability_table import SCOPES, TrainingTable


def evaluate_classifiers(system: str, names: tuple[str, ...], applications: bool, as_json: bool) -> None:
    """Print the measures of each classifier, by default of all published ones."""
    from pipelines.lake.home import home
    from pipelines.studies.variability_table import training_table

    note(f"{system}: computing the features of each run from its counters")
    table = training_table(home(), system)
    protocols = PROTOCOLS if applications else (BLOCKED,)
    with shown_progress("classifiers trained", "training") as progress:
        result = evaluate(table, ClassifierTraining(names or PUBLISHED), protocols, progress=progress, judged=_show_f1)
    for reason, count in result.left_out.items():
        if count:
            note(f"{system}: {count:,} runs left out: {reason}")
    if as_json:
        for row in result.measures.to_dict("records"):
            record({"system": system, "generated": table.generated, **row})
        return
    _print(result.measures, f"{system}{', simulated' if table.generated else ''}: {len(table.runs):,} runs")
    for row in result.own_against_all.to_dict("records"):
        if row["measure"] == "f1":
            interval = f" [{row['low']:+.3f}, {row['high']:+.3f}]" if math.isfinite(row["low"]) else ""
            value = f"F1 {row['value']:+.3f}{interval}" if math.isfinite(row["value"]) else "nothing to compare"
            click.echo(f"own less all nodes, {row['protocol']}, {row['classifier']}: {value}")
    for text in calibrations(result.predicted):
        click.echo(text)
    error = abs(earlier_medians(table.runs) / table.runs["runtime_s"].to_numpy() - 1)
    click.echo(f"the median of its application's last runs is {np.nanmean(error):.1%} off a run's runtime on average")
    if text := without_intervals(result.measures):
        note(f"{system}: {text}")


def _show_f1(predicted: pd.DataFrame) -> None:
    """Print F1 of a classifier that was just judged, for each protocol and scope."""
    for (protocol, scope, name), rows in predicted.groupby(["protocol", "features", "classifier"], sort=False):
        hits = int((rows["varies"] & rows["varied"]).sum())
        f1 = 2 * hits / max(int(rows["varies"].sum() + rows["varied"].sum()), 1)
        note(f"{name}, {protocol}, counters {scope}: F1 {f1:.3f}")


def without_intervals(measures: pd.DataFrame) -> str:
    """Return the reason why some values have no interval; "" if all have one."""
    from features.statistics import FEWEST_BLOCKS

    pooled = measures[(measures["application"] == "all") & (measures["measure"] == "f1")]
    if pooled["low"].notna().all():
        return ""
    days, varied = int(pooled["days"].min()), int(pooled["varied"].min())
    if days < FEWEST_BLOCKS:
        return f"no intervals: the runs are of {days} days, and {FEWEST_BLOCKS} are needed"
    return f"no interval where some days have nothing to count: {varied} runs varied"


def calibrations(predicted: pd.DataFrame) -> Iterator[str]:
    """Yield sentences on the reliability of the probabilities of ``ordinal``.

    The probabilities of other classifiers are no frequencies.
    """
    from models.variability.reliability import skill, squared_error

    for (protocol, kind), rows in predicted[predicted["classifier"] == "ordinal"].groupby(["protocol", "features"], sort=False):
        probability, varied = rows["probability"].to_numpy(), rows["varied"].to_numpy(bool)
        usual = rows.groupby("application")["varied"].transform("mean").to_numpy()
        error = squared_error(probability, varied)
        value = _cell(*skill(error, squared_error(usual, varied), rows["start_s"].to_numpy()))
        yield (
            f"calibration, {protocol}, {kind}, ordinal: said {probability.mean():.1%}, came {varied.mean():.1%}; "
            f"Brier score {error.mean():.4f}, skill over each application's base rate {value}"
        )


def _print(measures: pd.DataFrame, title: str) -> None:
    identity = ["protocol", "features", "classifier", "against"]
    values = ["f1", "precision", "recall", "average_precision", "f1_likeliest"]
    cells = []
    pooled = measures[measures["application"] == "all"]
    for key, rows in pooled.groupby(identity, sort=False):
        texts = {str(row["measure"]): _cell(row["value"], row["low"], row["high"]) for row in rows.to_dict("records")}
        counts = (f"{rows[name].iloc[0]:,}" for name in ("varied", "predicted"))
        cells.append([*map(str, key), *(texts[name] for name in values), *counts])
    headings = [name.replace("_", " ") for name in (*identity, *values, "varied", "predicted")]
    Table(title, headings, cells, keys=len(identity)).show()


def _cell(value: float, low: float, high: float) -> str:
    """Format a value, with its interval if it has one."""
    interval = f" [{low:.2f}, {high:.2f}]" if math.isfinite(low) else ""
    return f"{value:.3f}{interval}" if math.isfinite(value) else "–"


@dataclass(frozen=True)
class Evaluated:
    """Results of :func:`evaluate`.

    ``predicted`` comes from ``predictions``, ``measures`` from ``measured``; ``own_against_all`` has differences of the scopes.
    """

    predicted: pd.DataFrame
    measures: pd.DataFrame
    own_against_all: pd.DataFrame
    left_out: Mapping[str, int]


def evaluate(
    table: TrainingTable,
    learning: ClassifierTraining,
    protocols: Sequence[str],
    progress: Callable[[int, int], None] | None = None,
    judged: Callable[[pd.DataFrame], None] | None = None,
) -> Evaluated:
    """Cross-validate every classifier on both scopes; report each to ``judged`` when done."""
    parts = [without_features(table.runs, learning, protocols)]
    if judged is not None:
        judged(parts[0])
    for at, name in enumerate(learning.names):
        step = None if progress is None else lambda done, total, at=at: progress(at * total + done, total * len(learning.names))
        parts.append(predictions(table.features, table.runs, replace(learning, names=(name,)), protocols=protocols, progress=step))
        if judged is not None:
            judged(parts[-1])
    predicted = pd.concat(parts, ignore_index=True)
    classes, seed = learning.variation + 1, learning.seed
    differences = []
    for (protocol, classifier), rows in pd.concat(parts[1:]).groupby(["protocol", "classifier"], sort=False):
        own, every = (rows[rows["features"] == scope] for scope in SCOPES)
        paired = difference(own, every, classes=classes, seed=seed)
        differences.append(paired.assign(protocol=str(protocol), classifier=str(classifier)))
    no_baseline = {protocol: folds(table.runs, protocol, thresholds=learning.thresholds)[1] for protocol in protocols}
    left_out = {
        **table.left_out,
        **{f"no baseline, or nothing to train on apart from them ({protocol})": count for protocol, count in no_baseline.items()},
    }
    return Evaluated(
        predicted, measured(predicted, classes=classes, seed=seed), pd.concat(differences, ignore_index=True), left_out
    )
