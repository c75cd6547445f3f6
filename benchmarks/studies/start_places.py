"""How often the order of partitions that ``queue=*`` calls sure is right.

``python -m benchmarks.studies.start_places ACCOUNTING SITE [ACCOUNTING SITE ...]`` takes recorded runs. At ``MOMENTS`` moments of
each, a job is asked about that may go to any partition. What would have happened is a replay of the whole record with that job in
each partition: with the runtimes and the submissions that came, which the answer does not know.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from pipelines.ingest.queue_file import OF_SLURM, asked_of, queue_at
from pipelines.workflows.parity import read_site_jobs
from pipelines.workflows.when import SURE, queue_of, record_of
from sim.site.replay import replay
from sim.slurm.requests import COLUMNS

MOMENTS, SIZES = 12, ((2, 240), (8, 240))
"""Moments of a run, and processors and limits of the jobs that are asked about; they run for half of the limit."""


def pairs_of(accounting: Path, folder: Path) -> list[tuple[bool, bool]]:
    """Return for each pair of neighbouring places whether it was called sure, and whether its order was right."""
    site, jobs = read_site_jobs(accounting, folder, "UTC", "")
    table, record = jobs.table, record_of(site, jobs, "UTC")
    first, last = table["submit_s"].min(), table["submit_s"].max()
    users = table[["user", "account"]].iloc[-1]
    pairs = []
    for number, now_s in enumerate(np.linspace(first, last, MOMENTS + 2)[1:-1].astype(int)):
        for procs, limit_s in SIZES:
            row = dict.fromkeys(OF_SLURM, "") | {"job_id": "new", "runs": False, "user": users["user"], "queue": None}
            row |= {"account": users["account"], "procs": procs, "requested_s": limit_s, "submit_unix_s": now_s}
            snapshot = pd.concat([queue_at(table, int(now_s)), pd.DataFrame([row])], ignore_index=True)
            queue = queue_of(record, snapshot, int(now_s), scenarios=32)
            places = queue.places(int(np.flatnonzero(queue.job_id == "new")[0]))
            starts = {each.queue: _replayed(site, table, row | {"queue": each.queue}, number) for each in places}
            for place, after in pairwise(places):
                assert place.sooner is not None
                pairs.append((place.sooner >= SURE, starts[place.queue] <= starts[after.queue]))
    return pairs


def _replayed(site, table: pd.DataFrame, row: dict, seed: int) -> float:
    """Return when the job of ``row`` starts in a replay of the record with it."""
    asked = asked_of(pd.DataFrame([row | {"expected_unix_s": None, "start_unix_s": None}]), site)
    more = asked.assign(job_id="new", runtime_s=row["requested_s"] // 2)[list(COLUMNS)]
    whole = pd.concat([table[list(COLUMNS)].astype(object), more.astype(object)], ignore_index=True)
    types = table[list(COLUMNS)].dtypes.to_dict()
    whole = whole.astype(types).sort_values("submit_s", kind="stable", ignore_index=True)
    outcome = replay(site, whole, seed)
    return float(np.asarray(outcome.start_s)[whole["job_id"].astype(str) == "new"][0])


def main(arguments: list[str]) -> None:
    """Print for each run, and for all, how many pairs were called sure and how many of these were right."""
    everything: list[tuple[bool, bool]] = []
    for accounting, folder in zip(*[iter(map(Path, arguments))] * 2, strict=True):
        pairs = pairs_of(accounting, folder)
        everything += pairs
        _print(accounting.name, pairs)
    _print("all", everything)


def _print(name: str, pairs: list[tuple[bool, bool]]) -> None:
    sure = [right for called, right in pairs if called]
    other = [right for called, right in pairs if not called]
    print(f"{name}: {len(pairs)} pairs; called sure {len(sure)}, right {sum(sure)}; others {len(other)}, right {sum(other)}")


if __name__ == "__main__":
    main(sys.argv[1:])
