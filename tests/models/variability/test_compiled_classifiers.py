"""Classifiers as plain arrays: equal to the libraries that trained them, on what is easy to get wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from features.errors import InputError
from models.registry.variability_registration import variability_content
from models.variability.classifiers import CLASSIFIERS
from models.variability.compiled_classifiers import probabilities_of
from models.variability.learners import learn
from models.variability.model import Times, best_cutoff, fit, out_of_fold
from tests.support.contention import control_runs, labelled

SMALL = {name: {"trees": 10} for name in CLASSIFIERS}


def random_table(classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    table = rng.normal(0, 1, (300, 8)) * 10.0 ** rng.integers(-6, 9, 8)
    score = table[:, 0] / np.abs(table[:, 0]).max() + rng.normal(0, 0.3, 300)
    return table, np.digitize(score, np.quantile(score, np.linspace(0.6, 1, classes)[:-1])).astype(np.int64)


@pytest.fixture(scope="module")
def runs():
    return control_runs()


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_are_the_librarys_on_random_data(name):
    table, label = random_table(3)
    assert len(np.unique(label)) == 3
    learned = learn(name, table[:200], label[:200], 3, seed=3, options=SMALL[name])
    ours = probabilities_of(learned.arrays, table)
    np.testing.assert_allclose(ours, learned.estimator.predict_proba(table), rtol=0, atol=1e-9)
    assert len(np.unique(ours[:, -1])) > 5


@pytest.mark.slow
@pytest.mark.parametrize("thresholds", [(1.5,), (1.2, 1.5)])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_are_the_librarys_on_counters_with_missing_values(name, thresholds, runs):
    label = labelled(runs, thresholds)
    features = runs.features.iloc[:, ::3]
    features = features.mask(np.random.default_rng(1).random(features.shape) < 0.05)
    model = fit(name, features.iloc[:500], label[:500], seed=0, options=SMALL[name])
    train = features.iloc[:500].to_numpy()
    fills = np.nanmedian(train, axis=0)
    theirs = learn(name, np.where(np.isnan(train), fills, train), label[:500], len(thresholds) + 1, seed=0, options=SMALL[name])
    asked = features.iloc[500:].fillna(dict(zip(features, fills, strict=True)))
    np.testing.assert_allclose(
        model.predict_proba(features.iloc[500:]), theirs.estimator.predict_proba(asked.to_numpy()), rtol=0, atol=1e-9
    )
    np.testing.assert_array_equal(
        model.predict(features.iloc[500:]), theirs.estimator.predict_proba(asked.to_numpy()).argmax(axis=1)
    )


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_noise_in_the_table_changes_what_every_classifier_answers(name, runs):
    """Classifiers are trained from the table: from noise they learn something else."""
    label, features = labelled(runs, (1.5,)), runs.features.iloc[:, ::3]
    noise = pd.DataFrame(np.random.default_rng(3).permuted(features.to_numpy(), axis=0), columns=features.columns)
    model, from_noise = (fit(name, table.iloc[:500], label[:500], seed=0, options=SMALL[name]) for table in (features, noise))
    asked = features.iloc[500:]
    answers = model.predict_proba(asked)
    for others in (from_noise.predict_proba(asked), model.predict_proba(noise.iloc[500:])):
        assert (others != answers).any(axis=1).mean() > 0.25


@pytest.mark.parametrize("name", ["extra-trees", "decision-forest", "adaboost"])
def test_values_at_a_threshold_go_where_the_library_sends_them(name):
    """scikit-learn rounds values to float32 before it compares: all doubles around a threshold must fall on the side of their rounded value."""
    table, label = random_table(2, seed=5)
    learned = learn(name, table, label, 2, seed=0, options=SMALL[name])
    trees = [tree.tree_ for tree in learned.estimator.estimators_]
    feature, threshold = trees[0].feature[0], trees[0].threshold[0]
    below = np.float32(threshold)
    near = [threshold, *(float(np.nextafter(below, np.float32(to))) for to in (-np.inf, np.inf)), float(below)]
    near += [(a + b) / 2 for a in near for b in near]
    near = [np.nextafter(value, to) for value in near for to in (-np.inf, np.inf)] + near
    asked = np.tile(np.median(table, axis=0), (len(near), 1))
    asked[:, feature] = near
    np.testing.assert_allclose(probabilities_of(learned.arrays, asked), learned.estimator.predict_proba(asked), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_class_that_no_training_row_has_is_given_no_chance(name):
    table, label = random_table(2)
    learned = learn(name, table, 2 * label, 3, seed=0, options=SMALL[name])
    ours = probabilities_of(learned.arrays, table)
    theirs = learned.estimator.predict_proba(table)
    theirs = theirs[:, [0, 2]] if name == "ordinal" else theirs  # which knows of the class between
    np.testing.assert_allclose(ours[:, [0, 2]], theirs, rtol=0, atol=1e-9)
    assert (ours[:, 1] == 0).all()


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_same_seed_gives_the_same_model(name, runs):
    label = labelled(runs)
    one, two = (fit(name, runs.features.iloc[:, ::9], label, seed=4, options=SMALL[name]) for _ in range(2))
    assert one.cutoff == two.cutoff
    for ours, theirs in zip(one.arrays, two.arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_missing_values_are_counted_and_medians_stand_in(runs):
    features = runs.features.copy()
    features.iloc[:30, 0] = np.nan
    features.iloc[:, 1] = np.nan
    model = fit("lightgbm", features, labelled(runs), seed=0, columns=features.columns[:3], options={"trees": 5})
    assert model.missing.tolist() == [30, len(features), 0]
    assert model.missing_in(features.iloc[20:]) == {features.columns[0]: 10, features.columns[1]: len(features) - 20}
    assert model.arrays.fills[0] == features.iloc[30:, 0].median()
    assert model.arrays.fills[1] == 0
    stand_in = features.iloc[:1].assign(**{features.columns[0]: features.iloc[30:, 0].median(), features.columns[1]: 0.0})
    np.testing.assert_array_equal(model.predict_proba(features.iloc[:1]), model.predict_proba(stand_in))
    assert np.isnan(features.iloc[0, 0])  # the caller's table is left alone


def test_bad_tables_are_refused_by_name(runs):
    label = labelled(runs)
    model = fit("lightgbm", runs.features, label, seed=0, options={"trees": 2})
    with pytest.raises(InputError, match=r"1 of 282 columns are missing, the first is type\.io"):
        model.predict(runs.features.drop(columns="type.io"))
    broken = runs.features.copy()
    broken.iloc[4, 2] = np.inf
    with pytest.raises(InputError, match=f"row 4 .*column {broken.columns[2]}: inf"):
        model.predict(broken)
    with pytest.raises(ValueError, match=r"unknown classifier 'svm'; known: extra-trees"):
        fit("svm", runs.features, label, seed=0)
    with pytest.raises(ValueError, match="lightgbm has no option 'neighbours'"):
        fit("lightgbm", runs.features, label, seed=0, options={"neighbours": 3})
    with pytest.raises(InputError, match="cannot train lightgbm on 700 runs: either all of them vary, or none does"):
        fit("lightgbm", runs.features, np.zeros(len(label), np.int64), seed=0)


def test_the_cutoff_is_the_best_of_all_there_could_be():
    rng = np.random.default_rng(0)
    probability = rng.integers(0, 12, 200) / 12.0
    varies = rng.random(200) < probability * 0.4

    def f1(cutoff: float) -> float:
        predicted = probability >= cutoff
        return 2 * (predicted & varies).sum() / (predicted.sum() + varies.sum())

    best = max(f1(value) for value in probability)
    assert f1(best_cutoff(probability, varies)) == pytest.approx(best, abs=1e-15)
    assert best_cutoff(probability, np.zeros(200, bool)) == 0.5


def test_the_cutoff_judges_no_run_by_its_neighbours_in_time():
    """Runs of one hour share a label that no feature explains but the hour's own: out of its time the model is sure of nothing, and the cutoff knows it."""
    rng = np.random.default_rng(0)
    hour = np.repeat(np.arange(60), 10)
    features = pd.DataFrame({"state": rng.normal(size=60)[hour], "noise": rng.normal(size=600)})
    label = (rng.random(60) < 0.25)[hour].astype(np.int64)
    times = Times(3600.0 * hour, 3600.0 * hour + 60)
    model = fit("decision-forest", features, label, seed=0, options=SMALL["decision-forest"], times=times)
    assert model.cutoff_rows == 600
    assert model.cutoff < 0.4  # 0.6 where runs of the same hour judge


