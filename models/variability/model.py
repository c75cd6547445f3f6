"""Classifier of the machine's state before a job starts: predicts whether it will vary.

After Nichols et al. (RUSH). A model reads counters, probes and the type of the application, and gives each class of
variation a probability. Variation is rare and seldom the class of the highest probability. So a job is predicted to
vary if the probability of variation reaches a cutoff, chosen for F1 on the training part alone, out of folds that are
blocks of time. With three classes, "little variation or more" is another question with other probabilities, and has a
cutoff of its own.

Training and judged runs share no minute of the machine. Runs that start minutes apart see the same counters and the
same disturbance. Folds drawn at random put such neighbours on both sides, and a model is judged by what it has
memorised of the hour. So folds are consecutive stretches of time with a gap to the training runs: a run sees the
machine from the beginning of its counters' window to its end, and no such interval of a training run overlaps one of a
judged run (purging and embargo: Lopez de Prado, "Advances in Financial Machine Learning", 2018, section 7.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.errors import InputError
from features.monitoring.samplers import WINDOW_S
from models.variability.compiled_classifiers import Arrays, probabilities_of


class Times(NamedTuple):
    """Starts and ends of runs, Unix seconds, float64 [runs] each."""

    start_s: np.ndarray
    end_s: np.ndarray

    def take(self, rows: np.ndarray) -> Times:
        """Return the times of ``rows``."""
        return Times(self.start_s[rows], self.end_s[rows])


def times_of(runs: pd.DataFrame) -> Times:
    """Return the times of control runs, from their columns ``start_s`` and ``runtime_s``."""
    start = runs["start_s"].to_numpy(np.float64)
    return Times(start, start + runs["runtime_s"].to_numpy(np.float64))


def stretches(times: Times, varied: np.ndarray, parts: int) -> np.ndarray:
    """Return each run's stretch of time, int64 [runs] in 0..``parts`` - 1, in order of starts.

    Stretches have equally many runs. If there are ``parts`` runs that ``varied`` (bool [runs]) and as many others, but
    a stretch would lack either, then each has equally many of the rarer kind instead, and borders lie halfway between
    two of these.
    """
    order = np.argsort(times.start_s, kind="stable")
    kind = varied[order]
    turn = np.repeat(np.arange(parts), [len(part) for part in np.array_split(order, parts)])
    rare = np.flatnonzero(kind if 2 * kind.sum() <= len(kind) else ~kind)
    if len(rare) >= parts and (np.bincount(turn[rare], minlength=parts) == 0).any():
        first = np.array([part[0] for part in np.array_split(np.arange(len(rare)), parts)][1:], np.int64)
        borders = (rare[first - 1] + rare[first] + 1) // 2
        turn = np.searchsorted(borders, np.arange(len(order)), side="right")
    stretch_of_run = np.empty(len(order), np.int64)
    stretch_of_run[order] = turn
    return stretch_of_run


def apart(times: Times, rows: np.ndarray, judged: np.ndarray) -> np.ndarray:
    """Return the ``rows`` that share no time with ``judged``; int64 indices into ``times``.

    A run sees the machine from ``WINDOW_S`` seconds before its start to its end. So a remaining run ends at least the
    window before a judged run starts, or starts at least the window after a judged run ends.
    """
    begin, end = np.sort(times.start_s[judged] - WINDOW_S), np.sort(times.end_s[judged])
    begun = np.searchsorted(begin, times.end_s[rows], side="right")
    over = np.searchsorted(end, times.start_s[rows] - WINDOW_S, side="left")
    return rows[begun == over]


def blocked(times: Times, varied: np.ndarray, parts: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return rows to train on and rows to judge, int64, for each of :func:`stretches`.

    Every run is judged once.
    """
    turn = stretches(times, varied, parts)
    pairs = []
    for number in range(parts):
        judged = np.flatnonzero(turn == number)
        pairs.append((apart(times, np.flatnonzero(turn != number), judged), judged))
    return pairs


CUTOFF_FOLDS = 5
"""Number of blocks of time on which a cutoff is chosen."""
NO_CHOICE = 0.5
"""The cutoff if no run could be used to choose one."""
NO_BASELINES = pd.DataFrame({"mean_s": [], "sigma_s": [], "runs": []}, index=pd.Index([], name="application"), dtype=np.float64)


