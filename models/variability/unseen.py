"""Probabilities of variation at times that a model has not learned from, as frequencies.

A classifier remembers the hours that it learned from. So a block of those hours is answered by the model's twin: the same
classifier and columns, trained without the runs that see a minute of the block (:mod:`models.variability.time_blocks`). Later
hours are answered by the model itself. A logistic curve (Platt, "Probabilistic outputs for support vector machines", 1999) turns
these answers into frequencies; it is fitted to the runs that did start, and to whether they varied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from features.errors import InputError
from features.monitoring.labels import baselines, labels, variation_class, z_scores
from features.monitoring.samplers import PROBE_FEATURES
from models.variability.compiled_classifiers import probabilities_of
from models.variability.model import CUTOFF_FOLDS, VariabilityModel, fit, matrix
from models.variability.reliability import skill, squared_error
from models.variability.time_blocks import blocked, times_of

_LEAST = 1e-3
"""Probabilities of trees are often 0; the curve uses this instead."""


@dataclass(frozen=True)
class Unseen:
    """A ``model`` that has learned until ``until_s`` and its ``twins``.

    The twins' blocks begin at ``first_s`` (Unix s). ``skill`` is the share of the error (Brier) of a constant that its
    frequencies save, with the interval over days.
    """

    model: VariabilityModel
    twins: tuple[VariabilityModel, ...]
    first_s: np.ndarray
    until_s: float
    curve: LogisticRegression
    skill: tuple[float, float, float] = (np.nan, np.nan, np.nan)

    @classmethod
    def of(
        cls, model: VariabilityModel, features: pd.DataFrame, runs: pd.DataFrame, thresholds: Sequence[float], until_s: float
    ) -> Unseen:
        """Train the twins of ``model`` and calibrate on ``runs``, whose ``features`` are [runs].

        InputError if too few runs varied, or all did.
        """
        z = z_scores(runs["application"], runs["runtime_s"], baselines(runs["application"], runs["runtime_s"]))
        runs, features, z = runs[~np.isnan(z)], features[~np.isnan(z)], z[~np.isnan(z)]
        times, label = times_of(runs), labels(z, thresholds)
        varied, learned = label >= variation_class(tuple(thresholds)), np.flatnonzero(times.end_s <= until_s)
        twins, first = [], []
        for rest, block in blocked(times.take(learned), varied[learned], CUTOFF_FOLDS):
            taught = learned[rest]
            if len(block) == 0 or len(np.unique(label[taught])) < model.classes:
                raise InputError(f"{len(learned):,} control runs are too few: of some kind none is left outside a block of time")
            twins.append(fit(model.classifier, features.iloc[taught], label[taught], seed=0, columns=model.columns))
            first.append(times.start_s[learned[block]].min())
        unseen = cls(model, tuple(twins), np.array(first), until_s, LogisticRegression(C=np.inf))
        probability = unseen.variation(without_probes(features, model.columns), times.start_s)
        unseen.curve.fit(_log_odds(probability), varied)
        error, of_constant = (
            squared_error(each, varied) for each in (unseen.frequency(probability), np.full(len(varied), varied.mean()))
        )
        return replace(unseen, skill=skill(error, of_constant, times.start_s))

    def variation(self, table: np.ndarray, at_s: np.ndarray) -> np.ndarray:
        """Return the probability to vary, float64 [rows], by the model and its twins.

        For starts at ``at_s`` (Unix s) with inputs ``table`` float64 [rows, columns].
        """
        turn = np.maximum(np.searchsorted(self.first_s, at_s, side="right") - 1, 0)
        turn[at_s > self.until_s] = len(self.twins)
        probabilities = np.empty((len(table), self.model.classes))
        for each in np.unique(turn):
            models = (*self.twins, self.model)
            probabilities[turn == each] = probabilities_of(models[each].arrays, np.ascontiguousarray(table[turn == each]))
        return self.model.variation_of(probabilities)

    def frequency(self, variation: np.ndarray) -> np.ndarray:
        """Return how often runs with the probability ``variation`` vary, float64 [rows]."""
        return self.curve.predict_proba(_log_odds(variation))[:, 1]


def without_probes(features: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
    """Return ``columns`` of ``features`` as float64 [rows, columns], without probes.

    Columns that ``features`` lacks are missing, too. Probes run only at starts; their values at other times are unknown.
    """
    return matrix(features.drop(columns=[*PROBE_FEATURES], errors="ignore").reindex(columns=[*columns]), columns)


def _log_odds(probability: np.ndarray) -> np.ndarray:
    clipped = np.clip(probability, _LEAST, 1.0 - _LEAST)
    return np.log(clipped / (1.0 - clipped))[:, None]
