"""How often the order of partitions that ``queue=*`` calls sure is right.

``python -m benchmarks.studies.start_places ACCOUNTING SITE [ACCOUNTING SITE ...]`` takes recorded runs. At ``MOMENTS`` moments of
each, a job is asked about that may go to any partition. What would have happened is a replay of the whole record with that job in
each partition and QOS: with the runtimes and the submissions that came, which the answer does not know. Places whose starts are equal
in the answer share a line there, and are no pair. Beside it stands a constant, the order of the partitions that is most often right in
the same pairs of the run.
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from pipelines.readers.queue_file import OF_SLURM, asked_of, queue_at
from pipelines.studies.parity import read_site_jobs
from pipelines.studies.when import queue_of, record_of
from sim.site.queue_ahead import SURE
from sim.site.replay import replay
from sim.slurm.requests import COLUMNS

MOMENTS, SIZES, REPLAYS = 12, ((2, 240), (8, 240)), 3
"""Moments of a run; processors and limits of the jobs that are asked about, which run for half of the limit; and replays of what
would have happened, each with other phases of Slurm's clocks."""


class Pair(NamedTuple):
    """Two neighbouring places, the sooner one first, as answered.

    Whether that was called ``sure``, and how much sooner the job started there in a replay.
    """

    first: str
    second: str
    sure: bool
    sooner_s: float


def pairs_of(accounting: Path, folder: Path) -> list[Pair]:
    """Return all pairs of neighbouring places of a run."""
    site, jobs = read_site_jobs(accounting, folder, "UTC")
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
            starts = {
                (place.queue, place.qos): _replayed(site, table, row | {"queue": place.queue, "qos": place.qos}, number)
                for place in places
            }
            for place, after in pairwise(places):
                assert place.sooner is not None
                if place.sooner == 0.5:
                    continue
                for sooner_s in starts[after.queue, after.qos] - starts[place.queue, place.qos]:
                    pairs.append(Pair(place.queue, after.queue, place.sooner >= SURE, float(sooner_s)))
    return pairs


def _replayed(site, table: pd.DataFrame, row: dict, seed: int) -> np.ndarray:
    """Return when the job of ``row`` starts in replays of the record with it.

    Unix seconds, float64 [``REPLAYS``].
    """
    asked = asked_of(pd.DataFrame([row | {"expected_unix_s": None, "start_unix_s": None}]), site)
    more = asked.assign(job_id="new", runtime_s=row["requested_s"] // 2)[list(COLUMNS)]
    whole = pd.concat([table[list(COLUMNS)].astype(object), more.astype(object)], ignore_index=True)
    types = table[list(COLUMNS)].dtypes.to_dict()
    whole = whole.astype(types).sort_values("submit_s", kind="stable", ignore_index=True)
    own = (whole["job_id"].astype(str) == "new").to_numpy(bool)
    return np.array([np.asarray(replay(site, whole, seed + 100 * number).start_s)[own][0] for number in range(REPLAYS)])


def constant(pairs: list[Pair]) -> int:
    """Return in how many pairs the best constant order of their two partitions is right."""
    sooner = Counter(
        (each.first, each.second) if each.sooner_s > 0 else (each.second, each.first) for each in pairs if each.sooner_s
    )
    return sum(max(count, sooner[pair[::-1]]) for pair, count in sooner.items() if pair < pair[::-1] or pair[::-1] not in sooner)


def main(arguments: list[str]) -> None:
    """Print for each run, and for all, how many pairs were called sure and how many of these were right."""
    everything: list[Pair] = []
    by_constant = 0
    for accounting, folder in zip(*[iter(map(Path, arguments))] * 2, strict=True):
        pairs = pairs_of(accounting, folder)
        everything += pairs
        by_constant += constant([each for each in pairs if each.sure])
        _print(accounting.name, pairs)
    _print("all", everything)
    print(f"of the sure pairs the best constant order of each run is right in {by_constant}")


def _print(name: str, pairs: list[Pair]) -> None:
    texts = []
    for what, sure in (("called sure", True), ("others", False)):
        these = [each.sooner_s for each in pairs if each.sure == sure]
        equal = sum(each == 0 for each in these)
        texts.append(f"{what} {len(these)}: right {sum(each > 0 for each in these)}, equal {equal}")
    print(f"{name}: {len(pairs)} pairs; {'; '.join(texts)}")


if __name__ == "__main__":
    main(sys.argv[1:])
