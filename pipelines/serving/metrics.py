"""``GET /metrics``: what the service knows of its models, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from pipelines.serving.models import Served

GAUGES = {
    "queuecast_model_ready": "1 if a version of the model answers.",
    "queuecast_model_version": "Number of the version that answers.",
    "queuecast_snapshot_age_seconds": "Age of the history from which the model answers.",
    "queuecast_model_age_seconds": "Time since the model that answers was trained; nights renew its history without that.",
    "queuecast_start_answers": "Answers about starts of 30 days that were judged when the version was loaded.",
    "queuecast_start_interval_held_ratio": "Share of the 80 % intervals of these answers that held.",
}
"""The meaning of each gauge, whose labels are ``model`` and ``alias``."""


class ModelCollector(Collector):
    """Collects the gauges of the served ``models`` at each scrape."""

    def __init__(self, models: Sequence[Served]) -> None:
        self._models = models

    def collect(self) -> Iterator[GaugeMetricFamily]:
        now_s = time.time()
        for name, meaning in GAUGES.items():
            family = GaugeMetricFamily(name, meaning, labels=["model", "alias"])
            for model in self._models:
                values = _values(model, now_s)
                if name in values:
                    family.add_metric([model.name, model.alias], values[name])
            yield family

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return nothing, so that registration needs no values."""
        return []


def _values(model: Served, now_s: float) -> Mapping[str, float]:
    """Return a model's values by gauge, without those that it lacks."""
    values = {"queuecast_model_ready": float(model.loaded is not None)}
    if model.loaded is None:
        return values

    values["queuecast_model_version"] = float(model.loaded.number)
    if model.loaded.snapshot_unix_s is not None:
        values["queuecast_snapshot_age_seconds"] = now_s - model.loaded.snapshot_unix_s
    if model.trained_unix_s:
        values["queuecast_model_age_seconds"] = now_s - model.trained_unix_s

    if "answers" in model.judged:
        values["queuecast_start_answers"] = model.judged["answers"]
    if "held_80" in model.judged:
        values["queuecast_start_interval_held_ratio"] = model.judged["held_80"]
    return values


def text_of(models: Sequence[Served]) -> Callable[[], bytes]:
    """Return a function that gives the gauges of ``models`` as OpenMetrics text."""
    registry = CollectorRegistry()
    registry.register(ModelCollector(models))
    return lambda: generate_latest(registry)
