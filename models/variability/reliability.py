"""Brier score and skill of probabilities that a run exceeds a threshold of z.

A constant, the share of all runs, is reliable too. What a model adds is its skill: how far its Brier score, the mean squared
error of the probability (Brier 1950), is below that of a constant. The sum of Brier scores over ascending thresholds is a ranked
probability score (Epstein 1969), proper for the distribution. Intervals resample days, whose runs share the machine's state
(``features.statistics``).
"""

import numpy as np

from features.clock import DAY_S
from features.statistics import FEWEST_BLOCKS, drawn, tail

RESAMPLES = 1000
CONFIDENCE = 0.95


def share(numerator: np.ndarray, denominator: np.ndarray, start_s: np.ndarray, seed: int = 0) -> tuple[float, float, float]:
    """Return the sum of ``numerator`` over that of ``denominator`` [runs], and its interval.

    The interval resamples days of ``start_s`` [runs]; NaN with fewer than five, or if some resample has nothing to divide by.
    """
    day = np.unique(np.asarray(start_s, np.int64) // DAY_S, return_inverse=True)[1]
    days = int(day.max()) + 1
    over, under = np.bincount(day, numerator, days), np.bincount(day, denominator, days)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(over.sum() / under.sum())
        if days < FEWEST_BLOCKS:
            return value, np.nan, np.nan
        draws, cut = drawn(days, RESAMPLES, seed), tail(CONFIDENCE, days)
        low, high = np.quantile(draws @ over / (draws @ under), [cut, 1.0 - cut])
    return value, float(low), float(high)


def squared_error(probability: np.ndarray, came: np.ndarray) -> np.ndarray:
    """Return each run's Brier score, float64 [runs]; summed over thresholds if both are 2D."""
    errors = (np.asarray(probability, np.float64) - came) ** 2
    return errors if errors.ndim == 1 else errors.sum(axis=1)


def skill(error: np.ndarray, constant: np.ndarray, start_s: np.ndarray) -> tuple[float, float, float]:
    """Return the share of a constant's error that a model saves, and its interval over days.

    1 is perfect, 0 no better; ``error`` and ``constant`` float64 [runs] come from :func:`squared_error`.
    """
    value, low, high = share(error, constant, start_s)
    return 1.0 - value, 1.0 - high, 1.0 - low
