"""``GET /metrics``: the service and its sites as OpenMetrics text, for Prometheus.

Tables of the lake and snapshots of queues are read at most every ``EVERY_S`` seconds, in a thread of their own: a scrape never keeps
an answer waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from features.clock import DAY_S
from pipelines.serving.models import Served
from pipelines.serving.queue_heads import Heads, heads_of
from pipelines.serving.site_registry import RUNTIMES, STARTS

if TYPE_CHECKING:
    from prometheus_client.core import Metric

EVERY_S = 300.0
CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
WAITS = {"0.5": 0.5, "0.9": 0.9}
"""Levels of the quantiles of the last day's waits, by their label; OpenMetrics keeps the label "quantile" for summaries."""


@dataclass(eq=False)
class Metrics:
    """Metrics of the served ``models``, and of the traces that they are of."""

    models: Sequence[Served]
    _of_traces: list[Metric] = field(default_factory=list)
    _heads: list[Heads] = field(default_factory=list)
    _read_s: float = -EVERY_S

    async def text(self) -> bytes:
        """Return all metrics as OpenMetrics text."""
        from prometheus_client import CollectorRegistry
        from prometheus_client.openmetrics.exposition import generate_latest

        if time.monotonic() - self._read_s >= EVERY_S:
            self._of_traces = await asyncio.to_thread(lambda: [*_of_traces(self.models)])
            self._heads = await heads_of(self.models)
            self._read_s = time.monotonic()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        text: bytes = generate_latest(registry)
        return text

    def collect(self) -> list[Metric]:
        """Return the metrics of models and traces, for a registry of prometheus_client."""
        now_s = time.time()
        return [*_of_models(self.models, now_s), *self._of_traces, *of_heads(self._heads, now_s)]


def _of_models(models: Sequence[Served], now_s: float) -> Iterable[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    ready = GaugeMetricFamily("queuecast_model_ready", "1 if a version of the model answers.", labels=["model", "alias"])
    version = GaugeMetricFamily("queuecast_model_version", "Number of the version that answers.", labels=["model", "alias"])
    age = GaugeMetricFamily(
        "queuecast_snapshot_age_seconds", "Age of the history from which the model answers.", labels=["model"], unit="seconds"
    )
    trained = GaugeMetricFamily(
        "queuecast_model_age_seconds",
        "Time since the model that answers was trained; nights renew its history without that.",
        labels=["model", "alias"],
        unit="seconds",
    )
    for model in models:
        ready.add_metric([model.name, model.alias], float(model.loaded is not None))
        if model.loaded is not None:
            version.add_metric([model.name, model.alias], float(model.loaded.number))
            if model.loaded.snapshot_unix_s is not None:
                age.add_metric([model.name], now_s - model.loaded.snapshot_unix_s)
            if model.trained_unix_s:
                trained.add_metric([model.name, model.alias], now_s - model.trained_unix_s)
    return ready, version, age, trained


def of_heads(heads: Sequence[Heads], now_s: float) -> Iterable[Metric]:
    """Return the predicted waits of first waiting jobs, and how old their snapshots are."""
    from prometheus_client.core import GaugeMetricFamily

    wait = GaugeMetricFamily(
        "queuecast_head_wait_seconds",
        "Predicted seconds from the newest snapshot to the start of the partition's first waiting job, by level.",
        labels=["trace", "partition", "level"],
        unit="seconds",
    )
    age = GaugeMetricFamily(
        "queuecast_queue_age_seconds", "Age of the newest snapshot of the queue.", labels=["trace"], unit="seconds"
    )
    for head in heads:
        age.add_metric([head.trace], now_s - head.taken_unix_s)
        for label, waits_s in head.waits_s.items():
            for partition, wait_s in zip(head.partitions, waits_s.tolist(), strict=True):
                wait.add_metric([head.trace, partition, label], wait_s)
    return wait, age


def _of_traces(models: Sequence[Served]) -> Iterable[Metric]:
    """Yield what the tables of the served traces say; a trace without a table has no metric."""
    from prometheus_client.core import GaugeMetricFamily

    from models.starts.evaluation import quality
    from pipelines.lake.home import home
    from pipelines.lake.runtime_features import read_features
    from pipelines.lake.tables import Lake

    wait = GaugeMetricFamily(
        "queuecast_wait_seconds",
        "Waits of the jobs that started in the record's last day, by level.",
        labels=["trace", "partition", "level"],
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
            for partition, waits in day.groupby(partitions(day), sort=True)["wait_s"]:
                for label, level in WAITS.items():
                    wait.add_metric([trace, str(partition), label], float(waits.quantile(level)))
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


def partitions(jobs: pd.DataFrame) -> pd.Series:
    """Return the partition of each job, its queue if the trace has no partitions.

    A job without is "". The queue of Slurm accounting is a job's QOS.
    """
    column = "partition" if jobs["partition"].notna().any() else "queue"
    return jobs[column].astype(object).fillna("")
