"""``GET /metrics``: the service and its sites as OpenMetrics text, for Prometheus.

Tables of the lake are read at most every ``EVERY_S`` seconds, in a thread of their own: a scrape never keeps an answer waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from features.clock import DAY_S
from pipelines.serving.models import Served
from pipelines.serving.site_registry import RUNTIMES, STARTS

if TYPE_CHECKING:
    from prometheus_client.core import Metric

EVERY_S = 300.0
CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
WAITS = {"0.5": 0.5, "0.9": 0.9}
"""Quantiles of the waits of the last day, by their label."""


@dataclass
class Metrics:
    """Metrics of the served ``models`` and of the traces that they are of."""

    models: Sequence[Served]
    _of_traces: list[Metric] = field(default_factory=list)
    _read_s: float = -EVERY_S

    async def text(self) -> bytes:
        """Return all metrics as OpenMetrics text."""
        from prometheus_client import CollectorRegistry
        from prometheus_client.openmetrics.exposition import generate_latest

        if time.monotonic() - self._read_s >= EVERY_S:
            self._of_traces = await asyncio.to_thread(lambda: [*_of_traces(self.models)])
            self._read_s = time.monotonic()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected([*_of_models(self.models, time.time()), *self._of_traces]))
        text: bytes = generate_latest(registry)
        return text


class _Collected:
    """Metrics in the form that a registry of prometheus_client asks for."""

    def __init__(self, metrics: list[Metric]) -> None:
        self.metrics = metrics

    def collect(self) -> list[Metric]:
        """Return the metrics."""
        return self.metrics


def _of_models(models: Sequence[Served], now_s: float) -> Iterable[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    ready = GaugeMetricFamily("queuecast_model_ready", "1 if a version of the model answers.", labels=["model", "alias"])
    version = GaugeMetricFamily("queuecast_model_version", "Number of the version that answers.", labels=["model", "alias"])
    age = GaugeMetricFamily(
        "queuecast_snapshot_age_seconds", "Age of the history from which the model answers.", labels=["model"], unit="seconds"
    )
    for model in models:
        ready.add_metric([model.name, model.alias], float(model.loaded is not None))
        if model.loaded is not None:
            version.add_metric([model.name, model.alias], float(model.loaded.number))
            if model.loaded.snapshot_unix_s is not None:
                age.add_metric([model.name], now_s - model.loaded.snapshot_unix_s)
    return ready, version, age


def _of_traces(models: Sequence[Served]) -> Iterable[Metric]:
    """Yield what the tables of the served traces say; a trace without a table has no metric."""
    from prometheus_client.core import GaugeMetricFamily

    from models.starts.evaluation import quality
    from pipelines.storage.home import home
    from pipelines.storage.lake import Lake
    from pipelines.storage.runtime_features import read_features

    wait = GaugeMetricFamily(
        "queuecast_wait_seconds",
        "Waits of the jobs that started in the record's last day, by quantile.",
        labels=["trace", "partition", "quantile"],
        unit="seconds",
    )
    held = GaugeMetricFamily(
        "queuecast_start_interval_held_ratio",
        "Share of the last 30 days' 80 % intervals that held.",
        labels=["trace"],
        unit="ratio",
    )
    judged = GaugeMetricFamily("queuecast_start_answers", "Judged answers of the last 30 days about starts.", labels=["trace"])
    explained = GaugeMetricFamily(
        "queuecast_decisions_explained_ratio",
        "Share of the starts of the record's last day that the site's rules explain.",
        labels=["trace"],
        unit="ratio",
    )
    lake = Lake(home() / "lake")
    for trace in sorted({model.name.removeprefix(RUNTIMES).removeprefix(STARTS) for model in models}):
        seen = lake.at_once(f"{RUNTIMES}{trace}")
        if seen.has("jobs", trace) and seen.has("runtime_features", trace):
            clean = seen.read_clean(trace)
            start_s = read_features(seen, clean).start_s
            day = clean.jobs.assign(wait_s=start_s - clean.jobs["submit_s"], start_s=start_s)
            day = day[day["start_s"] > day["start_s"].max() - DAY_S]
            for queue, waits in day.groupby(day["queue"].astype(object).fillna(""), sort=True)["wait_s"]:
                for label, level in WAITS.items():
                    wait.add_metric([trace, str(queue), label], float(waits.quantile(level)))
        if seen.has("starts", trace):
            ledger = seen.read("starts", trace)[0]
            figures = quality(ledger[ledger["at_s"] > ledger["at_s"].max() - 30 * DAY_S])
            judged.add_metric([trace], figures["answers"])
            if figures["answers"]:
                held.add_metric([trace], figures["held_80"])
        if seen.has("parity", trace):
            last = seen.read("parity", trace)[0].iloc[-1]
            if last["starts"]:
                explained.add_metric([trace], float(last["explained"] / last["starts"]))
    return wait, held, judged, explained
