"""What a service answers, what it refuses, and how it follows the registry."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fastapi import FastAPI

from features.clock import DAY_S
from models.packed.methods import LEVELS, METHODS
from pipelines.serving.app import Service, application
from pipelines.serving.asked_log import AskedLog
from pipelines.serving.models import Served
from tests.pipelines.serving.conftest import KIND, NOW_S, Registry, as_json, asked

NAME, QUANTILE = "runtime-made", KIND["quantile(order=accuracy)"]
JOB = {"user": "user3", "procs": 4, "requested_s": 3600, "submit_time": "2023-12-14 10:00:00"}


def followed(registry: Registry, name: str = NAME) -> Served:
    served = Served(name, "champion")
    served.follow(registry, lambda: NOW_S)
    return served


def service(registry: Registry, *names: str, **given) -> FastAPI:
    served = [followed(registry, name) for name in names or (NAME,)]
    app = application(Service(served, **{"stale_after_s": 2.0 * DAY_S, "clock": lambda: NOW_S, **given}))
    app.state.models = served
    return app


@pytest.fixture
def registry(versions) -> Registry:
    return Registry(versions, {"champion": QUANTILE})


def predict(app: FastAPI, body: object, status: int = 200) -> dict:
    code, answer = asked(app, "POST", "/predict", body)
    assert code == status, answer
    return answer


@pytest.mark.parametrize("method", METHODS)
def test_it_answers_exactly_what_the_registered_model_answers(registry, versions, submitted, method):
    registry.aliases["champion"] = KIND[method]
    app, expected = service(registry), versions[KIND[method]].predict(submitted)
    jobs, outputs = as_json(submitted), [output for output in versions[KIND[method]].method.outputs if output in LEVELS]
    body = {"quantiles": [LEVELS[output] for output in outputs]} if outputs else {}
    answers = [predict(app, {**job, **body}) for job in jobs[:100]]
    rows = expected.iloc[: len(answers)]
    for name in ("predicted_s", "snapshot_age_s", "user_known"):
        assert [answer[name] for answer in answers] == rows[name].tolist()
    for output in outputs:
        assert [answer["quantiles"][repr(LEVELS[output])] for answer in answers] == rows[output].tolist()
    assert len(set(expected["predicted_s"])) > 20


def test_an_answer_names_its_model_version_and_age(registry):
    answer = predict(service(registry), JOB)
    named = {name: answer[name] for name in ("model", "alias", "version", "stale", "user_known")}
    assert named == {"model": NAME, "alias": "champion", "version": QUANTILE, "stale": True, "user_known": True}
    assert not predict(service(registry, stale_after_s=90.0 * DAY_S), JOB)["stale"]


def test_a_model_of_points_tells_no_quantiles(registry):
    registry.aliases["champion"] = KIND["last2"]
    assert predict(service(registry), {**JOB, "quantiles": [0.5]})["quantiles"] is None


def test_a_job_that_has_outlived_its_prediction_gets_a_longer_one(registry):
    app = service(registry)
    first = predict(app, {**JOB, "quantiles": [0.5, 0.9]})
    same = predict(app, {**JOB, "elapsed_s": int(first["predicted_s"]) - 1})
    assert same["predicted_s"] == first["predicted_s"]
    elapsed = int(first["predicted_s"]) + 60
    later = predict(app, {**JOB, "elapsed_s": elapsed, "quantiles": [0.5, 0.9]})
    assert elapsed < later["predicted_s"] == later["quantiles"]["0.5"] <= later["quantiles"]["0.9"] <= JOB["requested_s"]
    assert first["quantiles"]["0.9"] <= later["quantiles"]["0.9"]
    registry.aliases["champion"] = KIND["last2"]
    assert predict(service(registry), {**JOB, "elapsed_s": 3599})["predicted_s"] == JOB["requested_s"]


@pytest.mark.parametrize("now_s", [NOW_S, 1_729_989_000, 1_729_992_600], ids=["some day", "first half past two", "second"])
def test_without_a_time_a_job_is_submitted_now_also_in_the_hour_that_comes_twice(registry, versions, now_s):
    app = service(registry, clock=lambda: now_s)
    answer = predict(app, {name: JOB[name] for name in ("user", "procs", "requested_s")})
    assert answer["snapshot_age_s"] == now_s - versions[QUANTILE].snapshot_unix_s


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"procs": 0}, "procs"),
        ({"procs": None}, "procs"),
        ({"procs": float("nan")}, "procs"),
        ({"requested_s": 10**11}, "requested_s"),
        ({"elapsed_s": -1}, "elapsed_s"),
        ({"requested_s": 60, "elapsed_s": 61}, "elapsed_s"),
        ({"executable": "x" * 2000}, "executable"),
        ({"submit_time": "yesterday"}, "submit_time"),
        ({"submit_time": 1700000000}, "submit_time"),
        ({"submit_time": "2026-03-01T09:00:00Z"}, "submit_time"),
        ({"submit_time": "1970-01-01 00:20:00"}, "submit_time"),
        ({"job_id": [1]}, "job_id"),
        ({"quantiles": [0.5, 1.0]}, "quantiles[1]"),
        ({"quantiles": [0.5] * 101}, "quantiles"),
        ({"request_s": 5}, "request_s"),
        ({"model": "runtime-other"}, "model"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name_in_one_line(registry, changes, field):
    answer = predict(service(registry), {**JOB, **changes}, status=422)
    assert answer["field"] == field
    assert field in answer["error"]
    assert "\n" not in answer["error"]


@pytest.mark.parametrize("body", [b"", b"{", b'"a"', b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(registry, body):
    assert "\n" not in predict(service(registry), body, status=400)["error"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""])
def test_json_under_another_content_type_is_refused_as_such(registry, kind):
    status, answer = asked(service(registry), "POST", "/predict", JOB, kind=kind)
    assert (status, answer["error"]) == (
        415,
        f"the request has {f'the content-type {kind!a}' if kind else 'no content-type'}, and must have application/json",
    )
    assert asked(service(registry), "POST", "/predict", JOB, kind="application/json; charset=utf-8")[0] == 200


def test_a_body_may_come_in_pieces_and_other_paths_are_not_served(registry):
    assert asked(service(registry), "POST", "/predict", JOB, parts=7)[0] == 200
    assert asked(service(registry), "GET", "/predict")[0] == 405
    assert asked(service(registry), "POST", "/") == (
        404,
        {
            "error": "only POST /predict, POST /start, GET /health and GET /metrics are served here; GET /openapi.json describes them"
        },
    )


def test_of_several_models_a_request_names_one(registry):
    app = service(registry, "runtime-a", "runtime-b")
    assert predict(app, {**JOB, "model": "runtime-b"})["model"] == "runtime-b"
    assert predict(app, JOB, status=422)["error"] == "model is missing; served: runtime-a, runtime-b"


def test_a_version_that_does_not_load_leaves_the_one_that_answers(registry):
    app = service(registry)
    registry.aliases["champion"] = "99"
    for _ in range(2):
        assert not app.state.models[0].follow(registry, lambda: NOW_S + 5)
    status, health = asked(app)
    assert (status, health["models"][NAME]["version"]) == (200, QUANTILE)
    assert health["models"][NAME]["problem"].endswith("its data are not what was packed")
    assert health["models"][NAME]["since"] == "2023-12-14T22:13:25+00:00"
    assert predict(app, JOB)["version"] == QUANTILE
    registry.aliases["champion"] = KIND["lightgbm"]
    assert app.state.models[0].follow(registry)
    assert "problem" not in asked(app)[1]["models"][NAME]


def test_a_version_that_answers_nonsense_is_not_taken(registry, monkeypatch):
    app, bad = service(registry), registry.versions[KIND["requested"]]
    registry.aliases["champion"] = KIND["requested"]
    monkeypatch.setattr(bad.method, "predict_quantiles", lambda features: (np.array([np.nan]), np.empty((1, 0))))
    assert not app.state.models[0].follow(registry)
    assert app.state.models[0].loaded.number == QUANTILE
    assert app.state.models[0].problem


def test_a_defect_is_one_line_and_names_no_job(registry, monkeypatch, capfd):
    app = service(registry)
    monkeypatch.setattr(app.state.models[0].loaded.predictor.method, "predict_quantiles", lambda features: {}["user3"])
    assert predict(app, JOB, status=500) == {"error": "a defect of Queuecast's own: KeyError"}
    assert "user3" not in capfd.readouterr().err


def test_a_registry_that_does_not_answer_is_told_with_since_when(registry):
    app = service(registry)
    registry.down = "registry http://localhost:5000: refused"
    app.state.models[0].follow(registry, lambda: NOW_S)
    app.state.models[0].follow(registry, lambda: NOW_S + 60)
    state = asked(app)[1]["models"][NAME]
    assert (state["problem"], state["since"]) == (registry.down, "2023-12-14T22:13:20+00:00")
    assert predict(app, JOB)["version"] == QUANTILE
    registry.down = ""
    app.state.models[0].follow(registry)
    assert "problem" not in asked(app)[1]["models"][NAME]


def test_a_model_that_is_not_loaded_is_not_ready(registry):
    registry.down = "registry http://localhost:5000: refused"
    app = service(registry)
    status, health = asked(app)
    assert (status, health["ready"]) == (503, False)
    assert asked(app, "HEAD")[0] == 503
    assert registry.down in predict(app, JOB, status=503)["error"]
    assert not app.state.models[0].missing
    registry.down, registry.aliases = "", {}
    app.state.models[0].follow(registry)
    assert app.state.models[0].missing


def lines(directory) -> list[dict]:
    return [json.loads(line) for file in sorted(directory.iterdir()) for line in file.read_text().splitlines()]


def test_what_was_asked_and_answered_is_logged(registry, tmp_path):
    log = AskedLog(tmp_path / "asked")
    app = service(registry, log=log)
    answer = predict(app, {**JOB, "job_id": 17, "quantiles": [0.8]})
    predict(app, {**JOB, "user": None, "elapsed_s": 30})
    first, last = lines(tmp_path / "asked")
    assert first["job_id"] == 17
    assert (first["user"], first["procs"], first["requested_s"]) == ("user3", 4, 3600)
    assert {name: first[name] for name in ("predicted_s", "quantiles", "version")} == {
        name: answer[name] for name in ("predicted_s", "quantiles", "version")
    }
    assert (last["user"], last["elapsed_s"], last["submit_unix_s"]) == (None, 30, first["submit_unix_s"])
    assert asked(app)[1]["log"] == {"written": 2, "dropped": 0}


def test_a_log_that_cannot_be_written_costs_no_answer(registry, tmp_path):
    log = AskedLog(tmp_path / "asked")
    for file in (tmp_path / "asked").iterdir():
        file.unlink()
    (tmp_path / "asked").rmdir()
    app = service(registry, log=log)
    predict(app, JOB)
    state = asked(app)[1]["log"]
    assert (state["written"], state["dropped"], state["problem"] != "") == (0, 1, True)
