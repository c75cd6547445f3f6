"""The embedded default: a simulated cluster's monitoring, written and read as a site's.

The cluster is the preset ``congested`` at a quarter of its size, at first for sixteen days and a half, up to a
midnight, of which the last two days and a half are monitored. Files stay until the settings change. Its accounting is
the trace of the same name.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from features.clock import DAY_S
from features.errors import InputError
from features.monitoring.samplers import SAMPLERS
from pipelines.lake.files import csv_text
from pipelines.lake.locks import held
from pipelines.lake.places import is_url, local_home, made_folder, move, replacing
from pipelines.lake.run_store import TABLES
from pipelines.lake.tables import Lake
from pipelines.lake.version import COUNTERS as COUNTERS_SUBJECT
from pipelines.lake.version import subject_of
from pipelines.readers import SIMULATED
from sim.cluster.presets import CONGESTED_SMALL, SimulatedCluster
from sim.cluster.recorded import GAUGES, ORIGIN_S, Recorded, node_names, record, topology
from sim.cluster.users import LOAD

ROTATE = 120
"""Samples of a sampler in one file: an hour of them at 30 s."""
COUNTERS, RUNS, PROBE_RESULTS, TYPES = "counters", "runs.csv", "probes.csv", "types.csv"
TOPOLOGY, JOBS, SETTINGS = "topology.conf", "jobs.csv", "settings.json"
_HEAD = "#Time,Time_usec,ProducerName,component_id,job_id"
_PLAIN = csv.WriteOptions(include_header=False, quoting_style="none")


def emit(
    cluster: SimulatedCluster,
    folder: Path,
    *,
    days: float,
    seed: int,
    origin_s: int = ORIGIN_S,
    monitored_from: float = 0.0,
) -> Recorded:
    """Write to ``folder`` what a site has recorded after ``days`` days.

    Days that are there stay, and only the others are added.

    The simulation begins anew each time, which is exact and takes a fifth of a second for a day of 128 nodes; only new
    counters are written. ``origin_s`` is the Unix time of the first submission; of the first ``monitored_from`` days
    there is accounting alone. A file holds :data:`ROTATE` samples of a sampler, gzipped. Returns all jobs and control
    runs, those of former calls among them.

    Raises InputError for a folder with anything else, or with an emission of other settings or more days.
    """
    settings = settings_of(cluster, seed, origin_s, monitored_from)
    former = days_of(folder / SETTINGS, settings)
    if former > days or (not former and folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise InputError(f"{folder}: already holds other data, or more days: give a new or empty folder")
    since = -(-int(former * DAY_S) // cluster.interval_s) if former else None
    files = CounterFiles(cluster, folder / COUNTERS, origin_s, since)
    recorded = record(
        cluster,
        files.add,
        days=days,
        seed=seed,
        load=LOAD,
        origin_s=origin_s,
        monitored_from=monitored_from,
    )
    files.write()
    runs = recorded.runs
    _write(folder / JOBS, csv_text(recorded.jobs))
    _write(folder / RUNS, csv_text(runs.assign(nodes=[" ".join(names) for names in runs["nodes"]])))
    _write(folder / PROBE_RESULTS, csv_text(recorded.probes))
    _write(folder / TYPES, csv_text(recorded.types))
    _write(folder / TOPOLOGY, topology(cluster))
    _write(folder / SETTINGS, json.dumps({**settings, "days": days}, indent=1))
    return recorded


def settings_of(cluster: SimulatedCluster, seed: int, origin_s: int = ORIGIN_S, monitored_from: float = 0.0) -> dict[str, Any]:
    """Return what an emission is of, but for its days."""
    return {"cluster": asdict(cluster), "seed": seed, "load": LOAD, "origin_s": origin_s, "monitored_from": monitored_from}


def days_of(path: Path, settings: Mapping[str, Any]) -> float:
    """Return the days of an emission by its file of settings, 0.0 if it is missing.

    Other settings count as missing.
    """
    if not path.exists():
        return 0.0
    emitted = json.loads(path.read_text(encoding="utf-8"))
    days = float(emitted.pop("days"))
    return days if emitted == json.loads(json.dumps(settings)) else 0.0


class CounterFiles:
    """Writer of one file per sampler for every :data:`ROTATE` samples.

    Samples before number ``since`` are left out.
    """

    def __init__(self, cluster: SimulatedCluster, folder: Path, origin_s: int, since: int | None = None) -> None:
        self.cluster, self.folder, self.origin_s, self.since = cluster, folder, origin_s, since
        self._names = pa.array(node_names(np.arange(cluster.nodes)))
        self._first = 0
        self._held: list[np.ndarray] = []

    def add(self, first: int, values: np.ndarray) -> None:
        """Add samples ``first`` and following, float64 [samples, counters, nodes]."""
        for number, sample in enumerate(values, start=first):
            if self.since is not None and number < self.since:
                continue
            if not self._held:
                self._first = number
            self._held.append(sample.copy())
            if len(self._held) == ROTATE:
                self.write()

    def write(self) -> None:
        """Write the samples that are held to files named after the time of the first."""
        if not self._held:
            return
        values = np.stack(self._held)
        self._held = []
        samples, _, nodes = values.shape
        times = self.origin_s + (self._first + np.arange(samples)) * self.cluster.interval_s
        number = np.tile(np.arange(nodes), samples)
        nothing = np.zeros(samples * nodes, np.int64)
        head = [
            pa.array([f"{time}.000000" for time in times]).take(pa.array(np.repeat(np.arange(samples), nodes))),
            nothing,
            self._names.take(pa.array(number)),
            number + 1,
            nothing,
        ]
        row = 0
        for name, sampler in SAMPLERS.items():
            columns = []
            for counter in range(row, row + len(sampler.metrics)):
                column = values[:, counter].reshape(-1)
                columns.append(column if GAUGES[counter] else column.astype(np.int64))
            row += len(sampler.metrics)
            table = pa.table([*head, *columns], names=[*_HEAD.split(","), *sampler.metrics])
            with (
                replacing(self.folder / f"{name}.{times[0]}.gz") as temporary,
                temporary.open("wb") as file,
                gzip.GzipFile("", "wb", 1, file, mtime=0) as packed,
            ):
                packed.write(f"{_HEAD},{','.join(sampler.metrics)}\n".encode())
                csv.write_csv(table, packed, _PLAIN)


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


CLUSTER, DAYS, MONITORED_FROM, SEED = CONGESTED_SMALL, 16.5, 14.0, 0
"""The cluster, days of its accounting at a first run, the day from which counters are kept, and the seed."""
_NOON = ORIGIN_S + 43_200


def simulate_site(home: Path, days: float = 0.0) -> bool:
    """Write the simulated cluster's files up to ``days`` days; tell whether any was written.

    There are at least ``DAYS``. Days that are there stay, and only missing ones are added. Files of other settings,
    such as an earlier version's, are removed together with the tables read from them: they hold runs of another
    cluster.
    """
    folder = site_folder(home)
    settings = settings_of(CLUSTER, SEED, origin_s=_NOON, monitored_from=MONITORED_FROM)
    made_folder(folder.parent)
    with held(folder.with_suffix(".lock")):
        own_days = days_of(folder / SETTINGS, settings)
        wanted = max(days, DAYS, own_days)
        if own_days == wanted:
            return False
        new_folder = folder if own_days else folder.with_suffix(".new")
        if not own_days:
            shutil.rmtree(new_folder, ignore_errors=True)
        emit(CLUSTER, new_folder, days=wanted, seed=SEED, origin_s=_NOON, monitored_from=MONITORED_FROM)
        if not own_days:
            lake = Lake(home / "lake")
            for table in (COUNTERS_SUBJECT, *TABLES):
                versions = lake.versions(subject_of(table, SIMULATED))
                if gone := versions.current().files:
                    versions.commit({}, gone=[*gone])
            shutil.rmtree(folder, ignore_errors=True)
            move(new_folder, folder)
        return True


def accounting_file(home: Path) -> Path:
    """Return the accounting that :func:`simulate_site` writes."""
    return site_folder(home) / JOBS


def site_folder(home: Path) -> Path:
    """Return this machine's folder of the files."""
    return (local_home() if is_url(home) else home) / "simulated" / "congested-small"
