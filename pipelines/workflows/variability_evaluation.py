"""Classifiers of variation cross-validated on a system's training table.

Measures are in ``models.variability.evaluation``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from models.variability.evaluation import PROTOCOLS, Learning, ceiling, difference, folds, measured, predictions
from pipelines.workflows.variability_table import SCOPES, TrainingTable

TOLD = "told"
"""Features with the true contention, where it is known: learners with them reach the ceiling."""


@dataclass(frozen=True)
class Evaluated:
    """Results of :func:`evaluate`; empty tables where there is nothing to compare.

    ``said`` as of ``predictions``, ``measures`` of ``measured``, ``own_against_all`` and ``ceilings``.
    """

    said: pd.DataFrame
    measures: pd.DataFrame
    own_against_all: pd.DataFrame
    ceilings: pd.DataFrame
    left_out: Mapping[str, int]


def evaluate(
    table: TrainingTable,
    learning: Learning,
    *,
    protocols: Sequence[str] = PROTOCOLS,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluated:
    """Cross-validate every classifier on every set of features.

    With the ceiling that the same learners reach given the true contention.
    """
    sets = dict(table.features) | ({TOLD: table.told} if table.told is not None else {})
    said = predictions(sets, table.runs, learning, protocols=protocols, truth=table.truth, progress=progress)
    classes, seed = learning.variation + 1, learning.seed
    measures = measured(said, classes=classes, seed=seed)
    differences = []
    if all(scope in table.features for scope in SCOPES):
        for (protocol, name), rows in said.groupby(["protocol", "classifier"], sort=False):
            own, every = (rows[rows["features"] == scope] for scope in SCOPES)
            found = difference(own, every, classes=classes, seed=seed)
            identity = pd.DataFrame({"protocol": protocol, "classifier": name}, index=found.index)
            differences.append(pd.concat([identity, found], axis=1))
    ceilings = pd.DataFrame()
    if table.told is not None:
        ceilings = pd.concat(
            [ceiling(measures, TOLD, against=against) for against in ("label", "truth")[: 1 + (table.truth is not None)]]
        )
    no_baseline = {protocol: folds(table.runs, protocol, thresholds=learning.thresholds)[1] for protocol in protocols}
    left_out = {
        **table.left_out,
        **{f"no baseline, or nothing to train on apart from them ({protocol})": count for protocol, count in no_baseline.items()},
    }
    paired = pd.concat(differences, ignore_index=True) if differences else pd.DataFrame()
    return Evaluated(said, measures, paired, ceilings.reset_index(drop=True), left_out)
