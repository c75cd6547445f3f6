"""Registered variability models: the record of a version, self-containment, the champion."""

from __future__ import annotations

import json
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S
from features.errors import InputError
from features.monitoring.labels import BINARY, DELAYS, THREE_CLASSES, baselines, variation_class
from models.packed.variability_predictor import VariabilityPredictor
from models.registry.packing import assemble
from models.registry.policy_registration import register
from models.registry.promotion import decide
from models.registry.registration import Candidate, Training, log_and_register
from models.registry.start_registration import START, start_content
from models.registry.variability_promotion import JUDGED_DAYS, compare_classifiers, f1_evidence
from models.registry.variability_registration import (
    VARIABILITY,
    from_directory,
    load_version,
    registered_classifier,
    variability_content,
)
from models.variability.classifiers import CLASSIFIERS
from models.variability.model import fit
from tests.models.registry.alone import answers_alone
from tests.models.registry.test_packed_model import save, submission
from tests.models.test_policies import LEARNED
from tests.support.contention import control_runs, labelled
from tests.support.learning import ORIGIN_S, ZONE
from tests.support.queues import start_model

THRESHOLDS = {"adaboost": THREE_CLASSES, "ordinal": DELAYS}
"""Of classifiers of more than two classes."""
FAST = {"extra-trees": {"trees": 10}, "decision-forest": {"trees": 10}, "adaboost": {"trees": 5}, "lightgbm": {"trees": 10}}


@pytest.fixture(scope="module")
def runs():
    return control_runs(400, seed=2)


@pytest.fixture(scope="module")
def classifiers(runs):
    fitted = {}
    for name in CLASSIFIERS:
        thresholds = THRESHOLDS.get(name, BINARY)
        features = runs.features.mask(np.random.default_rng(3).random(runs.features.shape) < 0.02).iloc[:, ::5]
        usual = baselines(runs.application, runs.runtime_s)
        given = {"baselines": usual, "classes": len(thresholds) + 1, "variation": variation_class(thresholds)}
        fitted[name] = fit(name, features, labelled(runs, thresholds), seed=0, options=FAST.get(name), **given)
    return fitted


def packed(directory, model):
    """Where a version's data lies."""
    return assemble(
        directory, "variability", variability_content(model, "own", THRESHOLDS.get(model.classifier, BINARY), pd.DataFrame()).write
    ).data


