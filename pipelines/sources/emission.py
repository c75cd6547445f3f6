"""The records of :mod:`sim.cluster.recorded` as a site's files.

They are LDMS CSV files, Slurm accounting, tables and the topology.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv

from features.errors import InputError
from features.monitoring.samplers import SAMPLERS
from pipelines.storage.csv_text import csv_text
from pipelines.storage.places import replacing
from sim.cluster.experiments import LOAD
from sim.cluster.presets import Cluster
from sim.cluster.recorded import GAUGES, ORIGIN_S, node_names, record, topology
from sim.cluster.simulate import ClusterRun

ROTATE = 120
"""Samples of a sampler in one file: an hour of them at 30 s."""
COUNTERS, RUNS, PROBE_RESULTS, TYPES, README = "counters", "runs.csv", "probes.csv", "types.csv", "README.txt"
TOPOLOGY, JOBS = "topology.conf", "jobs.csv"
_HEAD = "#Time,Time_usec,ProducerName,component_id,job_id"
_PLAIN = csv.WriteOptions(include_header=False, quoting_style="none")


@dataclass(frozen=True)
class Emitted:
    """Result of :func:`emit`: control runs, their features, and counts of what was written.

    ``run`` has the control runs and their features from the simulator, ``runs`` is the canonical table that was written, in the
    same order. ``samples`` counts rows of all samplers together, ``values`` the values in them.
    """

    run: ClusterRun
    runs: pd.DataFrame
    files: int
    samples: int
    values: int


def emit(
    cluster: Cluster,
    folder: Path,
    *,
    days: float,
    seed: int,
    each: int | None = None,
    load: float = LOAD,
    origin_s: int = ORIGIN_S,
    rotate: int = ROTATE,
    packed: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Emitted:
    """Simulate ``days`` days of load under EASY and write a site's files to ``folder``.

    ``each`` runs of every application, at random, are control runs (all if None). ``origin_s`` is the Unix time of the first
    submission; a file holds ``rotate`` samples of a sampler, gzipped if ``packed``. Memory grows with the runs, not with the
    days. ``progress`` receives simulated seconds: done and in total. Raises InputError for a folder that is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already and not empty: simulated data are not mixed with others")
    with CounterFiles(cluster, folder / COUNTERS, origin_s, rotate=rotate, packed=packed) as files:
        recorded = record(cluster, files.add, days=days, seed=seed, each=each, load=load, origin_s=origin_s, progress=progress)
    runs = recorded.runs
    _write(folder / JOBS, csv_text(recorded.jobs))
    _write(folder / RUNS, csv_text(runs.assign(nodes=[" ".join(names) for names in runs["nodes"]])))
    _write(folder / PROBE_RESULTS, csv_text(recorded.probes))
    _write(folder / TYPES, csv_text(recorded.types))
    _write(folder / TOPOLOGY, topology(cluster))
    _write(folder / README, _readme(cluster, days, seed, load, origin_s, len(runs)))
    return Emitted(recorded.run, runs, files.files, files.samples, files.values)


class CounterFiles(ExitStack):
    """Writer of one file per sampler for every ``rotate`` samples; files appear when complete."""

    def __init__(self, cluster: Cluster, folder: Path, origin_s: int, *, rotate: int, packed: bool) -> None:
        super().__init__()
        if rotate < 1:
            raise InputError(f"a file must hold at least one sample, not {rotate}")
        self.cluster, self.folder, self.origin_s, self.rotate, self.packed = cluster, folder, origin_s, rotate, packed
        self.files = self.samples = self.values = 0
        self._names = pa.array(node_names(np.arange(cluster.nodes)))
        self._left = 0
        self._open: dict[str, Any] = {}

    def add(self, first: int, values: np.ndarray) -> None:
        """Add samples ``first`` and following, float64 [samples, counters, nodes]."""
        done = 0
        while done < len(values):
            if self._left == 0:
                self._next(self.origin_s + (first + done) * self.cluster.interval_s)
            part = values[done : done + self._left]
            self._write(first + done, part)
            self._left -= len(part)
            done += len(part)

    def _next(self, time_s: int) -> None:
        """Close full files and begin new ones, named after the time of their first sample."""
        self.close()
        for name, sampler in SAMPLERS.items():
            path = self.folder / f"{name}.{time_s}{'.gz' if self.packed else ''}"
            file: Any = self.enter_context(self.enter_context(replacing(path)).open("wb"))
            if self.packed:
                file = self.enter_context(gzip.GzipFile("", "wb", 1, file, mtime=0))
            file.write(f"{_HEAD},{','.join(sampler.metrics)}\n".encode())
            self._open[name] = file
            self.files += 1
        self._left = self.rotate

    def _write(self, first: int, values: np.ndarray) -> None:
        """Write samples of all samplers to the open files."""
        samples, counters, nodes = values.shape
        times = self.origin_s + (first + np.arange(samples)) * self.cluster.interval_s
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
            csv.write_csv(table, self._open[name], _PLAIN)
        self.samples += samples * nodes * len(SAMPLERS)
        self.values += samples * nodes * counters


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _readme(cluster: Cluster, days: float, seed: int, load: float, origin_s: int, runs: int) -> str:
    return (
        f"SIMULATED. Nothing here was measured on a machine.\n\nThe simulated cluster {cluster.name}, {cluster.nodes} nodes, {days:g} days of continuous load "
        f"{load:g} from Unix time {origin_s} on, seed {seed}, EASY.\n\n"
        f"{COUNTERS}/     LDMS CSV of {', '.join(SAMPLERS)}, every {cluster.interval_s} s; a sample can be read {cluster.lag_s} s after its time\n"
        f"{JOBS}      accounting of all jobs with the columns of sacct, in UTC\n"
        f"{RUNS}      {runs:,} control runs\n"
        f"{PROBE_RESULTS}    probe results: min, max and mean wait of a run are the simulator's, which node waited how long is made up\n"
        f"{TYPES}     types of the applications, and GB/s that a node of each usually reads, writes and sends\n"
        f"{TOPOLOGY} leaf switches of the nodes\n"
    )
