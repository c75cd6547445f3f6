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

from models.variability.classifiers import NEAREST, OPTIONS
from models.variability.model import best_cutoff, filled, matrix, medians, out_of_fold
from models.variability.time_blocks import Times, stretches

SMALLEST = 6
FOLDS = 3
JUDGED_ROWS = 400
"""Rows that judge a permuted column of the nearest neighbours: limits the time, not chosen on data."""
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

    Arguments and errors are those of ``models.variability.model.fit``. Sizes are judged on blocks of time, and the nearest
    neighbours' importances by neighbours of other blocks.
    """
    label = np.asarray(label, np.int64)
    classes = int(label.max()) + 1 if classes is None else classes
    left = list(features.columns)
    table = matrix(features, left)
    block = stretches(times, label == classes - 1, FOLDS)
    tried: list[tuple[list[str], float]] = []
    for following in [*sizes(len(left))[1:], 0]:
        probability = out_of_fold(name, table, label, classes, times, seed=seed, options=options, folds=FOLDS)[:, -1]
        judged = np.isfinite(probability)
        ranked = np.argsort(-_importance(name, table, label, classes, block, seed, options), kind="stable")
        left, table = [left[place] for place in ranked], np.ascontiguousarray(table[:, ranked])
        tried.append((left, _best_f1(probability[judged], label[judged] == classes - 1)))
        left, table = left[:following], np.ascontiguousarray(table[:, :following])
    best = max(f1 for _, f1 in tried)
    kept = next(columns for columns, f1 in reversed(tried) if f1 >= best - TIE)
    path = pd.DataFrame([{"columns": len(columns), "f1": f1} for columns, f1 in tried])
    return Elimination(tuple(kept), path)


def _importance(
    name: str,
    table: np.ndarray,
    label: np.ndarray,
    classes: int,
    block: np.ndarray,
    seed: int,
    options: Mapping[str, Any] | None,
) -> np.ndarray:
    from models.variability.learners import learn

    table = filled(table, medians(table))
    if name == NEAREST:
        return permuted_importance(table, label == classes - 1, {**OPTIONS[name], **(options or {})}["neighbours"], seed, block)
    return learn(name, table, label, classes, seed=seed, options=options).importance


def permuted_importance(table: np.ndarray, varies: np.ndarray, neighbours: int, seed: int, block: np.ndarray) -> np.ndarray:
    """Return the nearest neighbours' loss of average precision per shuffled column.

    float64 [columns] (Breiman 2001). ``JUDGED_ROWS`` of the training rows ``table`` are judged, each by its neighbours in another
    ``block`` (of time, int64 [rows]), because rows of the same minutes know too much. Shuffling one column changes one term of
    each distance.
    """
    from sklearn.metrics import average_precision_score
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(seed)
    judged = np.sort(rng.choice(len(table), min(len(table), JUDGED_ROWS), replace=False))
    among, truth = StandardScaler().fit_transform(table), varies[judged]
    points = among[judged]
    squares = (points**2).sum(axis=1)[:, None] + (among**2).sum(axis=1) - 2 * points @ among.T
    squares[block[judged][:, None] == block] = np.inf

    def score(distances: np.ndarray) -> float:
        nearest = np.argpartition(distances, neighbours - 1, axis=1)[:, :neighbours]
        votes = 1 / np.sqrt(np.maximum(np.take_along_axis(distances, nearest, axis=1), 1e-12))
        return average_precision_score(truth, (votes * varies[nearest]).sum(axis=1) / votes.sum(axis=1))

    if not truth.any():
        return np.zeros(table.shape[1])
    whole = score(squares)
    losses = np.empty(table.shape[1])
    for column in range(table.shape[1]):
        own, other = points[:, column], among[:, column]
        shuffled = rng.permutation(own)
        losses[column] = whole - score(squares - (own[:, None] - other) ** 2 + (shuffled[:, None] - other) ** 2)
    return losses


def _best_f1(probability: np.ndarray, varies: np.ndarray) -> float:
    predicted = probability >= best_cutoff(probability, varies)
    hits, wrong = (predicted & varies).sum(), (predicted != varies).sum()
    return float(2 * hits / (2 * hits + wrong)) if hits else 0.0
