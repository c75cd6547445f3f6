"""The six classifiers of performance variation, trained by libraries; five become arrays.

Nichols et al. compare extra trees, decision forests, k nearest neighbours and AdaBoost. LightGBM is added, and
``ordinal``: LightGBM that predicts for each class from the second on whether the run is of it or above (Frank & Hall,
"A simple approach to ordinal classification", 2001). Each but the nearest neighbours is converted to the arrays of
``models.variability.compiled_classifiers``. Variation is rare: learners weight rows so that classes have equal weight,
except the nearest neighbours, which take no weights, and ``ordinal``, whose probabilities must be frequencies. Training
is seeded and on one thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.ensemble import AdaBoostClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.class_weight import compute_sample_weight

from features.errors import InputError
from models.trees import plain_trees
from models.variability.classifiers import NEAREST, OPTIONS, ORDINAL
from models.variability.compiled_classifiers import EXCEEDS, SCORES, SHARES, Arrays


@dataclass(frozen=True)
class Learned:
    """A fitted library ``estimator``, its ``arrays`` and ``importance`` of columns.

    Only trees have arrays. ``importance`` is float64 [columns], summing to 1.
    """

    estimator: Any
    arrays: Arrays | None
    importance: np.ndarray


def learn(
    name: str, table: np.ndarray, label: np.ndarray, classes: int, *, seed: int, options: Mapping[str, Any] | None = None
) -> Learned:
    """Train ``name`` on ``table`` float64 [rows, columns] and ``label`` int64 [rows].

    ``table`` has no missing values, labels are in 0..classes - 1. Importances are the learner's own; the nearest
    neighbours have none (NaN; see ``models.variability.evaluation``). ValueError for an unknown name or option,
    InputError if all labels are equal.
    """
    if name not in OPTIONS:
        raise ValueError(f"unknown classifier {name!r}; known: {', '.join(OPTIONS)}")
    if unknown := set(options or {}) - set(OPTIONS[name]):
        raise ValueError(f"{name} has no option {sorted(unknown)[0]!r}: it has {', '.join(OPTIONS[name])}")
    if len(np.unique(label)) < 2:
        raise InputError(f"cannot train {name} on {len(label)} runs: either all of them vary, or none does")
    if name == ORDINAL:
        return _ordinal(table, label, classes, {**OPTIONS[name], **(options or {})}, seed)
    estimator = _untrained(name, {**OPTIONS[name], **(options or {})}, len(label), seed)
    if name == "adaboost":  # the only learner with weights of rows, not of classes
        estimator.fit(table, label, sample_weight=compute_sample_weight("balanced", label))
    else:
        estimator.fit(table, label)
    if name == NEAREST:
        return Learned(estimator, None, np.full(table.shape[1], np.nan))
    gained = np.asarray(estimator.feature_importances_, np.float64)
    return Learned(estimator, _trees(estimator, classes), gained / gained.sum() if gained.sum() > 0 else gained)


@dataclass(frozen=True)
class Ordinal:
    """One LightGBM classifier for each class from the second on: is a run of it or above.

    None if all training runs are or none is: then ``base`` float64 [classes] is infinite.
    """

    above: tuple[LGBMClassifier | None, ...]
    base: np.ndarray

    def predict_proba(self, table: np.ndarray) -> np.ndarray:
        """Return the probability of each class, float64 [rows, classes]."""
        ends = [np.ones(len(table))]
        for estimator, base in zip(self.above, self.base[1:], strict=True):
            # a class that no run reaches, or that every run reaches, has no estimator
            probability = np.full(len(table), float(base > 0))
            if estimator is not None:
                probability = np.asarray(estimator.predict_proba(table))[:, 1]
            ends.append(np.minimum(ends[-1], probability))
        return -np.diff(np.array([*ends, np.zeros(len(table))]), axis=0).T


def _ordinal(table: np.ndarray, label: np.ndarray, classes: int, options: Mapping[str, Any], seed: int) -> Learned:
    """Train a classifier of two classes for each class from the second on: is a run of it or above?"""
    base, trees, gained = np.zeros(classes), [], np.zeros(table.shape[1])
    estimators: list[LGBMClassifier | None] = []
    for first in range(1, classes):
        above = label >= first
        if above.all() or not above.any():
            base[first] = np.inf if above.all() else -np.inf
            estimators.append(None)
            continue
        estimator = _untrained("lightgbm", options, len(label), seed).set_params(class_weight=None)
        estimator.fit(table, above)
        estimators.append(estimator)
        gained += estimator.feature_importances_
        for links, thresholds, values in plain_trees(estimator.booster_):
            leaves = np.zeros((len(values), classes))
            leaves[:, first] = values
            trees.append((links[: len(values) - 1], thresholds[: len(values) - 1], leaves))
    return Learned(
        Ordinal(tuple(estimators), base),
        _arrays(EXCEEDS, base, **_joined(trees)),
        gained / gained.sum() if gained.sum() > 0 else gained,
    )


def _untrained(name: str, options: Mapping[str, Any], rows: int, seed: int) -> Any:
    if name in ("extra-trees", "decision-forest"):
        forest = ExtraTreesClassifier if name == "extra-trees" else RandomForestClassifier
        return forest(
            options["trees"], min_samples_leaf=options["min_rows_in_leaf"], class_weight="balanced", random_state=seed, n_jobs=1
        )
    if name == NEAREST:  # a k-d tree computes each distance exactly; brute force loses digits
        nearest = KNeighborsClassifier(min(options["neighbours"], rows), weights="distance", algorithm="kd_tree")
        return make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler(), nearest)
    if name == "adaboost":  # the best of random thresholds takes a tenth of the time of all thresholds
        tree = DecisionTreeClassifier(max_depth=options["depth"], splitter="random")
        return AdaBoostClassifier(tree, n_estimators=options["trees"], learning_rate=options["learning_rate"], random_state=seed)
    return LGBMClassifier(
        n_estimators=options["trees"],
        num_leaves=options["leaves"],
        learning_rate=options["learning_rate"],
        min_child_samples=options["min_rows_in_leaf"],
        class_weight="balanced",
        importance_type="gain",
        random_state=seed,
        n_jobs=1,
        deterministic=True,
        force_row_wise=True,  # otherwise LightGBM times both ways and may choose differently
        use_missing=False,
        feature_pre_filter=False,  # columns that cannot be split are kept: LightGBM refuses to train if none is left
        verbosity=-1,
    )


def _trees(estimator: Any, classes: int) -> Arrays:
    """Convert the trees of any library.

    A leaf holds its share of the mean over trees (forests) or its addition to the score of each class.
    """
    present = np.asarray(estimator.classes_, np.int64)
    base = np.zeros(classes)
    if isinstance(estimator, LGBMClassifier):
        base[np.setdiff1d(np.arange(classes), present)] = -np.inf
        return _arrays(SCORES, base, **_joined(_of_lightgbm(estimator, present, classes)))
    if isinstance(estimator, AdaBoostClassifier):
        base[np.setdiff1d(np.arange(classes), present)] = -np.inf
        return _arrays(SCORES, base, **_joined(_of_adaboost(estimator, present, classes)))
    trees = []
    for grown in estimator.estimators_:
        leaves = np.zeros((grown.tree_.node_count, classes))
        leaves[:, present] = grown.tree_.value[:, 0, :] / len(estimator.estimators_)
        trees.append(_of_scikit_learn(grown.tree_, leaves))
    return _arrays(SHARES, base, **_joined(trees))


_Tree = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Links int64 [nodes, 3], thresholds float64 [nodes], leaves float64 [leaves, classes]; without nodes if the tree is
one leaf."""


