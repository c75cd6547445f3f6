"""Cross-validation of variation classifiers on control runs, after Nichols et al. (RUSH).

Folds are blocks of time, or leave one application out. The paper does not mention time, but runs minutes apart share the
machine's state: under both protocols training runs lie in other stretches of time than judged ones, with a gap between
(:mod:`models.variability.time_blocks`). Baselines, labels, medians, cutoff and the choice of columns come from the training part
alone. Only the labels of a left-out application come from its own runs, which the model never sees. Intervals resample days,
whose runs share the machine's state (``features.statistics``).
"""

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
from features.statistics import FEWEST_BLOCKS, drawn, tail
from models.variability.classifiers import ORDINAL, ORDINAL_CUTOFF, PUBLISHED
from models.variability.elimination import eliminate
from models.variability.model import NO_BASELINES, VariabilityModel, fit
from models.variability.time_blocks import Times, apart, blocked, stretches, times_of

BLOCKED, LEFT_OUT = "blocks-of-time", "leave-one-application-out"
PROTOCOLS = (BLOCKED, LEFT_OUT)
PARTS = {BLOCKED: 5, LEFT_OUT: 3}
"""Number of stretches of time. Each application is left out of every stretch separately: three need three times the trainings."""
MEASURES = ("f1", "precision", "recall", "average_precision", "f1_likeliest")
"""``f1_likeliest`` is F1 of the class with the highest probability, the libraries' own prediction, instead of the cutoff."""
ALL = "all"
FIRST_BLOCK_DAYS = 7
"""Days after a champion's training until classifiers are first retrained to judge it; each later step takes twice as many."""
CONSTANT, MEDIAN = "constant", "median"
NOTHING = "none"
"""The features of :func:`without_features`."""
RECENT_RUNS = 5
_RESAMPLES = 1000
_AT_ONCE = 100
"""Resamples computed together."""
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class ClassifierTraining:
    """Which classifiers are trained, and how.

    ``thresholds`` of z divide the classes; with ``elimination`` columns are chosen inside each training part; ``options`` are by
    classifier.
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
        z: np.ndarray | None = None,
    ) -> VariabilityModel:
        """Train the classifier ``name``; other arguments as in ``models.variability.model.fit``.

        If a table has the situation of a start, ``ordinal`` reads its DELAY_FEATURES, the others all but MORE_FEATURES. The
        cutoff of ``ordinal`` is not chosen but ORDINAL_CUTOFF.
        """
        ordinal = name == ORDINAL
        if set(SITUATION_FEATURES) <= set(features.columns):
            others = [column for column in features.columns if column not in MORE_FEATURES]
            features = features[[column for column in DELAY_FEATURES if column in features] if ordinal else others]
        settings: dict[str, Any] = {"seed": self.seed, "options": self.options.get(name), "classes": self.classes}
        columns = eliminate(name, features, label, times=times, **settings).columns if self.elimination else None
        settings |= {"columns": columns, "baselines": usual, "variation": self.variation, "z": z}
        model = fit(name, features, label, times=None if ordinal else times, **settings)
        return model.with_cutoff(ORDINAL_CUTOFF) if ordinal else model


@dataclass(frozen=True)
class Fold:
    """One training and one judged part: rows, and the labels of both, int64."""

    protocol: str
    name: str
    train: np.ndarray
    test: np.ndarray
    train_label: np.ndarray
    test_label: np.ndarray
    usual: pd.DataFrame


def folds(runs: pd.DataFrame, protocol: str, *, thresholds: Sequence[float] = BINARY) -> tuple[list[Fold], int]:
    """Return the folds of ``protocol`` over ``runs``, and how many runs no fold judges.

    ``runs`` has ``application start_s runtime_s``. Runs of an application without a baseline are not judged, nor are whole folds
    whose training part lacks varied or other runs; InputError if that is so for all folds. No training run shares a minute of the
    machine with the judged runs. A left-out application is judged stretch by stretch, by models that know neither it nor the
    stretch. Borders of stretches depend on the labels of all runs, which only decides which runs come into which fold.
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"unknown protocol {protocol!r}; known: {', '.join(PROTOCOLS)}")
    application, runtime = runs["application"].to_numpy(object), runs["runtime_s"].to_numpy(np.float64)
    overall = baselines(application, runtime)
    varied = labels(np.nan_to_num(z_scores(application, runtime, overall)), thresholds) >= variation_class(thresholds)
    times, parts = times_of(runs), PARTS[protocol]
    pairs: list[tuple[str, np.ndarray, np.ndarray]] = []
    if protocol == BLOCKED:
        pairs = [(str(number), *pair) for number, pair in enumerate(blocked(times, varied, parts))]
    else:
        turn = stretches(times, varied, parts)
        for number in range(parts):
            stretch, others = np.flatnonzero(turn == number), np.flatnonzero(turn != number)
            others = apart(times, others, stretch)
            for name in np.unique(application[stretch]):
                own = stretch[application[stretch] == name]
                pairs.append((f"{name} {number}", others[application[others] != name], own))
    usable, left = [], 0
    for fold, train, test in pairs:
        usual = baselines(application[train], runtime[train])
        z_train = z_scores(application[train], runtime[train], usual)
        z_test = z_scores(application[test], runtime[test], overall if protocol == LEFT_OUT else usual)
        left += int(np.isnan(z_test).sum())
        train, z_train = train[~np.isnan(z_train)], z_train[~np.isnan(z_train)]
        test, z_test = test[~np.isnan(z_test)], z_test[~np.isnan(z_test)]
        train_label, test_label = labels(z_train, thresholds), labels(z_test, thresholds)
        if len(np.unique(train_label)) < 2:
            left += len(test)
            continue
        usable.append(Fold(protocol, fold, train, test, train_label, test_label, usual))
    if not usable:
        raise InputError(
            f"none of {len(runs):,} runs can be judged: {int(varied.sum())} of them varied, all in one of {parts} stretches of time; collect more"
        )
    return usable, left


