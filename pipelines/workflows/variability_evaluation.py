"""Classifiers of variation cross-validated on a system's training table.

Measures are in ``models.variability.evaluation``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from models.variability.evaluation import PROTOCOLS, Learning, difference, folds, measured, predictions
from pipelines.workflows.variability_table import SCOPES, TrainingTable


@dataclass(frozen=True)
class Evaluated:
    """Results of :func:`evaluate`.

    ``said`` as of ``predictions``, ``measures`` of ``measured``, and ``own_against_all``.
    """

    said: pd.DataFrame
    measures: pd.DataFrame
    own_against_all: pd.DataFrame
    left_out: Mapping[str, int]


def evaluate(table: TrainingTable, learning: Learning, progress: Callable[[int, int], None] | None = None) -> Evaluated:
    """Cross-validate every classifier on the features of both scopes, under both protocols."""
    said = predictions(table.features, table.runs, learning, progress=progress)
    classes, seed = learning.variation + 1, learning.seed
    differences = []
    for (protocol, name), rows in said.groupby(["protocol", "classifier"], sort=False):
        own, every = (rows[rows["features"] == scope] for scope in SCOPES)
        paired = difference(own, every, classes=classes, seed=seed)
        differences.append(paired.assign(protocol=str(protocol), classifier=str(name)))
    no_baseline = {protocol: folds(table.runs, protocol, thresholds=learning.thresholds)[1] for protocol in PROTOCOLS}
    left_out = {
        **table.left_out,
        **{f"no baseline, or nothing to train on apart from them ({protocol})": count for protocol, count in no_baseline.items()},
    }
    return Evaluated(said, measured(said, classes=classes, seed=seed), pd.concat(differences, ignore_index=True), left_out)
