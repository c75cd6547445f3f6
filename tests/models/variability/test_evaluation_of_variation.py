"""Cross-validation of variability models: nothing of the judged part is known in training, measures are scikit-learn's, intervals cover."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score

from features.clock import DAY_S
from features.monitoring.labels import baselines, labels, z_scores
from models.variability import evaluation
from models.variability.elimination import SMALLEST, eliminate, sizes
from models.variability.evaluation import (
    BLOCKED,
    LEFT_OUT,
    PROTOCOLS,
    ClassifierTraining,
    difference,
    earlier_medians,
    folds,
    measured,
    predictions,
    without_features,
)
from models.variability.time_blocks import Times
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
    """Own nodes, all nodes and the true contention with the type, by the two quick forests."""
    true_contention = control.contention[["network", "io"]].join(control.features.filter(like="type."))
    sets = {"own": control.features.iloc[:, ::12], "told": true_contention}
    quick, nodes = ClassifierTraining(("lightgbm",), options=FAST), {"own": sets["own"], "all": control.all_nodes.iloc[:, ::24]}
    forest = predictions(
        nodes, table_of(control), ClassifierTraining(("extra-trees",), options=FAST), protocols=(BLOCKED,), truth=control.truth
    )
    return pd.concat([predictions(sets, table_of(control), quick, truth=control.truth), forest], ignore_index=True)


def test_labels_of_a_fold_know_only_the_baselines_of_its_training_part(control):
    runs = table_of(control)
    fold = folds(runs, BLOCKED)[0][2]
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


def test_an_application_left_out_is_judged_by_its_own_runs_and_not_trained_on(control):
    for fold in folds(table_of(control), LEFT_OUT)[0]:
        name = fold.name.split()[0]
        assert set(control.application[fold.test]) == {name}
        assert name not in set(control.application[fold.train])
        assert name not in fold.usual.index
        own = control.runtime_s[control.application == name]
        np.testing.assert_array_equal(fold.test_label, (control.runtime_s[fold.test] > own.mean() + 1.5 * own.std()).astype(int))


def test_runs_without_a_baseline_are_counted_not_labelled(control):
    runs = table_of(control)
    runs.loc[5, "application"] = "only once"
    assert folds(runs, LEFT_OUT)[1] == 1
    assert folds(runs, BLOCKED)[1] == 1


def test_the_rows_without_counters_know_only_runs_that_ended_before(control):
    runs = table_of(control).iloc[:150].reset_index(drop=True)
    end = runs["start_s"] + runs["runtime_s"]
    for row, median in enumerate(earlier_medians(runs)):
        before = runs.index[(runs["application"] == runs["application"][row]) & (end <= runs["start_s"][row])]
        last = runs["runtime_s"][end[before].sort_values(kind="stable").index[-5:]]
        assert median == pytest.approx(last.median(), nan_ok=True)
    table = measured(without_features(runs, ClassifierTraining(), (BLOCKED,))).query("application == 'all'")
    f1 = table[table["measure"] == "f1"].set_index("classifier")
    share = f1["varied"] / f1["runs"]
    assert f1["value"]["constant"] == pytest.approx(2 * share["constant"] / (1 + share["constant"]))
    assert f1["predicted"]["median"] < f1["predicted"]["constant"] == f1["runs"]["constant"]


@pytest.mark.slow
def test_what_is_measured_is_what_scikit_learn_measures(control, predicted):
    asked = f"protocol == '{LEFT_OUT}' and features == 'own' and classifier == 'lightgbm'"
    own, rows = measured(predicted).query(asked), predicted.query(asked)
    for application, part in [("all", rows), ("LBANN", rows[rows["application"] == "LBANN"])]:
        for against, truth in [("label", part["label"]), ("truth", part["truth"])]:
            chosen = own.query(f"application == '{application}' and against == '{against}'").set_index("measure")
            expected = {
                "f1": f1_score(truth, part["varies"]),
                "precision": precision_score(truth, part["varies"]),
                "recall": recall_score(truth, part["varies"]),
                "average_precision": average_precision_score(truth, part["probability"]),
                "f1_likeliest": f1_score(truth, part["likeliest"]),
            }
            assert chosen["value"].to_dict() == pytest.approx(expected, abs=1e-12)
            assert (chosen["varied"] == truth.sum()).all()
            assert (chosen["predicted"] == part["varies"].sum()).all()


@pytest.mark.slow
def test_what_is_put_in_is_found_and_the_ceiling_is_above(predicted):
    table = measured(predicted)
    f1 = table[(table["measure"] == "f1") & (table["application"] == "all") & (table["against"] == "label")]
    own, top = (f1[f1["features"] == name].groupby("protocol")["value"].max() for name in ("own", "told"))
    assert top[BLOCKED] > 0.75
    assert top[LEFT_OUT] > 0.7  # no model knows how sensitive the left-out application is
    for protocol in PROTOCOLS:
        assert 0.5 < own[protocol] <= top[protocol] + 0.05  # both from some 60 runs that varied


def test_own_nodes_against_all_nodes_is_the_difference_of_both_on_the_same_runs(predicted):
    chosen = predicted[(predicted["protocol"] == BLOCKED) & (predicted["classifier"] == "extra-trees")]
    own, every = (chosen[chosen["features"] == kind] for kind in ("own", "all"))
    gap = difference(own, every.sample(frac=1, random_state=0)).set_index("measure")
    expected = f1_score(own["label"], own["varies"]) - f1_score(every["label"], every["varies"])
    assert gap["value"]["f1"] == pytest.approx(expected, abs=1e-12)
    assert gap["low"]["f1"] < expected < gap["high"]["f1"]
    assert difference(own, own).set_index("measure").loc["f1"].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="same runs in the same folds"):
        difference(own, every.iloc[1:])


def _judged(rng: np.random.Generator, days: int, often: int) -> pd.DataFrame:
    """Predictions of days that differ: each day has its own share of hits."""
    skill = np.repeat(np.clip(rng.normal(0.7, 0.2, days), 0, 1), often)
    varied = rng.random(days * often) < 0.3
    hit = rng.random(days * often) < skill
    says = np.where(varied, hit, ~hit & (rng.random(days * often) < 0.3))
    return pd.DataFrame(
        {
            "protocol": "p", "features": "f", "classifier": "c", "application": "a", "fold": "0", "row": np.arange(days * often),
            "start_s": np.repeat(np.arange(days), often) * DAY_S, "label": varied.astype(int), "varied": varied,
            "probability": says + rng.random(days * often) / 10, "varies": says, "likeliest": says.astype(int),
        }
    )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.slow
def test_intervals_cover_what_a_long_time_would_show(monkeypatch):
    monkeypatch.setattr(evaluation, "_RESAMPLES", 300)
    rng = np.random.default_rng(0)
    endless = _judged(rng, 20_000, 20)
    truth = f1_score(endless["label"], endless["varies"])
    covered = 0
    for _ in range(100):
        row = measured(_judged(rng, 25, 20)).set_index(["application", "measure"]).loc[("all", "f1")]
        covered += row["low"] <= truth <= row["high"]
    assert 86 <= covered <= 100


def test_few_days_have_no_interval():
    table = measured(_judged(np.random.default_rng(1), 4, 30))
    assert table["low"].isna().all()
    assert table["value"].notna().all()
    assert (table["days"] == 4).all()


@pytest.mark.slow
def test_three_classes_count_the_last_as_variation(control):
    some = predictions(
        {"own": control.features.iloc[:, ::18]},
        table_of(control),
        ClassifierTraining(("lightgbm",), (1.2, 1.5), options=FAST),
        protocols=(BLOCKED,),
    )
    assert set(some["label"]) == {0, 1, 2}
    assert some["varied"].equals(some["label"] == 2)
    table = measured(some, classes=3).set_index(["application", "measure"])["value"]
    assert table["all", "f1"] == pytest.approx(f1_score(some["label"] == 2, some["varies"]))
    assert table["all", "f1_likeliest"] == pytest.approx(f1_score(some["label"] == 2, some["likeliest"] == 2))


def test_the_same_seed_gives_the_same_predictions(control, predicted):
    sets, quick = {"own": control.features.iloc[:, ::12]}, ClassifierTraining(("lightgbm",), options=FAST)
    again = predictions(sets, table_of(control), quick, protocols=(BLOCKED,), truth=control.truth)
    first = predicted.query(f"protocol == '{BLOCKED}' and features == 'own' and classifier == 'lightgbm'")
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
    for name in ("extra-trees", "knn", "lightgbm"):
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
    forecast = predictions({"own": control.features.iloc[:, ::9]}, runs, learning, protocols=(BLOCKED,))
    assert (forecast["columns"] <= 6).all()
    judged = [fold.train for fold in folds(runs, BLOCKED)[0]]
    assert sorted(map(tuple, seen)) == sorted(map(tuple, judged))
