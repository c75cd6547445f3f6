"""Class probabilities of trained classifiers, from plain arrays inside the kernel.

Every library's classifier becomes one of four kinds. (1) Trees whose leaves hold shares of a vote. (2) Trees whose leaves hold
scores that a softmax turns into probabilities: AdaBoost's vote as in scikit-learn, Friedman, Hastie & Tibshirani's additive
logistic regression as in LightGBM. (3) The training rows themselves, of which the nearest vote. (4) Trees whose leaves hold a
score of each class from the second on; a logistic function turns it into the probability of that class or a higher one.
``models.variability.learners`` trains and converts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel, njit
from models.trees import FEATURE, HIGH, LOW

SHARES, SCORES, NEAREST, EXCEEDS = range(4)
"""Kinds: sum of leaves, softmax of the sum of leaves, vote of the nearest rows weighted by inverse distance, or differences
between probabilities of a class or above."""


class Arrays(NamedTuple):
    """A classifier as arrays; those that its kind does not need are empty.

    ``kind`` is one of the codes above; ``fills`` float64 [columns] replaces missing values. Trees: ``roots`` int64 [trees],
    ``links`` int64 [nodes, 3] as in ``models.trees`` but for all trees together, where a number below 0 is leaf ``-1 - number``,
    ``thresholds`` float64 [nodes], ``leaves`` float64 [leaves, classes] and ``base`` float64 [classes], to which leaves are added
    (-inf for a class without training rows). Nearest: ``rows`` float64 [rows, columns] in the order of training, ``labels`` int64
    [rows], ``weights`` float64 [columns] (1 / variance) and ``neighbours``, their number.
    """

    kind: int
    fills: np.ndarray
    base: np.ndarray
    roots: np.ndarray
    links: np.ndarray
    thresholds: np.ndarray
    leaves: np.ndarray
    rows: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    neighbours: int


@apart
def class_probabilities(arrays, x, out):
    """Write class probabilities of ``x`` float64 [columns] to ``out`` float64 [classes].

    Fills missing values of ``x`` in place.
    """
    for column in range(len(arrays.fills)):
        if np.isnan(x[column]):
            x[column] = arrays.fills[column]
    for label in range(len(out)):
        out[label] = arrays.base[label]
    if arrays.kind == NEAREST:
        _ask_nearest(arrays, x, out)
        return
    for tree in range(len(arrays.roots)):
        node = arrays.roots[tree]
        while node >= 0:
            low = x[arrays.links[node, FEATURE]] <= arrays.thresholds[node]
            node = arrays.links[node, LOW] if low else arrays.links[node, HIGH]
        for label in range(len(out)):
            out[label] += arrays.leaves[-1 - node, label]
    if arrays.kind == SCORES:
        _softmax(out)
    elif arrays.kind == EXCEEDS:
        _differences(out)


@kernel
def _differences(out):
    """Turn scores of a class or above, at most the lower class's, into class probabilities."""
    above = 1.0
    for label in range(1, len(out)):
        above = min(above, 1.0 / (1.0 + np.exp(-out[label])))
        out[label - 1] = (1.0 if label == 1 else out[label - 1]) - above
        out[label] = above


@kernel
def _softmax(out):
    most = -np.inf
    for label in range(len(out)):
        most = max(most, out[label])
    total = 0.0
    for label in range(len(out)):
        out[label] = np.exp(out[label] - most)
        total += out[label]
    for label in range(len(out)):
        out[label] /= total


@kernel
def _ask_nearest(arrays, x, out):
    """Add the votes of the nearest rows; of equally near rows the earlier comes first.

    Rows at distance 0, if there are any, vote alone. Each neighbour is one pass over the rows, which skips the rest of a row once
    it is farther than the best so far; so nothing is stored between rows.
    """
    last, last_row, total, exact = -1.0, -1, 0.0, False
    for _ in range(arrays.neighbours):
        best, best_row = np.inf, -1
        for row in range(len(arrays.rows)):
            distance = _squared_distance(arrays, row, x, best)
            if distance < best and (distance > last or (distance == last and row > last_row)):
                best, best_row = distance, row
        if best_row < 0 or (exact and best > 0.0):
            break
        last, last_row, exact = best, best_row, best == 0.0
        vote = 1.0 if exact else 1.0 / np.sqrt(best)
        out[arrays.labels[best_row]] += vote
        total += vote
    for label in range(len(out)):
        out[label] /= total


@kernel
def _squared_distance(arrays, row, x, enough):
    """Return the squared distance to a training row, or a part of it of at least ``enough``.

    Four independent sums run in parallel.
    """
    columns = len(arrays.weights)
    first = second = third = fourth = 0.0
    for column in range(0, columns - 3, 4):
        first += (x[column] - arrays.rows[row, column]) ** 2 * arrays.weights[column]
        second += (x[column + 1] - arrays.rows[row, column + 1]) ** 2 * arrays.weights[column + 1]
        third += (x[column + 2] - arrays.rows[row, column + 2]) ** 2 * arrays.weights[column + 2]
        fourth += (x[column + 3] - arrays.rows[row, column + 3]) ** 2 * arrays.weights[column + 3]
        if first + second + third + fourth >= enough:
            return first + second + third + fourth
    for column in range(columns - columns % 4, columns):
        first += (x[column] - arrays.rows[row, column]) ** 2 * arrays.weights[column]
    return first + second + third + fourth


@njit
def probabilities_of(arrays, table):
    """Return :func:`class_probabilities` of each row of ``table``: float64 [rows, classes].

    ``table`` float64 [rows, columns] is not changed.
    """
    probabilities = np.empty((len(table), len(arrays.base)))
    x = np.empty(table.shape[1])
    for row in range(len(table)):
        x[:] = table[row]
        class_probabilities(arrays, x, probabilities[row])
    return probabilities
