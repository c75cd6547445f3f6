"""What GET /metrics exports, and the dashboard that shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from features.clock import DAY_S
from pipelines.serving.app import Service, application
from pipelines.serving.models import Served
from tests.pipelines.serving.conftest import KIND, NOW_S, Registry, scraped

pytest.importorskip("prometheus_client")

DASHBOARD = json.loads((Path(__file__).parents[3] / "deploy" / "grafana-queuecast.json").read_text())
TARGETS = [(panel, target) for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_the_service_exports_what_it_knows_of_its_models(versions, monkeypatch) -> None:
    registry = Registry(versions, {"champion": KIND["last2"]})
    monkeypatch.setattr("pipelines.serving.metrics.time.time", lambda: NOW_S)
    served = [Served("runtime-made", "champion"), Served("runtime-none", "challenger")]
    for model in served:
        model.follow(registry, lambda: NOW_S)
    served[0].judged = {"answers": 40.0, "held_80": 0.75}
    families = scraped(application(Service(served, 2.0 * DAY_S)))

    labels = {"model": "runtime-made", "alias": "champion"}
    values = {name: [sample.value for sample in samples if sample.labels == labels] for name, samples in families.items()}
    assert values == {
        "queuecast_model_ready": [1.0],
        "queuecast_model_version": [float(KIND["last2"])],
        "queuecast_snapshot_age_seconds": [NOW_S - versions[KIND["last2"]].snapshot_unix_s],
        "queuecast_model_age_seconds": [5.0 * DAY_S],
        "queuecast_start_answers": [40.0],
        "queuecast_start_interval_held_ratio": [0.75],
    }
    others = {name: len(samples) for name, samples in families.items() if len(samples) > 1}
    assert others == {"queuecast_model_ready": 2}, "of a model that is not loaded nothing else is known"


def test_the_dashboard_asks_for_metrics_and_labels_that_are_exported() -> None:
    from pipelines.serving.metrics import GAUGES

    for panel, target in TARGETS:
        (name,) = re.findall(r"queuecast_\w+", target["expr"])
        assert name in GAUGES, panel["title"]
        assert {*re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])} <= {"model", "alias"}, panel["title"]


def test_the_dashboard_has_what_grafanas_schema_requires() -> None:
    assert {"schemaVersion", "templating", "annotations"} <= set(DASHBOARD), "required by grafana-foundation-sdk's JSON schema"
    ids, places = [panel["id"] for panel in DASHBOARD["panels"]], [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [(x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
    assert len(set(cells)) == len(cells), "no panel covers another"
    assert max(x for x, _ in cells) < 24
    sources = {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} <= {f"${{{name}}}" for name in sources}
