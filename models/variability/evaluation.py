"""Cross-validation of variation classifiers on control runs, after Nichols et al. (RUSH).

Folds are blocks of time. The paper does not mention time, but runs minutes apart share the machine's state: training
runs lie in other stretches of time than judged ones, with a gap between. Baselines, labels, medians, cutoff and the
choice of columns come from the training part alone.

Recursive feature elimination drops the least important columns step by step (Guyon et al., "Gene selection for cancer
classification", Machine Learning 46, 2002). At each size the classifier is judged by F1 on folds that are blocks of
time; the best set is kept, of equals the smaller, as in Nichols et al. (RUSH). F1 at each size is that of its own best
cutoff, which flatters all sizes alike: use it to choose only. The chosen set is judged on other runs: columns are
eliminated inside each training part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from features.clock import DAY_S
from features.errors import InputError
from features.monitoring.labels import BINARY, baselines, labels, variation_class, z_scores
from features.monitoring.samplers import DELAY_FEATURES, MORE_FEATURES, SITUATION_FEATURES, WINDOW_S
from models.variability.classifiers import NEAREST, ORDINAL, ORDINAL_CUTOFF, PUBLISHED
from models.variability.model import (
    NO_BASELINES,
    Times,
    VariabilityModel,
    best_cutoff,
    blocked,
    filled,
    fit,
    matrix,
    medians,
    out_of_fold,
    times_of,
)

SMALLEST = 6
FOLDS = 3
TIE = 0.005
"""F1 closer than this counts as equal: about a run in 200 that vary."""


@dataclass(frozen=True)
class Elimination:
    """``columns`` kept, the most important first, and ``path``, one row per size.

    ``path`` has ``columns`` (how many) and ``f1``, from all columns downwards.
    """

    columns: tuple[str, ...]
    path: pd.DataFrame


def sizes(columns: int) -> list[int]:
    """Return the numbers of columns to try: 282, 199, 141, 100, 70, ...

    Each is smaller by a factor of the square root of 2, from all down to ``SMALLEST``.
    """
    counts = [columns]
    while (following := round(columns / 2 ** (len(counts) / 2))) >= SMALLEST:
        counts.append(following)
    return counts


def eliminate(
    name: str,
    features: pd.DataFrame,
    label: np.ndarray,
    times: Times,
    *,
    seed: int,
    options: Mapping[str, Any] | None = None,
    classes: int | None = None,
) -> Elimination:
    """Choose the columns of ``features`` [rows] with which the classifier ``name`` does best.

    Arguments and errors are those of ``models.variability.model.fit``. Sizes are judged on blocks of time. The nearest
    neighbours, which have no importances, keep all columns.
    """
    from models.variability.learners import learn  # imports scikit-learn, and not every evaluation eliminates

    label = np.asarray(label, np.int64)
    classes = int(label.max()) + 1 if classes is None else classes
    left = list(features.columns)
    table = matrix(features, left)
    tried: list[tuple[list[str], float]] = []
    for following in [0] if name == NEAREST else [*sizes(len(left))[1:], 0]:
        probability = out_of_fold(name, table, label, classes, times, seed=seed, options=options, folds=FOLDS)[:, -1]
        judged, complete = np.isfinite(probability), filled(table, medians(table))
        ranked = np.argsort(-learn(name, complete, label, classes, seed=seed, options=options).importance, kind="stable")
        left, table = [left[place] for place in ranked], np.ascontiguousarray(table[:, ranked])
        tried.append((left, _best_f1(probability[judged], label[judged] == classes - 1)))
        left, table = left[:following], np.ascontiguousarray(table[:, :following])
    best = max(f1 for _, f1 in tried)
    kept = next(columns for columns, f1 in reversed(tried) if f1 >= best - TIE)
    path = pd.DataFrame([{"columns": len(columns), "f1": f1} for columns, f1 in tried])
    return Elimination(tuple(kept), path)


def _best_f1(probability: np.ndarray, varies: np.ndarray) -> float:
    predicted = probability >= best_cutoff(probability, varies)
    hits, wrong = (predicted & varies).sum(), (predicted != varies).sum()
    return float(2 * hits / (2 * hits + wrong)) if hits else 0.0


PARTS = 5
"""Number of stretches of time."""
FIRST_BLOCK_DAYS = 7
"""Days after a champion's training until classifiers are first retrained to judge it; each later step takes twice as
many."""


@dataclass(frozen=True)
class ClassifierTraining:
    """Which classifiers are trained, and how.

    ``thresholds`` of z divide the classes; with ``elimination`` columns are chosen inside each training part;
    ``options`` are by classifier.
    """

    names: Sequence[str] = PUBLISHED
    thresholds: Sequence[float] = BINARY
    elimination: bool = False
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seed: int = 0

    @property
    def classes(self) -> int:
        return len(self.thresholds) + 1

    @property
    def variation(self) -> int:
        """Return the lowest class of variation: the one above BINARY's threshold, else the last."""
        return variation_class(self.thresholds)

    def fit(
        self,
        name: str,
        features: pd.DataFrame,
        label: np.ndarray,
        times: Times,
        usual: pd.DataFrame = NO_BASELINES,
    ) -> VariabilityModel:
        """Train the classifier ``name``; other arguments as in ``models.variability.model.fit``.

        If a table has the situation of a start, ``ordinal`` reads its DELAY_FEATURES, the others all but MORE_FEATURES.
        The cutoff of ``ordinal`` is not chosen but ORDINAL_CUTOFF.
        """
        ordinal = name == ORDINAL
        if set(SITUATION_FEATURES) <= set(features.columns):
            others = [column for column in features.columns if column not in MORE_FEATURES]
            features = features[[column for column in DELAY_FEATURES if column in features] if ordinal else others]
        settings: dict[str, Any] = {"seed": self.seed, "options": self.options.get(name), "classes": self.classes}
        columns = eliminate(name, features, label, times=times, **settings).columns if self.elimination else None
        settings |= {"columns": columns, "baselines": usual, "variation": self.variation}
        model = fit(name, features, label, times=None if ordinal else times, **settings)
        return model.with_cutoff(ORDINAL_CUTOFF) if ordinal else model


