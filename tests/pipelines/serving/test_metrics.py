"""What ``GET /metrics`` exports, and the dashboard that shows it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pandas as pd
import pytest

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
