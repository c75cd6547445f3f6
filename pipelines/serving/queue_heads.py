"""Predict the start of each partition's first waiting job from a site's newest snapshot.

Snapshots lie in the folder that the catalogue's ``queues`` names. They are answered as ``POST /start`` answers: by the state of the
queue, with the runtimes that the trace's runtime model predicts if it is served, too.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from features.clock import local_clock_s
from features.errors import InputError
from models.packed.queue_state import NOT_YET
from pipelines.readers.queue_file import kept_queues, limited, read_queue
from pipelines.serving.loaded import Loaded
from pipelines.serving.models import Served
from pipelines.serving.site_registry import RUNTIMES, STARTS
from pipelines.serving.starts import LoadedStarts, QueueAtOnce, at_once, predicted

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
