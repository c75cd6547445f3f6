"""The simulated cluster's monitoring written as a site's files.

LDMS CSV files, Slurm accounting, control runs, probe results, application types with usual rates, and the topology. Counters of
Nichols et al.'s samplers are running sums that begin at a random value, as on nodes that have been up for a while; gauges are
written unchanged. The simulator keeps only the min, max and mean wait of a run's probes: the written rows have these, but the
wait of each node is made up.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv

from features.errors import InputError
from features.monitoring.samplers import PROBES, SAMPLERS
from features.monitoring.situation import RATES
from pipelines.storage.csv_text import csv_text
from pipelines.storage.places import replacing
from sim.cluster.applications import APPLICATIONS, NODES
from sim.cluster.experiments import LOAD, chosen_runs
from sim.cluster.presets import Cluster
from sim.cluster.simulate import ClusterRun, simulate_on
from sim.cluster.workloads import continuous

ORIGIN_S = 1_596_240_000
"""Default Unix time of the first submission: 1 August 2020, when Nichols et al. began to collect."""
ROTATE = 120
"""Samples of a sampler in one file: an hour of them at 30 s."""
COUNTERS, RUNS, PROBE_RESULTS, TYPES, README = "counters", "runs.csv", "probes.csv", "types.csv", "README.txt"
TOPOLOGY, JOBS = "topology.conf", "jobs.csv"
_HEAD = "#Time,Time_usec,ProducerName,component_id,job_id"
_PLAIN = csv.WriteOptions(include_header=False, quoting_style="none")
_FIRST_BELOW = 2**32

Progress = Callable[[int, int], None]


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
    progress: Progress | None = None,
) -> Emitted:
    """Simulate ``days`` days of load under EASY and write a site's files to ``folder``.

    ``each`` runs of every application, at random, are control runs (all if None). ``origin_s`` is the Unix time of the first
    submission; a file holds ``rotate`` samples of a sampler, gzipped if ``packed``. Memory grows with the runs, not with the
    days. ``progress`` receives simulated seconds: done and in total. Raises InputError for a folder that is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already and not empty: simulated data are not mixed with others")
    jobs = continuous(days, seed, procs=cluster.procs, load=load)
    chosen = chosen_runs(jobs["executable"].astype("str").to_numpy(), each, np.random.default_rng([seed, 3]))
    until = int(jobs["submit_s"].iloc[-1])

    with CounterFiles(cluster, folder / COUNTERS, origin_s, seed=seed, rotate=rotate, packed=packed) as files:

        def record(first: int, increments: np.ndarray) -> None:
            files.add(first, increments)
            if progress is not None:
                progress(min(max((first + len(increments)) * cluster.interval_s, 0), until), until)

        run = simulate_on(cluster, jobs, seed=seed, features=chosen, record=record, places=True)
    assert run.places is not None
    _write(folder / JOBS, accounting(run, origin_s))
    held = [run.places[row] for row in np.flatnonzero(chosen)]
    kept = run.runs[chosen].reset_index(drop=True)
    runs = pd.DataFrame(
        {
            "run_id": kept["job_id"].astype("str"),
            "application": kept["application"].astype("str"),
            "input": f"simulated, {NODES} nodes",
            "nodes": pd.Series([node_names(nodes) for nodes in held], dtype=object),
            "start_s": origin_s + kept["start_s"].to_numpy(np.int64),
            "runtime_s": kept["runtime_s"],
        }
    )
    own, every, situation = (table.reset_index(drop=True) for table in (run.own, run.all, run.situation))
    usual = [(application.name, application.type, application.on(NODES)) for application in APPLICATIONS.values()]
    types = pd.DataFrame(
        [(name, kind, each.read, each.write, each.traffic) for name, kind, each in usual], columns=["application", "type", *RATES]
    )
    _write(folder / RUNS, runs.assign(nodes=[" ".join(names) for names in runs["nodes"]]))
    _write(folder / PROBE_RESULTS, probe_rows(runs, own))
    _write(folder / TYPES, types)
    with replacing(folder / TOPOLOGY) as temporary:
        temporary.write_text(_topology(cluster), encoding="utf-8")
    with replacing(folder / README) as temporary:
        temporary.write_text(_readme(cluster, days, seed, load, origin_s, len(runs)), encoding="utf-8")
    return Emitted(
        replace(run, runs=kept, own=own, all=every, situation=situation, places=held),
        runs,
        files.files,
        files.samples,
        files.values,
    )


