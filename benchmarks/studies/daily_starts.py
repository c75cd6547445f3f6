"""Answer daily snapshots, by models that are renewed often and calibrated each day.

All that a model or a calibration reads of a day is known by that day: at a moment, a job that has not started is censored.
"""

from __future__ import annotations

from dataclasses import replace

import lightgbm
import numpy as np

from features.clock import DAY_S
from features.errors import InputError
from models.packed.start_distribution import EDGES_S, LEVELS, Hazard, at_levels
from models.starts.bulk import chances
from models.starts.model import CALIBRATED_DAYS, ENOUGH, Growth, grow, spread

GROWTH = Growth(150, learning_rate=0.09, min_rows_in_leaf=500, feature_share=0.25, row_share=1.0, members=2, most_rows=300_000)
"""Chosen on days 13 to 30 of Graham's noons alone: 500 rows a leaf and a quarter of the inputs a tree lose least there."""
RENEWED_DAYS, WARM_DAYS = 4, 14
"""Days between models, and days before the first answer from which calibrations learn."""

_CENTRE = {"objective": "regression", "num_leaves": 31, "learning_rate": 0.06, "min_data_in_leaf": 200, "feature_fraction": 0.25}
_CENTRE |= {"bagging_fraction": 0.7, "bagging_freq": 1, "num_threads": 1, "verbosity": -1, "deterministic": True}
_CENTRE_TREES, _GOES_ON, _WEIGHT = 200, 0.15, 0.5
"""Trees of least squares, log10 by which a job that waits is taken to outlast its wait so far, and weight beside the median.

On days 13 to 30 of Graham's noons a weight of 0.5 lowers the mean squared error by 4.5 %, the pinball loss by 3 %."""


def quantiles_daily(states: np.ndarray, at_s: np.ndarray, start_s: np.ndarray, since_s: int, seed: int = 0) -> np.ndarray:
    """Return quantiles of waits, seconds, NaN before ``since_s``.

    Float64 [questions, ``LEVELS``]. They are those of :func:`answered_daily`, moved in the logarithm of seconds: their median
    moves half of the way to what least squares predict of that logarithm. Arguments and errors are those of that function.
    """
    quantiles_s = at_levels(answered_daily(states, at_s, start_s, since_s, seed), np.array(LEVELS))
    median = np.log10(np.maximum(quantiles_s[:, LEVELS.index(0.5)], 1.0))
    moved = _WEIGHT * (_centres(states, at_s, start_s, since_s, seed) - median)
    return np.asarray(quantiles_s * 10.0 ** moved[:, None])


def _centres(states: np.ndarray, at_s: np.ndarray, start_s: np.ndarray, since_s: int, seed: int) -> np.ndarray:
    """Return the mean of log10 waits by least squares, float64 [questions], NaN before ``since_s``."""
    centres, trees, renewed_s = np.full(len(at_s), np.nan), None, 0
    for moment in np.unique(at_s[at_s >= since_s]).tolist():
        if trees is None or moment >= renewed_s + RENEWED_DAYS * DAY_S:
            past = at_s < moment
            waited, waits = known_waits(at_s[past], start_s[past], moment)
            log_waits = np.log10(np.maximum(waited, 1.0)) + np.where(waits, _GOES_ON, 0.0)
            rows = lightgbm.Dataset(states[past], log_waits, params={"verbosity": -1, "max_bin": 127})
            trees, renewed_s = lightgbm.train(_CENTRE | {"seed": seed}, rows, _CENTRE_TREES), moment
        today = at_s == moment
        centres[today] = trees.predict(states[today])
    return centres


def answered_daily(states: np.ndarray, at_s: np.ndarray, start_s: np.ndarray, since_s: int, seed: int = 0) -> np.ndarray:
    """Return the distributions of waits, float64 [questions, edges], NaN before ``since_s``.

    ``states`` float64 [questions, inputs]; ``at_s`` int64 [questions] are the moments, ``start_s`` int64 [questions] the starts of
    the jobs. Raises InputError if too few jobs are known to have started before ``since_s``.
    """
    uncalibrated, answers = (np.full((len(at_s), len(EDGES_S)), np.nan) for _ in range(2))
    hazard, renewed_s = None, 0
    for moment in np.unique(at_s[at_s >= since_s - WARM_DAYS * DAY_S]).tolist():
        enough = ((at_s < moment) & (start_s < moment)).sum() >= ENOUGH
        if enough and (hazard is None or moment >= renewed_s + RENEWED_DAYS * DAY_S):
            hazard, renewed_s = _learned(states, at_s, start_s, moment, seed), moment
        today = at_s == moment
        if hazard is not None:
            uncalibrated[today] = chances(hazard, states[today], np.empty((today.sum(), 0)), None)
        if moment >= since_s:
            if hazard is None:
                raise InputError(f"fewer than {ENOUGH} jobs started before the first day to answer: give later days")
            answers[today] = _calibrated(uncalibrated, at_s, start_s, moment, uncalibrated[today])
    return answers


def known_waits(at_s: np.ndarray, start_s: np.ndarray, now_s: int) -> tuple[np.ndarray, np.ndarray]:
    """Return waits as known before ``now_s``, seconds float64, and which jobs still wait."""
    waits = start_s >= now_s
    return (np.where(waits, now_s - 1, start_s) - at_s).astype(np.float64), waits


def _learned(states: np.ndarray, at_s: np.ndarray, start_s: np.ndarray, now_s: int, seed: int) -> Hazard:
    past = at_s < now_s
    waited, waits = known_waits(at_s[past], start_s[past], now_s)
    growth = replace(GROWTH, min_rows_in_leaf=min(GROWTH.min_rows_in_leaf, max(int(past.sum()) // 20, 1)))
    return grow(states[past], np.empty((past.sum(), 0)), None, waited, waits, seed=seed, growth=growth)


def _calibrated(uncalibrated: np.ndarray, at_s: np.ndarray, start_s: np.ndarray, now_s: int, answers: np.ndarray) -> np.ndarray:
    past = (at_s < now_s) & (at_s >= now_s - CALIBRATED_DAYS * DAY_S) & ~np.isnan(uncalibrated[:, 0])
    if past.sum() < ENOUGH:
        return answers
    waited, waits = known_waits(at_s[past], start_s[past], now_s)
    return spread(uncalibrated[past], waited, waits, at_s[past]).apply(answers)