def predictions(
    features: Mapping[str, pd.DataFrame],
    runs: pd.DataFrame,
    learning: ClassifierTraining,
    *,
    protocols: Sequence[str] = PROTOCOLS,
    truth: np.ndarray | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Return each classifier's predictions for the runs that its folds left out.

    ``features`` are sets of features by name (``own``, ``all``, or the true state for the ceiling), with the same rows as
    ``runs`` (``application start_s runtime_s``). ``truth`` int [runs] is what really happened, if known. One row per run and
    combination: ``protocol features classifier fold columns row application start_s label varied`` (the run is of the class of
    variation), ``truth`` (only if given), ``probability`` (of variation), ``varies`` (by the cutoff) and ``likeliest`` (class).
    """
    for name, table in features.items():
        if len(table) != len(runs):
            raise ValueError(f"features {name!r} have {len(table)} rows, there are {len(runs)} runs")
    start, times = runs["start_s"].to_numpy(np.int64), times_of(runs)
    work = [
        (kind, name, fold)
        for protocol in protocols
        for fold in folds(runs, protocol, thresholds=learning.thresholds)[0]
        for kind in features
        for name in learning.names
    ]

    def one(task: tuple[str, str, Fold]) -> pd.DataFrame:
        kind, name, fold = task
        train = features[kind].iloc[fold.train]
        model = learning.fit(name, train, fold.train_label, times.take(fold.train), fold.usual)
        probability = model.predict_proba(features[kind].iloc[fold.test])
        table = pd.DataFrame(
            {
                "row": fold.test,
                "application": runs["application"].to_numpy(object)[fold.test],
                "start_s": start[fold.test],
                "label": fold.test_label,
                "varied": fold.test_label >= learning.variation,
                "probability": model.variation_of(probability),
                "varies": model.variation_of(probability) >= model.cutoff,
                "likeliest": probability.argmax(axis=1),
            }
        )
        if truth is not None:
            table["truth"] = np.asarray(truth, np.int64)[fold.test]
        identity = {
            "protocol": fold.protocol,
            "features": kind,
            "classifier": name,
            "fold": fold.name,
            "columns": len(model.columns),
        }
        return pd.concat([pd.DataFrame(identity, index=table.index), table], axis=1)

    parts = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # folds are independent
        for done, part in enumerate(pool.map(one, work)):
            parts.append(part)
            if progress is not None:
                progress(done + 1, len(work))
    return pd.concat(parts, ignore_index=True)


def earlier_medians(runs: pd.DataFrame, last: int = RECENT_RUNS) -> np.ndarray:
    """Return the median runtime of the last runs of a run's application before it.

    Of the ``last`` runs that had ended at its start; seconds, float64 [runs]; NaN if none had. ``runs`` has ``application start_s
    runtime_s``.
    """
    times, runtime = times_of(runs), runs["runtime_s"].to_numpy(np.float64)
    medians = np.full(len(runs), np.nan)
    application = runs["application"].to_numpy(object)
    for name in np.unique(application):
        own = np.flatnonzero(application == name)
        by_end = own[np.argsort(times.end_s[own], kind="stable")]
        ended = np.searchsorted(times.end_s[by_end], times.start_s[own], side="right")
        for row, count in zip(own.tolist(), ended.tolist(), strict=True):
            if count:
                medians[row] = np.median(runtime[by_end[max(count - last, 0) : count]])
    return medians


def without_features(runs: pd.DataFrame, learning: ClassifierTraining, protocols: Sequence[str] = PROTOCOLS) -> pd.DataFrame:
    """Return what is known of judged runs without features.

    The columns are those of :func:`predictions`.
    ``constant`` says of every run that it varies. ``median`` takes a run to last as long as :func:`earlier_medians`, and warns
    if that varies. Probabilities are 0 or 1. What learns from counters has to beat both.
    """
    medians, parts = earlier_medians(runs), []
    limit = learning.thresholds[learning.variation - 1]
    for fold in (fold for protocol in protocols for fold in folds(runs, protocol, thresholds=learning.thresholds)[0]):
        judged = runs.iloc[fold.test]
        usual = fold.usual if fold.protocol == BLOCKED else baselines(runs["application"], runs["runtime_s"])
        usual = usual.reindex(judged["application"])
        z = (medians[fold.test] - usual["mean_s"].to_numpy()) / usual["sigma_s"].to_numpy()
        for name, varies in ((CONSTANT, np.ones(len(z), bool)), (MEDIAN, z > limit)):
            part = judged[["application", "start_s"]].assign(protocol=fold.protocol, features=NOTHING, classifier=name, columns=0)
            part = part.assign(fold=fold.name, row=fold.test, label=fold.test_label, varied=fold.test_label >= learning.variation)
            parts.append(part.assign(probability=varies.astype(np.float64), varies=varies, likeliest=varies * learning.variation))
    return pd.concat(parts, ignore_index=True)


def forward(features: pd.DataFrame, runs: pd.DataFrame, since_s: int, learning: ClassifierTraining) -> pd.DataFrame:
    """Return what each classifier would have predicted for the runs after ``since_s``.

    One row per run, in order of starts. Time is cut into parts at ``since_s`` and ``FIRST_BLOCK_DAYS`` later, each part twice as
    long as the one before. A part uses only the runs that had ended before the counters' window of its first run can begin: their
    baselines label it, and models trained on them predict it. So predictions for a run stay the same as runs are added. Columns:
    ``row start_s varied`` (of the class of variation) and for each classifier whether it predicts that. Runs of an application
    without a baseline are left out. InputError if nothing can be learned from the ended runs.
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


def measured(predicted: pd.DataFrame, *, classes: int = 2, seed: int = 0) -> pd.DataFrame:
    """Return F1, precision, recall and average precision of :func:`predictions`.

    Pooled over folds and by application, against labels and, if given, truth. One row for each ``protocol features classifier
    application`` (``all``: pooled) ``against`` (``label`` or ``truth``) ``measure``: ``value low high`` (95 % over days; NaN with
    fewer than five, or if some resample has nothing to count), ``runs``, ``varied`` (how many of them), ``predicted`` (how many
    to vary) and ``days``. ``f1_likeliest`` counts classes from ``classes - 1`` on as variation.
    """
    rows = []
    for (protocol, kind, name), of_all in predicted.groupby(["protocol", "features", "classifier"], sort=False):
        for application, of_one in [(ALL, of_all), *of_all.groupby("application", sort=True)]:
            day = _days(of_one["start_s"])
            counts = {"runs": len(of_one), "predicted": int(of_one["varies"].sum()), "days": int(day.max()) + 1}
            identity = {"protocol": protocol, "features": kind, "classifier": name, "application": application}
            for against in ("label", "truth"):
                if against == "label" or "truth" in of_one:
                    varied = (of_one["varied"] if against == "label" else of_one["truth"] > 0).to_numpy(bool)
                    values, low, high = _with_intervals(_terms(of_one, varied, classes), day, seed)
                    for place, measure in enumerate(MEASURES):
                        figures = {"value": values[place], "low": low[place], "high": high[place], "varied": int(varied.sum())}
                        rows.append({**identity, "against": against, "measure": measure, **figures, **counts})
    return pd.DataFrame(rows)


def difference(one: pd.DataFrame, other: pd.DataFrame, *, classes: int = 2, seed: int = 0) -> pd.DataFrame:
    """Return ``one`` minus ``other`` on the same runs, folds: ``value low high`` by measure.

    For example own nodes minus all nodes. Both are parts of :func:`predictions` with one row per run. Days are resampled for both
    together. ValueError if the runs are not the same.
    """
    one, other = (runs.sort_values("row").reset_index(drop=True) for runs in (one, other))
    if not one[["row", "fold"]].equals(other[["row", "fold"]]):
        raise ValueError("a paired difference needs the same runs in the same folds")
    varied, day = one["varied"].to_numpy(bool), _days(one["start_s"])
    first, second = (_terms(runs, varied, classes) for runs in (one, other))
    value, low, high = _with_intervals(first, day, seed, second)
    return pd.DataFrame({"measure": MEASURES, "value": value, "low": low, "high": high})


def _days(start_s: pd.Series) -> np.ndarray:
    return np.unique(start_s.to_numpy(np.int64) // DAY_S, return_inverse=True)[1]


@dataclass(frozen=True)
class _Terms:
    """Terms of the measures by run: hits, predictions, truths, and order of probabilities.

    Hits and predictions are by cutoff and by likeliest class.
    """

    sums: np.ndarray
    """float64 [runs, 5]: hit, predicted, varied, hit (likeliest), predicted (likeliest)."""
    order: np.ndarray
    last: np.ndarray
    """Last places in ``order`` of each probability."""

    def __call__(self, weight: np.ndarray) -> np.ndarray:
        """Return measures with runs counted ``weight`` times: float64 [resamples, measures].

        ``weight`` is [resamples, runs]; NaN where there is nothing to count.
        """
        hit, predicted, varied, hit_too, said_too = (weight @ self.sums).T
        with np.errstate(invalid="ignore", divide="ignore"):
            ranked = weight[:, self.order]
            hits_so_far = np.cumsum(ranked * self.sums[self.order, 2], axis=1)[:, self.last]
            precision = hits_so_far / np.cumsum(ranked, axis=1)[:, self.last]
            steps = np.diff(hits_so_far, axis=1, prepend=0.0)
            average = np.where(steps > 0, steps * precision, 0.0).sum(axis=1) / varied
            f1, likeliest = 2 * hit / (predicted + varied), 2 * hit_too / (said_too + varied)
            return np.column_stack([f1, hit / predicted, hit / varied, average, likeliest])


def _terms(predicted: pd.DataFrame, varied: np.ndarray, classes: int) -> _Terms:
    by_cutoff, likeliest = predicted["varies"].to_numpy(bool), predicted["likeliest"].to_numpy() >= classes - 1
    probability = predicted["probability"].to_numpy(np.float64)
    order = np.argsort(-probability, kind="stable")
    last = np.flatnonzero(np.append(np.diff(probability[order]) < 0, True))
    sums = np.column_stack([by_cutoff & varied, by_cutoff, varied, likeliest & varied, likeliest]).astype(np.float64)
    return _Terms(sums, order, last)


def _with_intervals(
    terms: _Terms, day: np.ndarray, seed: int, less: _Terms | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values of all measures (less those of ``less``) and ends of their intervals.

    Each is float64 [measures].
    """

    def values(weight: np.ndarray) -> np.ndarray:
        return terms(weight) - (less(weight) if less is not None else 0.0)

    measures, days = values(np.ones((1, len(day))))[0], int(day.max()) + 1
    if days < FEWEST_BLOCKS:
        return measures, np.full(len(measures), np.nan), np.full(len(measures), np.nan)
    draws = drawn(days, _RESAMPLES, seed)
    resampled = np.concatenate([values(draws[first : first + _AT_ONCE][:, day]) for first in range(0, len(draws), _AT_ONCE)])
    cut = tail(_CONFIDENCE, days)
    low, high = np.quantile(resampled, [cut, 1.0 - cut], axis=0)  # NaN where a resample has nothing to count
    return measures, low, high