def _of_scikit_learn(tree: Any, values: np.ndarray) -> _Tree:
    """Convert a tree of scikit-learn; ``values`` float64 [rows, classes] belong to its rows.

    Rows are nodes and leaves alike.
    """
    leaf = tree.children_left < 0
    place = np.where(leaf, -np.cumsum(leaf), np.cumsum(~leaf) - 1)
    inner = ~leaf
    links = np.column_stack([tree.feature[inner], place[tree.children_left[inner]], place[tree.children_right[inner]]])
    return links.astype(np.int64), _for_doubles(tree.threshold[inner]), values[leaf]


def _for_doubles(thresholds: np.ndarray) -> np.ndarray:
    """Return thresholds for float64 values from those for values rounded to float32.

    scikit-learn rounds values first. Each is the largest value that this does not bring above the threshold.
    """
    below = thresholds.astype(np.float32)
    below = np.where(below.astype(np.float64) > thresholds, np.nextafter(below, np.float32(-np.inf)), below)
    half = (below.astype(np.float64) + np.nextafter(below, np.float32(np.inf)).astype(np.float64)) / 2
    odd = below.view(np.uint32) & 1 == 1  # halfway values round to the even neighbour
    return np.where(odd, np.nextafter(half, -np.inf), half)


def _of_adaboost(estimator: AdaBoostClassifier, present: np.ndarray, classes: int) -> list[_Tree]:
    """Convert AdaBoost: each tree votes with its weight for the class of its leaf.

    As in scikit-learn, votes are divided by the sum of weights and by the number of classes less one.
    """
    others = len(present) - 1
    shares = estimator.estimator_weights_ / estimator.estimator_weights_.sum()
    trees = []
    for grown, share in zip(estimator.estimators_, shares, strict=False):  # if boosting stopped early, further weights are 0
        leaves = np.zeros((grown.tree_.node_count, classes))
        leaves[:, present] = -share / others**2
        leaves[np.arange(len(leaves)), present[grown.tree_.value[:, 0, :].argmax(axis=1)]] = share / others
        trees.append(_of_scikit_learn(grown.tree_, leaves))
    return trees


def _of_lightgbm(estimator: LGBMClassifier, present: np.ndarray, classes: int) -> list[_Tree]:
    """Convert LightGBM: trees of all classes in turn, or of the second of two classes alone."""
    turns = present[1:] if len(present) == 2 else present
    trees = []
    for number, (links, thresholds, values) in enumerate(plain_trees(estimator.booster_)):
        leaves = np.zeros((len(values), classes))
        leaves[:, turns[number % len(turns)]] = values
        trees.append((links[:0], thresholds[:0], leaves) if len(values) == 1 else (links, thresholds, leaves))
    return trees


def _joined(trees: list[_Tree]) -> dict[str, np.ndarray]:
    """Join all trees in one table, with nodes and leaves numbered across trees."""
    nodes = np.cumsum([0, *(len(links) for links, _, _ in trees)])
    leaves = np.cumsum([0, *(len(values) for _, _, values in trees)])
    linked = []
    for (links, _, _), node, leaf in zip(trees, nodes, leaves, strict=False):
        children = links[:, 1:]
        linked.append(np.column_stack([links[:, 0], np.where(children < 0, children - leaf, children + node)]))
    single = np.array([len(links) == 0 for links, _, _ in trees])
    return {
        "roots": np.where(single, -1 - leaves[:-1], nodes[:-1]),
        "links": np.concatenate(linked),
        "thresholds": np.concatenate([thresholds for _, thresholds, _ in trees]),
        "leaves": np.concatenate([values for _, _, values in trees]),
    }


def _arrays(kind: int, base: np.ndarray, **trees: np.ndarray) -> Arrays:
    return Arrays(kind=kind, fills=np.empty(0), base=base, **{name: np.ascontiguousarray(part) for name, part in trees.items()})
