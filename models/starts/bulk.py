"""Answer many questions at once, by compiled code.

A test checks that the answers equal those of the packed form.
"""

from __future__ import annotations

import numpy as np

from features.jit import njit
from models.packed.start_distribution import Hazard, of_odds
from models.trees import leaf_of

_QUESTIONS = 4096


def chances(hazard: Hazard, states: np.ndarray, plans: np.ndarray, scenarios: np.ndarray | None) -> np.ndarray:
    """Return the same as ``hazard.chances``, float64 [jobs, edges]."""
    distributions = []
    links = np.ascontiguousarray(hazard.nodes.reshape(-1, 3), np.int64)
    for first in range(0, len(states), _QUESTIONS):
        some = slice(first, first + _QUESTIONS)
        rows = hazard.rows(states[some], plans[some], None if scenarios is None else scenarios[some])
        odds = np.zeros(len(rows))
        _add(links, hazard.thresholds.ravel(), hazard.values, np.ascontiguousarray(rows), odds)
        distributions.append(of_odds(odds))
    return np.concatenate(distributions)


@njit
def _add(links, thresholds, values, rows, odds):
    """Add the values of each row's leaves to ``odds``."""
    trees, leaves = values.shape
    for row in range(len(rows)):
        for tree in range(trees):
            odds[row] += values[tree, leaf_of(links, tree * leaves, thresholds, tree * leaves, rows[row])]
