"""Cross-validation of variability models: nothing of the judged part is known in training, measures are scikit-learn's, intervals cover."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

from features.monitoring.labels import baselines, labels, z_scores
from models.variability import evaluation
from models.variability.evaluation import (
    SMALLEST,
    ClassifierTraining,
    eliminate,
    folds,
    measured,
    predictions,
    sizes,
)
from models.variability.model import Times
from tests.support.contention import control_runs

FAST = {
    "extra-trees": {"trees": 6},
    "lightgbm": {"trees": 6},
}


def table_of(control) -> pd.DataFrame:
    return pd.DataFrame({"application": control.application, "start_s": control.start_s, "runtime_s": control.runtime_s})


@pytest.fixture(scope="module")
def control():
    return control_runs(500, seed=1)


@pytest.fixture(scope="module")
def predicted(control):
    """Own nodes, and the true contention with the type, by a quick forest."""
    true_contention = control.contention[["network", "io"]].join(control.features.filter(like="type."))
    sets = {"own": control.features.iloc[:, ::12], "told": true_contention}
    return predictions(sets, table_of(control), ClassifierTraining(("lightgbm",), options=FAST))


def test_labels_of_a_fold_know_only_the_baselines_of_its_training_part(control):
    runs = table_of(control)
    fold = folds(runs)[0][2]
    slower = runs.copy()
    slower.loc[fold.test, "runtime_s"] *= 1.2
    mean = runs.loc[fold.train].groupby("application")["runtime_s"].mean()
    sigma = runs.loc[fold.train].groupby("application")["runtime_s"].std(ddof=0)
    judged = slower.loc[fold.test]
    z = (judged["runtime_s"] - judged["application"].map(mean)) / judged["application"].map(sigma)
    usual = baselines(runs["application"].to_numpy()[fold.train], runs["runtime_s"].to_numpy()[fold.train])
    assert fold.usual.equals(usual)
    ours = labels(z_scores(judged["application"], judged["runtime_s"], fold.usual))
    np.testing.assert_array_equal(ours, (z > 1.5).to_numpy().astype(int))


def test_runs_without_a_baseline_are_counted_not_labelled(control):
    runs = table_of(control)
    runs.loc[5, "application"] = "only once"
    assert folds(runs)[1] == 1


@pytest.mark.slow
def test_what_is_put_in_is_found_and_the_ceiling_is_above(predicted):
    f1 = {name: measured(part)["f1"] for name, part in predicted.groupby("features")}
    assert f1["told"] > 0.75
    assert 0.5 < f1["own"] <= f1["told"] + 0.05  # both from some 60 runs that varied


def test_what_has_nothing_to_count_is_no_number() -> None:
    none = pd.DataFrame({"varied": [False] * 3, "varies": [False] * 3, "probability": [0.1, 0.2, 0.3]})
    assert all(map(np.isnan, measured(none).values()))
    assert measured(none.assign(varied=True)) == {
        "f1": 0.0,
        "precision": pytest.approx(np.nan, nan_ok=True),
        "recall": 0.0,
        "average_precision": 1.0,
    }


@pytest.mark.slow
def test_three_classes_count_the_last_as_variation(control):
    some = predictions(
        {"own": control.features.iloc[:, ::18]},
        table_of(control),
        ClassifierTraining(("lightgbm",), (1.2, 1.5), options=FAST),
    )
    assert set(some["label"]) == {0, 1, 2}
    assert some["varied"].equals(some["label"] == 2)
    assert measured(some)["f1"] == pytest.approx(f1_score(some["label"] == 2, some["varies"]))


def test_the_same_seed_gives_the_same_predictions(control, predicted):
    sets, quick = {"own": control.features.iloc[:, ::12]}, ClassifierTraining(("lightgbm",), options=FAST)
    again = predictions(sets, table_of(control), quick)
    first = predicted[predicted["features"] == "own"]
    pd.testing.assert_frame_equal(first.reset_index(drop=True), again)


def test_sizes_fall_by_the_root_of_two():
    steps = sizes(282)
    assert steps[:8] == [282, 199, 141, 100, 70, 50, 35, 25]
    assert steps[-1] >= SMALLEST


@pytest.mark.slow
def test_elimination_keeps_what_matters_and_prefers_the_smaller_of_equals():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(600, 40)), columns=[f"c{number}" for number in range(40)])
    label = (table["c3"] + table["c17"] > 1.8).astype(np.int64).to_numpy()
    times = Times(3600.0 * np.arange(600), 3600.0 * np.arange(600) + 60)
    for name in ("extra-trees", "lightgbm"):
        kept = eliminate(name, table, label, times, seed=0, options=FAST.get(name))
        assert set(kept.columns[:2]) == {"c3", "c17"}, name
        assert len(kept.columns) <= 14, name
        assert kept.path["columns"].tolist() == sizes(40)
        assert kept.path["f1"].max() - kept.path.set_index("columns")["f1"][len(kept.columns)] <= 0.005


@pytest.mark.slow
def test_elimination_in_an_evaluation_sees_the_training_part_alone(control, monkeypatch):
    seen = []

    def watched(name, features, label, times, **given):
        seen.append(features.index.to_numpy())
        return eliminate(name, features.iloc[:, :6], label, times, **given)

    monkeypatch.setattr(evaluation, "eliminate", watched)
    runs = table_of(control)
    learning = ClassifierTraining(("lightgbm",), elimination=True, options={"lightgbm": {"trees": 2}})
    predictions({"own": control.features.iloc[:, ::9]}, runs, learning)
    judged = [fold.train for fold in folds(runs)[0]]
    assert sorted(map(tuple, seen)) == sorted(map(tuple, judged))
