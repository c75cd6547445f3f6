"""Registration and promotion in a SQLite store: versions, the champion, failures."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import mlflow
import pandas as pd
import pytest

from features.errors import InputError
from models.packed.methods import Last2, LightGBM, Requested
from models.packed.settings import FORMAT
from models.registry import packing
from models.registry.registration import Candidate, Training, log_and_register, rank_candidates
from models.registry.runtime_registration import (
    RUNTIME,
    Snapshot,
    load,
    runtime_content,
    signature,
    trained_method,
)
from models.registry.variability_registration import VARIABILITY
from tests.support.learning import ORIGIN_S, ZONE
from tests.support.process import python

JOBS = 6000


def registered(opened, learned, trace, method, metrics, judged, **tags):
    training = Training(trace, "0123456789abcdef", JOBS, (0, learned.at), generated=True)
    content = runtime_content(method, Snapshot(learned.states, learned.at, ORIGIN_S, ZONE))
    return log_and_register(opened, RUNTIME, content, training, judged, metrics, tags=tags)


def register(opened, learned, trace, method, accuracy, judged=1500):
    learner = {"lightgbm": LightGBM(learned.trees), "last2": Last2(), "requested": Requested()}[method]
    return registered(opened, learned, trace, learner, {"mae_s": 12.0}, (accuracy, judged), dagster_run_id="r1")


def test_a_version_records_where_it_comes_from_and_predicts(opened, learned):
    candidate = register(opened, learned, "one", "lightgbm", 0.6)
    entry = opened.client.get_model_version("runtime-one", candidate.version)
    expected = {
        "method": "lightgbm",
        "data_fingerprint": "0123456789abcdef",
        "generated": "true",
        "seed": "0",
        "dagster_run_id": "r1",
    }
    assert expected.items() <= entry.tags.items()
    assert entry.tags["training_window_s"] == f"0..{learned.at}"
    run = mlflow.get_run(entry.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["mae_s"] == 12
    models = mlflow.search_logged_models(experiment_ids=[run.info.experiment_id], output_format="list")
    [its] = [each for each in models if each.source_run_id == entry.run_id]
    assert {each.key: each.value for each in its.metrics} == run.data.metrics, "the model's page shows them too"
    assert [(each.dataset.name, each.dataset.digest) for each in run.inputs.dataset_inputs] == [("one", "0123456789abcdef")]
    assert opened.client.get_registered_model("runtime-one").tags == {"kind": "runtime", "trace": "one", "generated": "true"}
    model = mlflow.pyfunc.load_model(f"models:/runtime-one/{candidate.version}")
    assert model.metadata.signature == signature(("predicted_s",))
    answer = model.predict(model.input_example)
    assert (answer["snapshot_age_s"] == 0).all()
    assert answer["predicted_s"].between(1, 3600).all()


@pytest.mark.parametrize(
    ("kind", "scores", "order", "basis"),
    [
        (
            RUNTIME,
            {"requested": 0.3, "last2": 0.5, "lightgbm": 0.6},
            "lightgbm last2 requested",
            "mean accuracy as served over 1,500 jobs (within 0.001 the simpler): lightgbm (version 3) 0.6000, "
            "last2 (version 2) 0.5000, requested (version 1) 0.3000.",
        ),
        (
            VARIABILITY,
            {"lightgbm": 0.7005, "adaboost": 0.7},
            "adaboost lightgbm",
            "F1 over 1,500 runs (within 0.001 the one named first): adaboost (version 2) 0.7000, lightgbm (version 1) 0.7005.",
        ),
    ],
)
def test_the_better_comes_first_with_the_reason_and_a_tie_goes_to_the_one_named_first(kind, scores, order, basis):
    candidates = [Candidate(name, str(number), score, 1500) for number, (name, score) in enumerate(scores.items(), 1)]
    ranked, reason = rank_candidates(candidates, kind)
    assert (" ".join(each.method for each in ranked), reason) == (order, basis)


def test_loading_refuses_what_is_absent_or_of_another_format(opened, learned):
    with pytest.raises(InputError, match="no registered model runtime-nowhere@champion"):
        load(opened, "runtime-nowhere")
    candidate = register(opened, learned, "old", "requested", 0.5)
    opened.client.set_registered_model_alias("runtime-old", "champion", candidate.version)
    assert load(opened, "runtime-old").predict(_one())["predicted_s"].iloc[0] == 600
    opened.client.set_model_version_tag("runtime-old", candidate.version, "queuecast_format", "0")
    with pytest.raises(InputError, match=f"has format 0, this Queuecast reads format {FORMAT}"):
        load(opened, "runtime-old")


@pytest.mark.slow
def test_a_version_packed_by_an_older_code_loads_and_can_be_refreshed_from(opened, learned, monkeypatch, tmp_path):
    older = shutil.copytree(packing._PACKED, tmp_path / "packed")
    with monkeypatch.context() as then:
        then.setattr(packing, "_PACKED", older)
        (older / "settings.py").write_text((older / "settings.py").read_text() + "\n# as it was then\n")
        candidate = register(opened, learned, "elder", "lightgbm", 0.6)
    assert packing.private_name() not in candidate.tags["code_version"]
    opened.client.set_registered_model_alias("runtime-elder", "champion", candidate.version)
    assert load(opened, "runtime-elder").predict(_one())["predicted_s"].between(1, 600).all()
    assert trained_method(opened, "elder", candidate.version).name == "lightgbm"


def _one():
    return pd.DataFrame({"user": ["x"], "procs": [1], "requested_s": [600], "submit_time": pd.to_datetime(["2024-01-01 12:00"])})


CONNECT = (
    "import sys; from models.registry.tracking import connect; t = connect(sys.argv[1], sys.argv[2], 'e'); print(t.experiment_id)"
)


@pytest.mark.thorough
@pytest.mark.slow
def test_two_processes_open_a_fresh_store_at_once_and_leave_the_working_directory_alone(tmp_path):
    where = tmp_path / "here"
    where.mkdir()
    asked = ["-c", CONNECT, f"sqlite:///{tmp_path}/store/mlflow.db", str(tmp_path / "artifacts")]
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: python(asked, cwd=where, env={"PATH": "/usr/bin:/bin"}), range(2))
    assert (one.returncode, other.returncode) == (0, 0), (one, other)
    assert one.stdout == other.stdout
    assert (one.stderr, other.stderr) == ("", "")
    assert list(where.iterdir()) == []