@dataclass(frozen=True)
class Fold:
    """One training and one judged part: rows, and the labels of both, int64."""

    name: str
    train: np.ndarray
    test: np.ndarray
    train_label: np.ndarray
    test_label: np.ndarray
    usual: pd.DataFrame


def folds(runs: pd.DataFrame, thresholds: Sequence[float] = BINARY) -> tuple[list[Fold], int]:
    """Return the folds over ``runs``, and how many runs no fold judges.

    ``runs`` has ``application start_s runtime_s``. Runs of an application without a baseline are not judged, nor are
    whole folds whose training part lacks varied or other runs; InputError if that is so for all folds. No training run
    shares a minute of the machine with the judged runs. Borders of stretches depend on the labels of all runs, which
    only decides which runs come into which fold.
    """
    application, runtime = runs["application"].to_numpy(object), runs["runtime_s"].to_numpy(np.float64)
    overall = baselines(application, runtime)
    varied = labels(np.nan_to_num(z_scores(application, runtime, overall)), thresholds) >= variation_class(thresholds)
    usable, left = [], 0
    for number, (train, test) in enumerate(blocked(times_of(runs), varied, PARTS)):
        usual = baselines(application[train], runtime[train])
        z_train, z_test = (z_scores(application[part], runtime[part], usual) for part in (train, test))
        left += int(np.isnan(z_test).sum())
        train, z_train = train[~np.isnan(z_train)], z_train[~np.isnan(z_train)]
        test, z_test = test[~np.isnan(z_test)], z_test[~np.isnan(z_test)]
        train_label, test_label = labels(z_train, thresholds), labels(z_test, thresholds)
        if len(np.unique(train_label)) < 2:
            left += len(test)
            continue
        usable.append(Fold(str(number), train, test, train_label, test_label, usual))
    if not usable:
        raise InputError(
            f"none of {len(runs):,} runs can be judged: {int(varied.sum())} of them varied, all in one of {PARTS} stretches of time; collect more"
        )
    return usable, left


