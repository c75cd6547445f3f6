"""Predict whether jobs vary, from a registered classifier's settings and plain arrays.

Packed unchanged into registered models, where Queuecast is not installed: it needs only numpy and pandas. It repeats
the walk of ``models.variability.compiled_classifiers``, many rows at a time, and a test checks that both are equal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .settings import read_settings

ARRAYS = "arrays.npz"
_SHARES, _EXCEEDS = 0, 3
_AT_ONCE = 2048
"""Rows walked together."""


def read(directory: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read settings and arrays.

    Raises ValueError for another format, OSError for a missing file.
    """
    settings = read_settings(directory)
    with np.load(directory / ARRAYS, allow_pickle=False) as stored:
        return settings, {name: stored[name] for name in stored.files}


class VariabilityPredictor:
    """One model, loaded from the directory it was written to."""

    def __init__(self, directory: Path) -> None:
        """Raises as :func:`read`."""
        self._settings, self._arrays = read(directory)
        usual = self._settings["baselines"]
        thresholds = self._settings["thresholds"]
        sigmas = thresholds[self._settings.get("variation", len(thresholds)) - 1]
        self._above_s = {
            name: mean + sigmas * sigma
            for name, mean, sigma in zip(usual["application"], usual["mean_s"], usual["sigma_s"], strict=True)
        }

    def predict(self, jobs: pd.DataFrame) -> pd.DataFrame:
        """Tell whether each row of ``jobs`` varies, by probabilities and by the cutoff [rows].

        Columns: probability of each class (``probability_0`` ...), ``predicted_class`` (the likeliest) and
        ``predicted_to_vary`` (by the cutoff). ``jobs`` has the model's columns; a missing value (NaN) counts as the
        median of the training part. With ``application`` (text) also ``varies_above_s``, the runtime from which a run
        of it counts as varying, NaN for an unknown application. Raises ValueError, naming row and column, for an
        invalid value.
        """
        table = self._table(jobs)
        table = np.where(np.isnan(table), self._arrays["fills"], table)
        pieces = [self._probabilities(table[first : first + _AT_ONCE]) for first in range(0, len(table), _AT_ONCE)]
        probabilities = np.concatenate(pieces) if pieces else np.empty((0, len(self._arrays["base"])))
        answer = {f"probability_{label}": probabilities[:, label] for label in range(probabilities.shape[1])}
        answer["predicted_class"] = probabilities.argmax(axis=1)
        first = self._settings.get("variation", probabilities.shape[1] - 1)
        answer["predicted_to_vary"] = probabilities[:, first:].sum(axis=1) >= self._settings["cutoffs"][first - 1]
        if "application" in jobs:
            answer["varies_above_s"] = jobs["application"].map(self._above_s).to_numpy(np.float64)
        return pd.DataFrame(answer, index=jobs.index)

    def _table(self, jobs: pd.DataFrame) -> np.ndarray:
        columns = self._settings["columns"]
        absent = [name for name in columns if name not in jobs]
        if absent:
            raise ValueError(f"{len(absent)} of {len(columns)} columns are missing, the first is {absent[0]}")
        table = jobs[columns].to_numpy(np.float64, na_value=np.nan)
        if np.isinf(table).any():
            row, column = np.argwhere(np.isinf(table))[0]
            raise ValueError(f"row {row} (counted from 0), column {columns[column]}: {table[row, column]} is infinite")
        return table

    def _probabilities(self, table: np.ndarray) -> np.ndarray:
        arrays = self._arrays
        node = np.tile(arrays["roots"], (len(table), 1))
        rows = np.arange(len(table))[:, None]
        while (inner := node >= 0).any():
            feature, low, high = np.moveaxis(arrays["links"][np.where(inner, node, 0)], -1, 0)
            below = table[rows, feature] <= arrays["thresholds"][np.where(inner, node, 0)]
            node = np.where(inner, np.where(below, low, high), node)
        scores = arrays["base"] + arrays["leaves"][-1 - node].sum(axis=1)
        if self._settings["kind"] == _SHARES:
            return scores
        if self._settings["kind"] == _EXCEEDS:
            above = np.minimum.accumulate(1 / (1 + np.exp(-scores[:, 1:])), axis=1)
            return -np.diff(above, axis=1, prepend=1.0, append=0.0)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
