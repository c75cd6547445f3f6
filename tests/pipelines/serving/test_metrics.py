"""What GET /metrics exports, with the first waiting jobs' starts, and the dashboard that shows it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.clock import DAY_S, local_clock_s
from models.packed.start_predictor import StartPredictor
from models.registry.packing import assemble
from models.registry.start_registration import start_content
from pipelines.serving.app import Service, application
from pipelines.serving.models import Served
from tests.pipelines.serving.conftest import KIND, NOW_S, Registry, asked
from tests.support.learning import ORIGIN_S, ZONE
from tests.support.queues import start_model

DASHBOARD = json.loads((Path(__file__).parents[3] / "deploy" / "grafana-queuecast.json").read_text())
TARGETS = [(panel, target) for panel in DASHBOARD["panels"] for target in panel["targets"]]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> None:
    pytest.importorskip("prometheus_client")
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path))


def test_no_gauge_has_a_label_that_openmetrics_keeps_for_other_types() -> None:
    from pipelines.serving.metrics import _of_models, _of_traces, of_heads

    families = (*_of_models([], 0.0), *_of_traces([]), *of_heads([], 0.0))
    assert not [each.name for each in families if {"quantile", "le"} & {*each._labelnames}], "promtool check metrics refuses them"


def test_waits_are_by_partition_and_by_queue_only_where_a_trace_has_no_partitions() -> None:
    from pipelines.serving.metrics import partitions

    jobs = pd.DataFrame({"queue": ["few", "normal"], "partition": ["gpu", None]}, dtype="category")
    assert partitions(jobs).tolist() == ["gpu", ""]
    assert partitions(jobs.assign(partition=pd.Categorical([None, None]))).tolist() == ["few", "normal"]


def test_the_dashboard_asks_for_metrics_and_labels_that_are_exported() -> None:
    from pipelines.serving.metrics import Metrics, _of_models, _of_traces, of_heads

    labels = {each.name: set(each._labelnames) for each in (*_of_models([], 0.0), *_of_traces([]), *of_heads([], 0.0))}
    text = asyncio.run(Metrics([]).text()).decode()
    for panel, target in TARGETS:
        (name,) = re.findall(r"queuecast_\w+", target["expr"])
        assert f"# TYPE {name} " in text, panel["title"]
        selected = re.findall(r"(\w+)=", target["expr"]) + re.findall(r"by \(([\w, ]+)\)", target["expr"])
        asked = {*re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]), *", ".join(selected).split(", ")} - {""}
        assert asked <= labels[name], panel["title"]


def test_the_dashboard_has_what_grafanas_schema_requires() -> None:
    assert {"schemaVersion", "templating", "annotations"} <= set(DASHBOARD), "required by grafana-foundation-sdk's JSON schema"
    ids, places = [panel["id"] for panel in DASHBOARD["panels"]], [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [(x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
    assert len(set(cells)) == len(cells), "no panel covers another"
    assert max(x for x, _ in cells) < 24
    sources = {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} <= {f"${{{name}}}" for name in sources}


MACHINE = 64
SNAPSHOT = """JOBID|STATE|USER|PARTITION|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME|ACCOUNT|PRIORITY|REASON
11|RUNNING|ann|cpu|30|1-00:00:00|{early}|{begun}|a|50|None
12|PENDING|bob|cpu|40|2:00:00|{early}|N/A|a|10|Priority
13|PENDING|cleo|cpu,gpu|8|1:00:00|{later}|N/A|b|20|Resources
14|PENDING|dora|gpu|4|1:00:00|{later}|N/A|b|5|Priority
15|PENDING|emil|debug|2|0:10:00|{early}|N/A|b|90|JobHeldUser
"""


@pytest.fixture
def models(versions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Served]:
    """Return models of a trace with a folder of snapshots, an old one and one of now."""
    pytest.importorskip("prometheus_client")
    monkeypatch.setenv("QUEUECAST_HOME", str(tmp_path / "home"))
    (tmp_path / "queuecast.toml").write_text('[traces.made]\nplace = "made.txt"\nprocs = 64\nqueues = "kept"\n')
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    for taken_s in (NOW_S - DAY_S, NOW_S):
        (tmp_path / "kept" / f"{stamp(taken_s)}.txt").write_text(SNAPSHOT.format(**times(taken_s)))
    model = start_model(NOW_S - ORIGIN_S - DAY_S, MACHINE, ORIGIN_S, ZONE)
    predictor = StartPredictor(assemble(tmp_path / "packed", "start", start_content(model).write).data)
    registry = Registry({**versions, "9": predictor.model}, {"champion": "9", "running": KIND["quantile(order=accuracy)"]})
    served = [Served("start-made", "champion"), Served("runtime-made", "running")]
    for each in served:
        each.follow(registry, lambda: NOW_S)
        assert not each.problem
    return served


def stamp(unix_s: int) -> str:
    return np.datetime64(unix_s, "s").astype(str).replace("-", "").replace(":", "") + "Z"


def clock(unix_s: int) -> str:
    return str(np.datetime64(int(local_clock_s(np.array([unix_s]), 0, ZONE)[0]), "s"))


def times(taken_s: int) -> dict[str, str]:
    return {"early": clock(taken_s - 7_200), "begun": clock(taken_s - 3_600), "later": clock(taken_s - 600)}


def waits(models: list[Served]) -> dict[tuple[str, str], float]:
    """Return the exported waits of first jobs, by partition and level."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    from pipelines.serving.metrics import Metrics

    text = asyncio.run(Metrics(models).text()).decode()
    families = {each.name: each.samples for each in text_string_to_metric_families(text)}
    heads = families["queuecast_head_wait_seconds"]
    (age,) = families["queuecast_queue_age_seconds"]
    assert age.labels == {"trace": "made"}
    (trained,) = (each for each in families["queuecast_model_age_seconds"] if each.labels["model"] == "start-made")
    assert age.value - trained.value == pytest.approx(-5 * DAY_S), "the snapshot is of now, the model of five days before"
    return {(each.labels["partition"], each.labels["level"]): each.value for each in heads}


