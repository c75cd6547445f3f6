"""How good is a runtime prediction? Accuracy, under-prediction, absolute error and quantile loss, over all jobs and by experience.

Accuracy is the measure of Tsafrir et al. 2007 and of OKCM (Li & Zhang): min(p/r, r/p) of prediction and runtime, averaged over jobs. The
quantile (pinball) loss is Koenker & Bassett's. Experience is the number of the user's jobs that had ended at submission; OKCM's
learner takes over after 25 of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

OKCM_THRESHOLD = 25
"""Completed jobs of a user above which OKCM's regression takes over from its nearest neighbours."""


def accuracy(predicted_s: np.ndarray, runtime_s: np.ndarray) -> np.ndarray:
    """min(p/r, r/p) of each job, float64 [jobs] in (0, 1]; both arguments positive seconds."""
    return np.minimum(predicted_s / runtime_s, runtime_s / predicted_s)


def evaluate_predictions(predicted_s: np.ndarray, runtime_s: np.ndarray, quantiles: Sequence[float] = (0.5,)) -> pd.Series:
    """Mean measures of the predictions ``predicted_s`` against ``runtime_s``, both positive seconds [jobs].

    Returns ``jobs accuracy underprediction_rate mae_s`` and one ``pinball_<q>_s`` a level of ``quantiles``: how well the prediction serves as
    that quantile. A job is under-predicted if it runs longer than predicted. Means over no jobs are NaN. Raises ValueError for
    lengths that differ, for values that are not positive and finite, and for levels outside (0, 1).
    """
    predicted = np.asarray(predicted_s, np.float64)
    runtime = np.asarray(runtime_s, np.float64)
    if predicted.shape != runtime.shape or predicted.ndim != 1:
        raise ValueError(f"predictions {predicted.shape} and runtimes {runtime.shape} are not two lists of the same jobs")
    for name, values in (("prediction", predicted), ("runtime", runtime)):
        wrong = ~(np.isfinite(values) & (values > 0))
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(f"row {row}: {name} {values[row]} is not a positive number of seconds ({int(wrong.sum())} such rows)")
    if not all(0 < level < 1 for level in quantiles):
        raise ValueError(f"quantile levels {tuple(quantiles)} are not all between 0 and 1")

    short = runtime - predicted
    measures: dict[str, float] = {
        "jobs": float(len(runtime)),
        "accuracy": _mean(accuracy(predicted, runtime)),
        "underprediction_rate": _mean(short > 0),
        "mae_s": _mean(np.abs(short)),
    }
    for level in quantiles:
        measures[f"pinball_{level:g}_s"] = _mean(np.maximum(level * short, (level - 1) * short))
    return pd.Series(measures)


def evaluate_by_experience(
    predicted_s: np.ndarray, runtime_s: np.ndarray, completed: np.ndarray, quantiles: Sequence[float] = (0.5,)
) -> pd.DataFrame:
    """:func:`evaluate_predictions` by how many jobs of the user had ended at submission (``completed``, int [jobs]).

    One row each for ``first`` (none had), ``learning`` (1 to 25), ``experienced`` (more) and ``all``; the first three share out the jobs.
    """
    count = np.asarray(completed)
    segments = {
        "first": count <= 0,
        "learning": (count > 0) & (count <= OKCM_THRESHOLD),
        "experienced": count > OKCM_THRESHOLD,
        "all": np.ones(len(count), bool),
    }
    predicted, runtime = np.asarray(predicted_s), np.asarray(runtime_s)
    rows = {name: evaluate_predictions(predicted[chosen], runtime[chosen], quantiles) for name, chosen in segments.items()}
    return pd.DataFrame(rows).T.rename_axis("experience")


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