def asked_of(runs, model) -> pd.DataFrame:
    """Rows with missing values, and applications of which one is unknown."""
    rows = runs.features[list(model.columns)].iloc[:60].copy()
    rows.iloc[3, 2] = rows.iloc[7, 0] = np.nan
    return rows.assign(application=["never seen", *runs.application[1:60].astype(str)])


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_what_is_packed_answers_as_the_kernel_does_and_comes_back_as_it_was(tmp_path, runs, classifiers, name):
    model = classifiers[name]
    asked = asked_of(runs, model)
    data = packed(tmp_path, model)
    answer = VariabilityPredictor(data).predict(asked)
    probability = answer[[f"probability_{label}" for label in range(model.classes)]].to_numpy()
    np.testing.assert_allclose(probability, model.predict_proba(asked), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(answer["predicted_class"], model.predict(asked))
    np.testing.assert_array_equal(answer["predicted_to_vary"], model.varies(asked))
    above = model.baselines["mean_s"] + 1.5 * model.baselines["sigma_s"]
    assert np.isnan(answer["varies_above_s"].iloc[0])
    np.testing.assert_allclose(answer["varies_above_s"].iloc[1:], above[runs.application[1:60]])
    back = from_directory(data)
    for ours, theirs in zip(model.arrays, back.arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype
    assert (back.classifier, back.columns, back.classes, back.cutoff) == (name, model.columns, model.classes, model.cutoff)
    np.testing.assert_array_equal(back.importance, model.importance)
    pd.testing.assert_frame_equal(back.baselines, model.baselines)


def test_another_format_and_broken_rows_are_refused(tmp_path, runs, classifiers):
    model = classifiers["lightgbm"]
    data = packed(tmp_path, model)
    asked = runs.features[list(model.columns)].iloc[:5].copy()
    with pytest.raises(ValueError, match=r"1 of 57 columns are missing, the first is "):
        VariabilityPredictor(data).predict(asked.iloc[:, 1:])
    asked.iloc[2, 1] = np.inf
    with pytest.raises(ValueError, match=f"row 2 .*column {asked.columns[1]}: inf"):
        VariabilityPredictor(data).predict(asked)
    settings = data / "model.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"format": 1}))
    with pytest.raises(ValueError, match="has format 1, and this version reads 3"):
        VariabilityPredictor(data)


def registered(opened, runs, model, system="ours", f1=0.7) -> Candidate:
    window = (int(runs.start_s[0]), int(runs.start_s[-1] + runs.runtime_s[-1]))
    training = Training(system, "abc", 400, window, generated=True, seed=7)
    content = variability_content(model, "own", (1.5,), runs.features)
    return log_and_register(
        opened, VARIABILITY, content, training, (f1, 300), {"f1": f1}, why="because", tags={"dagster_run_id": "r1"}
    )


@pytest.mark.slow
def test_versions_of_each_kind_answer_where_queuecast_cannot_be_imported(tmp_path, opened, runs, classifiers, learned):
    model, one = classifiers["lightgbm"], submission(learned)
    starts = start_content(start_model(learned.at, 64, ORIGIN_S, ZONE))
    log_and_register(opened, START, starts, Training("alone", "", 9, (0, learned.at)), (0.5, 9), {})
    registered(opened, runs, model, "alone")
    register(opened, LEARNED, "alone")
    policy = pd.DataFrame({"n": [4.0, 1.0], "r": [3600.0, 60.0]})
    questions = []
    for kind, asked in (("variability", asked_of(runs, model)), ("start", starts.example()), ("policy", policy)):
        version = opened.client.get_model_version(f"{kind}-alone", "1")
        home = mlflow.artifacts.download_artifacts(version.source, dst_path=str(tmp_path / "copy" / kind))
        questions.append((Path(home), asked))
    assert not list((tmp_path / "copy").rglob("*.pkl"))
    questions += [(save(tmp_path / method, learned, method=method), one) for method in ("lightgbm", "quantile(order=accuracy)")]
    for (path, asked), there in zip(questions, answers_alone(questions, tmp_path), strict=True):
        here = mlflow.pyfunc.load_model(str(path)).predict(asked)
        assert list(there.columns) == list(here.columns)
        np.testing.assert_allclose(there.astype(float), here.astype(float), rtol=1e-14)


def test_the_simulator_gets_the_model_itself_or_one_line(opened, runs, classifiers):
    opened.client.set_registered_model_alias(
        "variability-theirs", "champion", registered(opened, runs, classifiers["adaboost"], "theirs").version
    )
    served = registered_classifier(opened, "variability-theirs")
    assert (served.version, served.scope, served.thresholds) == ("1", "own", (1.5,))
    model = served.model
    rows = runs.features.iloc[:50]
    np.testing.assert_array_equal(model.predict_proba(rows), classifiers["adaboost"].predict_proba(rows))
    with pytest.raises(InputError, match="no registered model variability-theirs@challenger"):
        registered_classifier(opened, "variability-theirs", "challenger")
    with pytest.raises(InputError, match=r"models:/variability-theirs/9: no variability model that this Queuecast reads"):
        load_version("variability-theirs", "9")


def _days(rng, days: int, better: float):
    """Runs of days whose state is shared; the challenger finds more of those that vary by ``better``."""
    day = np.repeat(np.arange(days), 20)
    varied = rng.random(len(day)) < np.repeat(rng.beta(1, 6, days), 20)
    hits = [rng.random(len(day)) < 0.55 + more for more in (better, 0.0)]
    alarms = [rng.random(len(day)) < 0.04 for _ in range(2)]
    return [np.where(varied, hit, alarm) for hit, alarm in zip(hits, alarms, strict=True)], varied, day


def _judged(one: np.ndarray, other: np.ndarray, varied: np.ndarray, day: np.ndarray) -> list[bool]:
    """Whether each night's decision promotes, on the runs of the days up to it."""
    start, promotes = 1 + day * DAY_S + np.arange(len(day)) % 20, []
    for tonight in range(14, day.max() + 1, 25):
        seen = day <= tonight
        past = [each[seen] for each in (one, other, varied)]
        evidence = f1_evidence(*past, start[seen], since_s=0, last_s=(tonight + 1) * DAY_S, recorded_f1=0.6)
        recent = seen & (day > tonight - JUDGED_DAYS)
        last = [each[recent] for each in (one, other, varied)]
        promotes.append(decide(compare_classifiers(*last, day[recent], evidence))[0])
    return promotes


@pytest.mark.thorough
def test_an_equal_challenger_is_seldom_promoted_in_a_year_and_a_better_one_mostly_in_three_months():
    rng = np.random.default_rng(3)

    def promoted(better: float, days: int, times: int) -> float:
        count = 0
        for _ in range(times):
            (one, other), varied, day = _days(rng, days, better)
            count += any(_judged(one, other, varied, day))
        return count / times

    assert promoted(0.0, 365, 40) <= 0.05
    assert promoted(0.3, 90, 20) >= 0.9
