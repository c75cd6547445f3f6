"""The one list of classifiers of performance variation, with their default options."""

from collections.abc import Sequence
from typing import Any

from features.monitoring.labels import DELAYS, THREE_CLASSES

OPTIONS: dict[str, dict[str, Any]] = {
    "extra-trees": {"trees": 100, "min_rows_in_leaf": 3},
    "decision-forest": {"trees": 100, "min_rows_in_leaf": 3},
    "knn": {"neighbours": 9},
    "adaboost": {"trees": 100, "depth": 3, "learning_rate": 0.5},
    "lightgbm": {"trees": 100, "leaves": 15, "learning_rate": 0.1, "min_rows_in_leaf": 10},
    "ordinal": {"trees": 150, "leaves": 15, "learning_rate": 0.05, "min_rows_in_leaf": 40},
}
"""The classifiers by name, with their default options.

100 trees, and boosting by 0.1 with LightGBM, are the libraries' defaults. The rest is not (leaves of 3 rows, 10 with LightGBM, and 15 leaves a tree; 9
neighbours; AdaBoost's depth and learning rate). No record says what it was tuned on, probably simulated control runs. It is older than the first
table of docs/studies/variability.md and was not changed after; still, figures there are of the same simulated cluster, and may flatter it. The
options of ``ordinal`` were chosen once, before its first trial, for tens of thousands of runs.
"""
CLASSIFIERS = tuple(OPTIONS)
ORDINAL = "ordinal"
PUBLISHED = tuple(name for name in CLASSIFIERS if name != ORDINAL)
"""Those that are compared by default; ``ordinal``, the scheduler's, trains once for each threshold and wants thousands of runs."""
ORDINAL_CUTOFF = 0.1
"""The probability of variation from which on ``ordinal`` lets a job wait.

Its probabilities are frequencies, so the cutoff is a price: at 0.1 up to nine of ten waits are for runs that would not have varied,
and a patient job loses little by them.
"""


def thresholds_of(classifiers: Sequence[str]) -> tuple[float, ...]:
    """Return the thresholds of z for candidates.

    They are those of delays if ``ordinal`` is the only one, else of three classes.
    """
    return DELAYS if set(classifiers) == {ORDINAL} else THREE_CLASSES