@dataclass(frozen=True)
class VariabilityModel:
    """A trained classifier with its cutoffs.

    It reads ``columns`` in this order and distinguishes ``classes`` by ``arrays`` or, without these, by its library's
    own ``estimator``, which can be compared but neither registered nor simulated. A job is predicted to be of class k
    or above, k from 1 on, if the probabilities of these classes add up to at least ``cutoffs[k - 1]``. To vary is to be
    of class ``variation`` or above; that is the last class unless classes beyond it say how much longer a run takes.

    Cutoffs were chosen on out-of-fold predictions of ``cutoff_rows`` training rows (0: there were none, and they are
    0.5). ``importance`` float64 [columns] is the learner's own (NaN for the nearest neighbours), ``missing`` int64
    [columns] the number of missing training values and ``baselines`` the usual runtimes of each application in the
    training part.
    """

    classifier: str
    columns: tuple[str, ...]
    classes: int
    arrays: Arrays | None
    cutoffs: tuple[float, ...]
    baselines: pd.DataFrame
    importance: np.ndarray
    missing: np.ndarray
    cutoff_rows: int
    variation: int
    estimator: Any = None

    @property
    def cutoff(self) -> float:
        """Return the cutoff of variation."""
        return self.cutoffs[self.variation - 1]

    def with_cutoff(self, cutoff: float) -> VariabilityModel:
        """Return the same model with another cutoff of variation."""
        at = self.variation - 1
        return replace(self, cutoffs=(*self.cutoffs[:at], cutoff, *self.cutoffs[at + 1 :]))

    def predict_proba(self, features: pd.DataFrame) -> np.ndarray:
        """Return the probability of each class, float64 [rows, classes].

        A missing value counts as the median of the training part; InputError for a missing column or infinity.
        """
        return _probabilities(self.arrays, self.estimator, matrix(features, self.columns), self.classes)

    def predict(self, features: pd.DataFrame) -> np.ndarray:
        """Return the class with the highest probability, the lowest of equal ones, int64 [rows].

        This is the libraries' own ``predict``.
        """
        return self.predict_proba(features).argmax(axis=1)

    def varies(self, features: pd.DataFrame) -> np.ndarray:
        """Tell whether each row is predicted to vary, bool [rows]: by the cutoff."""
        return self.variation_of(self.predict_proba(features)) >= self.cutoff

    def variation_of(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the probability to vary, float64 [rows], from that of each class [rows, classes]."""
        return probabilities[:, self.variation :].sum(axis=1)

    def missing_in(self, features: pd.DataFrame) -> dict[str, int]:
        """Return the number of missing values, which will be filled in, by column with any."""
        count = np.isnan(matrix(features, self.columns)).sum(axis=0)
        return {name: int(number) for name, number in zip(self.columns, count, strict=True) if number}


def matrix(features: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
    """Return ``columns`` of ``features`` as float64 [rows, columns], NaN for missing values.

    InputError for a missing column or infinity.
    """
    absent = [name for name in columns if name not in features]
    if absent:
        raise InputError(f"features: {len(absent)} of {len(columns)} columns are missing, the first is {absent[0]}")
    table = features.loc[:, list(columns)].to_numpy(np.float64, na_value=np.nan)
    if np.isinf(table).any():
        row, column = np.argwhere(np.isinf(table))[0]
        raise InputError(
            f"features: row {row} (counted from 0), column {columns[column]}: {table[row, column]} is not a measurement"
        )
    return np.array(table, order="C")  # a table's own values are read-only, and would be compiled for apart


def fit(
    name: str,
    features: pd.DataFrame,
    label: np.ndarray,
    *,
    seed: int,
    columns: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    classes: int | None = None,
    times: Times | None = None,
    baselines: pd.DataFrame = NO_BASELINES,
    variation: int | None = None,
) -> VariabilityModel:
    """Train the classifier ``name`` on ``columns`` of ``features`` [rows] for ``label``.

    ``label`` is int64 in 0..classes - 1. ``columns`` are all columns by default, ``classes`` one more than the largest
    label. With ``times`` of the rows cutoffs are chosen on blocks of time, so that no run is judged by its neighbours
    of the same minutes; without ``times`` they are ``NO_CHOICE``. ``baselines`` is only kept. Runs vary from class
    ``variation`` on, by default the last. Deterministic. ValueError for an unknown name or option and labels that do
    not fit the rows; InputError if all labels are equal, and as :func:`matrix`.
    """
    names = tuple(features.columns if columns is None else columns)
    label = np.asarray(label, np.int64)
    if len(label) != len(features) or len(label) == 0:
        raise ValueError(f"cannot train on {len(features)} rows of features and {len(label)} labels")
    classes = int(label.max()) + 1 if classes is None else classes
    if label.min() < 0 or label.max() >= classes:
        raise ValueError(f"labels must be in 0..{classes - 1}")
    table = matrix(features, names)

    arrays, estimator, importance = _trained(name, table, label, classes, seed, options)
    cutoffs, rows = (NO_CHOICE,) * (classes - 1), 0
    if times is not None:
        probability = out_of_fold(name, table, label, classes, times, seed=seed, options=options)
        judged = np.isfinite(probability).all(axis=1)
        cutoffs, rows = best_cutoffs(probability[judged], label[judged]), int(judged.sum())
    missing = np.isnan(table).sum(axis=0).astype(np.int64)
    last = classes - 1 if variation is None else variation
    return VariabilityModel(
        classifier=name,
        columns=names,
        classes=classes,
        arrays=arrays,
        cutoffs=cutoffs,
        baselines=baselines,
        importance=importance,
        missing=missing,
        cutoff_rows=rows,
        variation=last,
        estimator=estimator,
    )


def out_of_fold(
    name: str,
    table: np.ndarray,
    label: np.ndarray,
    classes: int,
    times: Times,
    *,
    seed: int,
    options: Mapping[str, Any] | None = None,
    folds: int = CUTOFF_FOLDS,
) -> np.ndarray:
    """Return class probabilities by classifiers trained without the row's block of time.

    float64 [rows, classes]; arguments as in :func:`fit`. ``table`` float64 [rows, columns] may have missing values. NaN
    if a class has no row outside the block.
    """
    probabilities = np.full((len(label), classes), np.nan)
    for rest, fold in blocked(times, label == classes - 1, folds):
        if len(np.unique(label[rest])) == len(np.unique(label)):
            arrays, estimator, _ = _trained(name, table[rest], label[rest], classes, seed, options)
            probabilities[fold] = _probabilities(arrays, estimator, np.ascontiguousarray(table[fold]), classes)
    return probabilities


def _trained(
    name: str, table: np.ndarray, label: np.ndarray, classes: int, seed: int, options: Mapping[str, Any] | None
) -> tuple[Arrays | None, Any, np.ndarray]:
    """Return arrays, the library's estimator where it has none, and importances."""
    from models.variability.learners import learn  # imports scikit-learn, and answers need no training

    fills = medians(table)
    learned = learn(name, filled(table, fills), label, classes, seed=seed, options=options)
    if learned.arrays is None:
        return None, learned.estimator, learned.importance
    return learned.arrays._replace(fills=fills), None, learned.importance


def _probabilities(arrays: Arrays | None, estimator: Any, table: np.ndarray, classes: int) -> np.ndarray:
    """Return the probability of each class by ``arrays`` or else by ``estimator``, float64 [rows, classes]."""
    if arrays is not None:
        return probabilities_of(arrays, table)
    probabilities = np.zeros((len(table), classes))
    probabilities[:, estimator.classes_] = estimator.predict_proba(table)
    return probabilities


def medians(table: np.ndarray) -> np.ndarray:
    """Return fills for missing values: each column's median, 0 for a column without any value."""
    fills = np.zeros(table.shape[1])
    some = ~np.isnan(table).all(axis=0)
    fills[some] = np.nanmedian(table[:, some], axis=0)
    return fills


def filled(table: np.ndarray, fills: np.ndarray) -> np.ndarray:
    """Return ``table`` [rows, columns] with ``fills`` [columns] for missing values."""
    return np.where(np.isnan(table), fills, table)


def best_cutoffs(probability: np.ndarray, label: np.ndarray) -> tuple[float, ...]:
    """Return :func:`best_cutoff` for each class k from 1 on together with those above it.

    ``probability`` is [rows, classes], ``label`` int64 [rows].
    """
    classes = probability.shape[1]
    return tuple(best_cutoff(probability[:, first:].sum(axis=1), label >= first) for first in range(1, classes))


def best_cutoff(probability: np.ndarray, varies: np.ndarray) -> float:
    """Return the cutoff with the highest F1, the highest of equal ones; 0.5 if nothing varies.

    It lies halfway between two neighbouring probabilities.
    """
    if not varies.any():
        return NO_CHOICE
    order = np.argsort(-probability, kind="stable")
    sorted_ = probability[order]
    last = np.flatnonzero(np.append(sorted_[1:] < sorted_[:-1], True))  # equal probabilities stay together
    hits = np.cumsum(varies[order])[last]
    f1 = 2 * hits / (last + 1 + varies.sum())
    best = int(np.argmax(f1))
    taken = sorted_[last[best]]
    left_out = sorted_[last[best] + 1] if last[best] + 1 < len(sorted_) else taken
    return float((taken + left_out) / 2)
