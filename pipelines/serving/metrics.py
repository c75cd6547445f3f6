"""``GET /metrics``: the service and its sites as OpenMetrics text, for Prometheus.

Tables of the lake and snapshots of queues are read at most every ``EVERY_S`` seconds, in a thread of their own: a scrape never keeps
an answer waiting. Snapshots lie in the folder that the catalogue's ``queues`` names. The start of each partition's first waiting job
is answered as ``POST /start`` answers.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from features.clock import DAY_S, local_clock_s
from features.errors import InputError
from models.packed.queue_state import NOT_YET
from pipelines.readers.queue_file import kept_queues, limited, read_queue
from pipelines.serving.loaded import Loaded
from pipelines.serving.models import RUNTIMES, STARTS, Served
from pipelines.serving.starts import LoadedStarts, QueueAtOnce, at_once, predicted

if TYPE_CHECKING:
    from prometheus_client.core import Metric

QUANTILES = {"0.1": "wait_10_s", "0.5": "wait_50_s", "0.9": "wait_90_s"}
"""Levels of the exported quantiles, by their label, and the answer's names of them."""


class Heads(NamedTuple):
    """Predicted waits of each partition's first waiting job.

    They count from the snapshot, which was taken at ``taken_unix_s``. ``waits_s`` float64 [partitions] by the label of the level.
    """

    trace: str
    taken_unix_s: int
    partitions: list[str]
    waits_s: dict[str, np.ndarray]


async def heads_of(models: Sequence[Served]) -> list[Heads]:
    """Return the heads of each served trace that keeps snapshots.

    A snapshot that cannot be read leaves its trace out, and a line on standard error says why.
    """
    heads = []
    for served in models:
        loaded = served.loaded
        if not isinstance(loaded, LoadedStarts) or not loaded.predictor.procs:
            continue
        trace = served.name.removeprefix(STARTS)
        try:
            taken = await asyncio.to_thread(_newest, trace, loaded.predictor.timezone)
        except InputError as error:
            print(f"metrics: {error}", file=sys.stderr, flush=True)
            continue
        if taken is None:
            continue
        taken_unix_s, clock_s, names, queue = taken
        runtimes = next((model.loaded for model in models if model.name == f"{RUNTIMES}{trace}"), None)
        if isinstance(runtimes, Loaded) and runtimes.predictor.method.levels:
            queue = queue._replace(jobs=await predicted(runtimes, queue.users, queue.jobs))
        first = first_waiting(queue, names)
        if not first:
            heads.append(Heads(trace, taken_unix_s, [], dict.fromkeys(QUANTILES, np.zeros(0))))
            continue
        rows = np.array(list(first.values()))
        figures = await asyncio.to_thread(loaded.figures, queue, rows, clock_s, loaded.predictor.procs)
        waits_s = {label: figures[name] for label, name in QUANTILES.items()}
        heads.append(Heads(trace, taken_unix_s, list(first), waits_s))
    return heads


def first_waiting(queue: QueueAtOnce, names: Sequence[str | None]) -> dict[str, int]:
    """Return the row of the first waiting job of each partition, by its name.

    ``names`` are the partitions by the code of ``queue``. A job that asks for several, ``cpu,gpu``, may be the first of each. Jobs
    that keep no other from starting, such as held ones, are first of none.
    """
    jobs, first = queue.jobs, dict[str, int]()
    waits = np.flatnonzero((jobs.start == NOT_YET) & ~queue.aside)
    for row in waits[np.argsort(queue.rank[waits])].tolist():
        code = int(jobs.queue[row])
        for partition in (names[code] or "").split(",") if code >= 0 else [""]:
            first.setdefault(partition, row)
    return dict(sorted(first.items()))


def _newest(trace: str, timezone: str | None) -> tuple[int, int, list[str | None], QueueAtOnce] | None:
    """Return a trace's newest snapshot.

    Its Unix time, the site's clock then, the partitions by code, and the queue. None if the catalogue names no folder of snapshots, or that is empty.
    """
    from pipelines.readers.catalogue import load_catalogue

    entry = load_catalogue().get(trace)
    if entry is None or not entry.queues:
        return None
    kept = kept_queues(entry.queues_path)
    if not kept:
        return None
    taken_unix_s = max(kept)
    clock_s = int(_clock(np.array([taken_unix_s]), timezone)[0])
    names, queue = queue_of_snapshot(kept[taken_unix_s], clock_s, timezone)
    return taken_unix_s, clock_s, names, queue


def queue_of_snapshot(path: Path, clock_s: int, timezone: str | None) -> tuple[list[str | None], QueueAtOnce]:
    """Return the partitions by code, and the jobs of a snapshot at a second of the clock."""
    jobs = limited(read_queue(path, timezone).jobs, None)
    runs = jobs["runs"].to_numpy(bool)
    begun = _clock(jobs["start_unix_s"].fillna(0).to_numpy(np.int64), timezone)
    start = np.where(runs, np.minimum(begun, clock_s - 1), NOT_YET)
    submit = np.minimum(_clock(jobs["submit_unix_s"].to_numpy(np.int64), timezone), np.minimum(start, clock_s))
    texts = ("user", "queue", "account", "reason")
    columns = {name: [text or None for text in jobs[name].astype(object).where(jobs[name].notna(), None)] for name in texts}
    numbers = {name: jobs[name].tolist() for name in ("procs", "requested_s", "priority")}
    queue = at_once({**columns, **numbers}, submit, start, np.argsort(submit, kind="stable"))
    return list(dict.fromkeys(columns["queue"])), queue


def _clock(unix_s: np.ndarray, timezone: str | None) -> np.ndarray:
    return np.asarray(local_clock_s(unix_s, 0, timezone), np.int64)


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
        from prometheus_client import CollectorRegistry  # of the extra ``server``, which a service without metrics lacks
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
    from pipelines.lake.places import home
    from pipelines.lake.tables import Lake, read_features

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