def predictions(
    features: Mapping[str, pd.DataFrame],
    runs: pd.DataFrame,
    learning: ClassifierTraining,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Return each classifier's predictions for the runs that its folds left out.

    ``features`` are sets of features by name (``own``, ``all``, or the true state for the ceiling), with the same rows
    as ``runs`` (``application start_s runtime_s``). One row per run and combination:
    ``features classifier fold row application start_s label varied`` (the run is of the class of variation),
    ``probability`` (of variation) and ``varies`` (by the cutoff).
    """
    for name, table in features.items():
        if len(table) != len(runs):
            raise ValueError(f"features {name!r} have {len(table)} rows, there are {len(runs)} runs")
    start, times = runs["start_s"].to_numpy(np.int64), times_of(runs)
    parts = folds(runs, learning.thresholds)[0]
    work = [(kind, name, fold) for fold in parts for kind in features for name in learning.names]

    def one(task: tuple[str, str, Fold]) -> pd.DataFrame:
        kind, name, fold = task
        train = features[kind].iloc[fold.train]
        model = learning.fit(name, train, fold.train_label, times.take(fold.train), fold.usual)
        probability = model.variation_of(model.predict_proba(features[kind].iloc[fold.test]))
        table = pd.DataFrame(
            {
                "row": fold.test,
                "application": runs["application"].to_numpy(object)[fold.test],
                "start_s": start[fold.test],
                "label": fold.test_label,
                "varied": fold.test_label >= learning.variation,
                "probability": probability,
                "varies": probability >= model.cutoff,
            }
        )
        return table.assign(features=kind, classifier=name, fold=fold.name)

    predicted = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # folds are independent
        for done, part in enumerate(pool.map(one, work)):
            predicted.append(part)
            if progress is not None:
                progress(done + 1, len(work))
    return pd.concat(predicted, ignore_index=True)


def forward(features: pd.DataFrame, runs: pd.DataFrame, since_s: int, learning: ClassifierTraining) -> pd.DataFrame:
    """Return what each classifier would have predicted for the runs after ``since_s``.

    One row per run, in order of starts. Time is cut into parts at ``since_s`` and ``FIRST_BLOCK_DAYS`` later, each part
    twice as long as the one before. A part uses only the runs that had ended before the counters' window of its first
    run can begin: their baselines label it, and models trained on them predict it. So predictions for a run stay the
    same as runs are added. Columns: ``row start_s varied`` (of the class of variation) and for each classifier whether
    it predicts that. Runs of an application without a baseline are left out. InputError if nothing can be learned from
    the ended runs.
    """
    application, runtime = runs["application"].to_numpy(object), runs["runtime_s"].to_numpy(np.float64)
    start = runs["start_s"].to_numpy(np.int64)
    times, parts = times_of(runs), []
    rows = np.flatnonzero(start > since_s + WINDOW_S)
    rows = rows[np.argsort(start[rows], kind="stable")]
    length_s = FIRST_BLOCK_DAYS * DAY_S
    part_of = np.floor(np.log2((start[rows] - since_s) / length_s + 1.0)).astype(np.int64)
    for number in np.unique(part_of).tolist():
        block, begin_s = rows[part_of == number], since_s + length_s * (2**number - 1)
        ended = np.flatnonzero(times.end_s <= begin_s - WINDOW_S)
        usual = baselines(application[ended], runtime[ended])
        z_known, z_block = (z_scores(application[part], runtime[part], usual) for part in (ended, block))
        ended, block, z_block = ended[~np.isnan(z_known)], block[~np.isnan(z_block)], z_block[~np.isnan(z_block)]
        thresholds = learning.thresholds
        label = labels(z_known[~np.isnan(z_known)], thresholds)
        part = pd.DataFrame({"row": block, "start_s": start[block], "varied": labels(z_block, thresholds) >= learning.variation})
        for name in learning.names:
            part[name] = learning.fit(name, features.iloc[ended], label, times.take(ended)).varies(features.iloc[block])
        parts.append(part)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["row", "start_s", "varied", *learning.names])


def measured(predicted: pd.DataFrame) -> dict[str, float]:
    """Return F1, precision, recall and average precision of a classifier's predictions.

    ``predicted`` are those of :func:`predictions`, pooled over the folds. NaN where there is nothing to count.
    """
    from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score

    varied, varies = predicted["varied"].to_numpy(bool), predicted["varies"].to_numpy(bool)
    ranked = average_precision_score(varied, predicted["probability"]) if varied.any() else np.nan
    return {
        "f1": float(f1_score(varied, varies, zero_division=np.nan)),
        "precision": float(precision_score(varied, varies, zero_division=np.nan)),
        "recall": float(recall_score(varied, varies, zero_division=np.nan)),
        "average_precision": float(ranked),
    }
