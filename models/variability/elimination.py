"""Recursive feature elimination: drop the least important columns step by step.

Guyon et al., "Gene selection for cancer classification", Machine Learning 46, 2002. At each size the classifier is judged by F1
on folds that are blocks of time; the best set is kept, of equals the smaller, as in Nichols et al. (RUSH). F1 at each size is
that of its own best cutoff, which flatters all sizes alike: use it to choose only. The chosen set is judged on other runs
(``models.variability.evaluation`` eliminates inside each training part).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from models.variability.classifiers import NEAREST
from models.variability.model import best_cutoff, filled, matrix, medians, out_of_fold
from models.variability.time_blocks import Times

SMALLEST = 6
FOLDS = 3
TIE = 0.005
"""F1 closer than this counts as equal: about a run in 200 that vary."""


@dataclass(frozen=True)
class Elimination:
    """``columns`` kept, the most important first, and ``path``, one row per size.

    ``path`` has ``columns`` (how many) and ``f1``, from all columns downwards.
    """

    columns: tuple[str, ...]
    path: pd.DataFrame


def sizes(columns: int) -> list[int]:
    """Return the numbers of columns to try: 282, 199, 141, 100, 70, ...

    Each is smaller by a factor of the square root of 2, from all down to ``SMALLEST``.
    """
    counts = [columns]
    while (following := round(columns / 2 ** (len(counts) / 2))) >= SMALLEST:
        counts.append(following)
    return counts


def eliminate(
    name: str,
    features: pd.DataFrame,
    label: np.ndarray,
    times: Times,
    *,
    seed: int,
    options: Mapping[str, Any] | None = None,
    classes: int | None = None,
) -> Elimination:
    """Choose the columns of ``features`` [rows] with which the classifier ``name`` does best.

    Arguments and errors are those of ``models.variability.model.fit``. Sizes are judged on blocks of time. The nearest neighbours,
    which have no importances, keep all columns.
    """
    from models.variability.learners import learn

    label = np.asarray(label, np.int64)
    classes = int(label.max()) + 1 if classes is None else classes
    left = list(features.columns)
    table = matrix(features, left)
    tried: list[tuple[list[str], float]] = []
    for following in [0] if name == NEAREST else [*sizes(len(left))[1:], 0]:
        probability = out_of_fold(name, table, label, classes, times, seed=seed, options=options, folds=FOLDS)[:, -1]
        judged, complete = np.isfinite(probability), filled(table, medians(table))
        ranked = np.argsort(-learn(name, complete, label, classes, seed=seed, options=options).importance, kind="stable")
        left, table = [left[place] for place in ranked], np.ascontiguousarray(table[:, ranked])
        tried.append((left, _best_f1(probability[judged], label[judged] == classes - 1)))
        left, table = left[:following], np.ascontiguousarray(table[:, :following])
    best = max(f1 for _, f1 in tried)
    kept = next(columns for columns, f1 in reversed(tried) if f1 >= best - TIE)
    path = pd.DataFrame([{"columns": len(columns), "f1": f1} for columns, f1 in tried])
    return Elimination(tuple(kept), path)


def _best_f1(probability: np.ndarray, varies: np.ndarray) -> float:
    predicted = probability >= best_cutoff(probability, varies)
    hits, wrong = (predicted & varies).sum(), (predicted != varies).sum()
    return float(2 * hits / (2 * hits + wrong)) if hits else 0.0
