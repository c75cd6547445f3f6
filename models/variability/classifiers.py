"""The one list of classifiers of performance variation, with their default options."""

from collections.abc import Sequence
from typing import Any

OPTIONS: dict[str, dict[str, Any]] = {
    "extra-trees": {"trees": 100, "min_rows_in_leaf": 3},
    "decision-forest": {"trees": 100, "min_rows_in_leaf": 3},
    "knn": {"neighbours": 9},
    "adaboost": {"trees": 100, "depth": 3, "learning_rate": 0.5},
    "lightgbm": {"trees": 100, "leaves": 15, "learning_rate": 0.1, "min_rows_in_leaf": 10},
    "ordinal": {"trees": 150, "leaves": 15, "learning_rate": 0.05, "min_rows_in_leaf": 40},
}
"""The classifiers by name, with their default options.

100 trees, and a learning rate of 0.1 with LightGBM, are the libraries' defaults. The rest is not (leaves of 3 rows, 10
with LightGBM, and 15 leaves a tree; 9 neighbours; AdaBoost's depth and learning rate). What it was tuned on is not
recorded, probably simulated control runs. It is older than the first table of docs/studies/variability.md and unchanged
since; figures there are of the same cluster, and may flatter it. ``ordinal``'s options were chosen once, before any
trial, for tens of thousands of runs.
"""
ORDINAL, NEAREST = "ordinal", "knn"
PUBLISHED = tuple(name for name in OPTIONS if name != ORDINAL)
"""Compared by default. ``ordinal``, the scheduler's, is not: it trains once per threshold and needs thousands of
runs."""
CLASSIFIERS = tuple(name for name in OPTIONS if name != NEAREST)
"""Those that can be registered and asked by the simulator. The nearest neighbours stay in scikit-learn, to be
compared."""
CANDIDATES = tuple(name for name in PUBLISHED if name != NEAREST)
"""Trained by default for a monitored system."""
ORDINAL_CUTOFF = 0.1
"""Min probability of variation at which ``ordinal`` lets a job wait.

Its probabilities are frequencies, so the cutoff is a price: at 0.1 up to nine of ten waits are for runs that would not
have varied, and a patient job loses little by them.
"""


def thresholds_of(classifiers: Sequence[str]) -> tuple[float, ...]:
    """Return the thresholds of z for candidates.

    They are DELAYS if ``ordinal`` is the only one, else THREE_CLASSES.
    """
    from features.monitoring.labels import DELAYS, THREE_CLASSES  # imports pandas, and commands import this list for help

    return DELAYS if set(classifiers) == {ORDINAL} else THREE_CLASSES