class CounterFiles(ExitStack):
    """Writer of one file per sampler for every ``rotate`` samples; files appear when complete."""

    def __init__(
        self, cluster: Cluster, folder: Path, origin_s: int, *, seed: int, rotate: int = ROTATE, packed: bool = False
    ) -> None:
        super().__init__()
        if rotate < 1:
            raise InputError(f"a file must hold at least one sample, not {rotate}")
        self.cluster, self.folder, self.origin_s, self.rotate, self.packed = cluster, folder, origin_s, rotate, packed
        self.files = self.samples = self.values = 0
        self._gauge = np.array([metric in sampler.gauges for sampler in SAMPLERS.values() for metric in sampler.metrics])
        self._names = pa.array(node_names(np.arange(cluster.nodes)))
        shape = len(self._gauge), cluster.nodes
        self._sums = np.random.default_rng([seed, 4]).integers(0, _FIRST_BELOW, shape).astype(np.float64)
        self._begun = False
        self._left = 0
        self._open: dict[str, Any] = {}

    def add(self, first: int, increments: np.ndarray) -> None:
        """Add samples ``first`` and following, float64 [samples, counters, nodes].

        They come from ``record`` of :func:`sim.cluster.simulate.simulate_on`.
        """
        if not self._begun:  # a sample before all others, so that the first increments count
            self._begun = True
            first, increments = first - 1, np.concatenate([np.where(self._gauge[:, None], increments[:1], 0.0), increments])
        values = np.cumsum(increments, axis=0) + self._sums
        self._sums = values[-1].copy()
        values[:, self._gauge] = increments[:, self._gauge]
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
                columns.append(column if self._gauge[counter] else column.astype(np.int64))
            row += len(sampler.metrics)
            table = pa.table([*head, *columns], names=[*_HEAD.split(","), *sampler.metrics])
            csv.write_csv(table, self._open[name], _PLAIN)
        self.samples += samples * nodes * len(SAMPLERS)
        self.values += samples * nodes * counters


def node_names(numbers: np.ndarray) -> list[str]:
    """Return ``node0001`` and so on for nodes counted from 0."""
    return [f"node{number + 1:04d}" for number in numbers]


def probe_rows(runs: pd.DataFrame, features: pd.DataFrame) -> pd.DataFrame:
    """Return probe results with the min, max and mean waits of ``features``.

    One row per run and node: the first node has the min, the second the max, all others the same wait.
    """
    counts = np.array([len(nodes) for nodes in runs["nodes"]])
    of, place = np.repeat(np.arange(len(runs)), counts), np.concatenate([np.arange(count) for count in counts])
    waits = {}
    for name in PROBES:
        least, most, mean = (features[f"probe.{name}.{statistic}"].to_numpy() for statistic in ("min", "max", "mean"))
        others = np.clip((counts * mean - least - most) / np.maximum(counts - 2, 1), least, most)
        waits[name] = np.where(place == 0, least[of], np.where(place == 1, most[of], others[of]))
    nodes = [node for names in runs["nodes"] for node in names]
    return pd.DataFrame({"run_id": runs["run_id"].to_numpy()[of], "node": nodes, **waits})


def accounting(run: ClusterRun, origin_s: int) -> pd.DataFrame:
    """Return the jobs of ``run`` with the columns of ``sacct``, in UTC; a processor is a node."""
    assert run.places is not None
    jobs = run.schedule.jobs
    times = {name: origin_s + jobs[f"{name.lower()}_s"] for name in ("Submit", "Start", "End")}
    return pd.DataFrame(
        {
            "JobID": jobs["job_id"],
            "JobName": run.runs["application"],
            "User": jobs["user"],
            "State": "COMPLETED",
            **{name: pd.to_datetime(each, unit="s").dt.strftime("%Y-%m-%dT%H:%M:%S") for name, each in times.items()},
            "TimelimitRaw": jobs["requested_s"] // 60,
            "ReqCPUS": jobs["procs"],
            "AllocCPUS": jobs["procs"],
            "NodeList": [",".join(node_names(nodes)) for nodes in run.places],
        }
    )


def _topology(cluster: Cluster) -> str:
    """Return the leaf switches as lines of Slurm's topology.conf."""
    size = cluster.nodes_per_leaf
    ends = [(leaf * size + 1, min((leaf + 1) * size, cluster.nodes)) for leaf in range(cluster.leaves)]
    lines = [f"SwitchName=leaf{leaf + 1} Nodes=node[{first:04d}-{last:04d}]" for leaf, (first, last) in enumerate(ends)]
    return "\n".join([*lines, f"SwitchName=core Switches=leaf[1-{cluster.leaves}]"]) + "\n"


def _write(path: Path, table: pd.DataFrame) -> None:
    with replacing(path) as temporary:
        temporary.write_text(csv_text(table), encoding="utf-8")


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