def test_the_first_waiting_job_of_each_partition_is_answered_as_by_post_start(models) -> None:
    exported = waits(models)
    assert {partition for partition, _ in exported} == {"cpu", "gpu"}, "the only job of debug is held"
    now = {"now": clock(NOW_S).replace("T", " ")}
    jobs = [
        {"user": "ann", "procs": 30, "requested_s": 86_400, "queue": "cpu", "account": "a", "waits_s": 3_600, "running_s": 3_600},
        {"user": "bob", "procs": 40, "requested_s": 7_200, "queue": "cpu", "account": "a", "waits_s": 7_200, "priority": 10},
        {"user": "dora", "procs": 4, "requested_s": 3_600, "queue": "gpu", "account": "b", "waits_s": 600, "priority": 5},
        {
            "user": "emil",
            "procs": 2,
            "requested_s": 600,
            "queue": "debug",
            "account": "b",
            "waits_s": 7_200,
            "reason": "JobHeldUser",
        },
    ]
    first = {"user": "cleo", "procs": 8, "requested_s": 3_600, "queue": "cpu,gpu", "account": "b", "waits_s": 600, "priority": 20}
    app = application(Service(models, 2.0 * DAY_S, None, clock=lambda: NOW_S))
    status, answer = asked(app, "POST", "/start", {"queue": jobs, "job": first} | now)
    assert status == 200, answer
    for partition in ("cpu", "gpu"):
        shown = {quantile: round(exported[partition, quantile]) for quantile in ("0.1", "0.5", "0.9")}
        assert shown == {quantile: answer["quantiles"][quantile] for quantile in shown}, json.dumps(answer)


def test_a_snapshot_that_cannot_be_read_leaves_its_trace_out_and_says_why(models, tmp_path, capsys) -> None:
    from pipelines.serving.metrics import Metrics

    kept = tmp_path / "kept" / f"{stamp(NOW_S + 60)}.txt"
    kept.write_text("nothing of a queue\n")
    text = asyncio.run(Metrics(models).text()).decode()
    assert "queuecast_head_wait_seconds{" not in text
    assert 'queuecast_model_ready{alias="champion",model="start-made"} 1.0' in text
    assert f"metrics: {kept}, line 1: no column jobid" in capsys.readouterr().err
