"""Class probabilities of trained classifiers, from plain arrays inside the kernel.

Every library's classifier of trees becomes one of three kinds. (1) Trees whose leaves hold shares of a vote. (2) Trees
whose leaves hold scores that a softmax turns into probabilities: AdaBoost's vote as in scikit-learn, Friedman, Hastie &
Tibshirani's additive logistic regression as in LightGBM. (3) Trees whose leaves hold a score of each class from the
second on; a logistic function turns it into the probability of that class or a higher one.
``models.variability.learners`` trains and converts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from features.jit import apart, kernel, njit
from models.trees import FEATURE, HIGH, LOW

SHARES, SCORES, EXCEEDS = 0, 1, 3
"""Kinds: sum of leaves, softmax of the sum of leaves, or differences between probabilities of a class or above. They
are written to registered models, where 2 once stood for nearest neighbours."""


class Arrays(NamedTuple):
    """A classifier of trees as arrays.

    ``kind`` is one of the codes above; ``fills`` float64 [columns] replaces missing values. ``roots`` int64 [trees],
    ``links`` int64 [nodes, 3] as in ``models.trees`` but for all trees together, where a number below 0 is leaf
    ``-1 - number``, ``thresholds`` float64 [nodes], ``leaves`` float64 [leaves, classes] and ``base`` float64
    [classes], to which leaves are added (-inf for a class without training rows).
    """

    kind: int
    fills: np.ndarray
    base: np.ndarray
    roots: np.ndarray
    links: np.ndarray
    thresholds: np.ndarray
    leaves: np.ndarray


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
