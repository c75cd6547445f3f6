"""Quality of runtime predictions: accuracy, under-prediction, absolute error, loss.

Figures are over all jobs and by experience, the number of the user's jobs that had ended at submission; OKCM's learner
takes over after 25 of them. Accuracy is the measure of Tsafrir et al. 2007 and of OKCM (Li & Zhang): min(p/r, r/p) of
prediction and runtime, averaged over jobs. The quantile (pinball) loss, that of Koenker & Bassett 1978, is a proper
score: it tells sharp distributions from wide ones, where calibration alone does not.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

OKCM_THRESHOLD = 25
"""Completed jobs of a user above which OKCM's regression takes over from its nearest neighbours."""
EXPERIENCE = ("first", "learning", "experienced")
"""How many of the user's jobs had ended at submission: none, 1 to 25, or more."""


def accuracy(predicted_s: np.ndarray, runtime_s: np.ndarray) -> np.ndarray:
    """Return min(p/r, r/p) of each job, float64 [jobs] in (0, 1], of positive seconds."""
    return np.minimum(predicted_s / runtime_s, runtime_s / predicted_s)


def pinball(predicted_s: np.ndarray, runtime_s: np.ndarray, level: float | np.ndarray) -> np.ndarray:
    """Return each job's quantile loss, float64 [jobs] seconds.

    It is ``level`` times the shortfall, or 1 - ``level`` times the excess. Quantiles [jobs, levels] with runtimes
    [jobs, 1] give the loss at each level.
    """
    short = runtime_s - predicted_s
    return np.maximum(level * short, (level - 1) * short)


def measures(predicted_s: np.ndarray, runtime_s: np.ndarray, quantiles: Sequence[float] = (0.5,)) -> pd.DataFrame:
    """Return each job's measures, float64 [jobs, measures]; means over jobs are the figures.

    Columns are ``accuracy underprediction_rate mae_s`` and one ``pinball_<q>_s`` for each level of ``quantiles``: how
    well the prediction serves as that quantile. A job is under-predicted if it runs longer than predicted. Raises
    ValueError for lengths that differ, for values that are not positive and finite, and for levels outside (0, 1).
    """
    predicted = np.asarray(predicted_s, np.float64)
    runtime = np.asarray(runtime_s, np.float64)
    if predicted.shape != runtime.shape or predicted.ndim != 1:
        raise ValueError(f"predictions have the shape {predicted.shape} and runtimes {runtime.shape}: give one number for each job")
    for name, values in (("prediction", predicted), ("runtime", runtime)):
        wrong = ~(np.isfinite(values) & (values > 0))
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(f"row {row}: {name} {values[row]} is not a positive number of seconds ({int(wrong.sum())} such rows)")
    if not all(0 < level < 1 for level in quantiles):
        raise ValueError(f"quantile levels {tuple(quantiles)} are not all between 0 and 1")

    columns = {
        "accuracy": accuracy(predicted, runtime),
        "underprediction_rate": (runtime > predicted).astype(np.float64),
        "mae_s": np.abs(runtime - predicted),
    }
    columns |= {f"pinball_{level:g}_s": pinball(predicted, runtime, level) for level in quantiles}
    return pd.DataFrame(columns)


def evaluate_predictions(predicted_s: np.ndarray, runtime_s: np.ndarray, quantiles: Sequence[float] = (0.5,)) -> pd.Series:
    """Return ``jobs`` and the means of :func:`measures`, with its arguments and errors.

    Means over no jobs are NaN.
    """
    table = measures(predicted_s, runtime_s, quantiles)
    return pd.Series({"jobs": float(len(table)), **{str(name): float(mean) for name, mean in table.mean().items()}})


def experience(completed: np.ndarray) -> np.ndarray:
    """Return each job's index in :data:`EXPERIENCE`, int64 [jobs].

    ``completed`` counts the user's jobs that had ended at submission.
    """
    return np.digitize(completed, [1, OKCM_THRESHOLD + 1])