def test_blocks_in_which_nothing_can_be_learned_judge_nothing():
    features = pd.DataFrame({"x": np.arange(100.0)})
    label = (np.arange(100) >= 97).astype(np.int64)
    times = Times(3600.0 * np.arange(100), 3600.0 * np.arange(100) + 60)
    model = fit("decision-forest", features, label, seed=0, options={"trees": 5}, times=times)
    assert model.cutoff_rows == 80  # without the last block there is nothing that varies


@pytest.mark.slow
def test_each_set_of_classes_has_the_cutoff_that_is_best_for_it(runs):
    label, times = labelled(runs, (1.2, 1.5)), Times(runs.start_s.astype(float), runs.start_s + runs.runtime_s)
    given = {"seed": 0, "options": SMALL["adaboost"]}
    model = fit("adaboost", runs.features, label, classes=3, times=times, **given)
    probability = out_of_fold("adaboost", runs.features.to_numpy(), label, 3, times, **given)
    assert model.cutoffs == (best_cutoff(probability[:, 1:].sum(axis=1), label > 0), best_cutoff(probability[:, 2], label > 1))
    assert model.cutoff == model.cutoffs[1] < model.cutoffs[0]
    assert model.with_cutoff(0.9).cutoffs == (model.cutoffs[0], 0.9)


def test_importance_finds_the_columns_that_matter():
    rng = np.random.default_rng(2)
    table = rng.normal(size=(800, 5))
    label = (table[:, 1] + table[:, 3] > 1.2).astype(np.int64)
    for name in CLASSIFIERS:
        scores = learn(name, table, label, 2, seed=0, options=SMALL[name]).importance
        assert set(np.argsort(scores)[-2:]) == {1, 3}, name
        assert scores[[1, 3]].min() > 3 * np.abs(scores[[0, 2, 4]]).max(), name


def test_nearest_neighbours_are_scikit_learns_own_and_are_not_registered(runs):
    label, features = labelled(runs), runs.features.iloc[:, ::9]
    holed = features.mask(np.random.default_rng(1).random(features.shape) < 0.05)
    model = fit("knn", holed, label, seed=0)
    scaler = StandardScaler().fit(holed.fillna(holed.median()))
    theirs = KNeighborsClassifier(9, weights="distance", algorithm="kd_tree").fit(
        scaler.transform(holed.fillna(holed.median())), label
    )
    asked = scaler.transform(features.fillna(holed.median()))
    np.testing.assert_allclose(model.predict_proba(features), theirs.predict_proba(asked), rtol=0, atol=1e-9)
    content = variability_content(model, "own", (1.5,), features)
    with pytest.raises(ValueError, match="knn can be compared, not registered"):
        content.write(Path())
