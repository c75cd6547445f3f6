"""A monitored system: what is ingested, and the training table made of it.

Counters, control runs, probes, types and topology are kept as ingested: they only grow, by whole files, and reading a
file again changes nothing. A training table has control runs and jobs with the counters before each. It is made by one
pass over the counters, and kept in the lake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from features.errors import InputError
from features.monitoring.labels import BINARY, baselines, feature_matrix, labels, z_scores
from features.monitoring.samplers import NEWEST_FEATURES, SAMPLERS, WINDOW_S, sampler_of
from features.monitoring.window_kernel import LONGEST_INTERVAL_S
from pipelines.lake.counters import CountersStore
from pipelines.lake.run_store import (
    JOBS,
    PROBE_RESULTS,
    REPLACED,
    RUNS,
    TOPOLOGY,
    TYPES,
    KeptRows,
    application_types,
    keep,
    machine_of,
    stored,
)
from pipelines.lake.tables import Lake
from pipelines.readers import SIMULATED
from pipelines.readers.control_runs import (
    ControlRuns,
    read_accounting_jobs,
    read_accounting_runs,
    read_probes,
    read_runs,
    read_topology,
    read_types,
)
from pipelines.readers.ldms.ingest import IngestReport, ingest_counters
from pipelines.readers.systems import System, settings_of
from pipelines.readers.text import some

if TYPE_CHECKING:
    from features.monitoring.situation import MonitoredMachine
    from features.monitoring.windows import WindowFeatures

Progress = Callable[[int, int], None]


ROWS = {
    RUNS: "control runs",
    JOBS: "jobs",
    PROBE_RESULTS: "probe results",
    TYPES: "application types",
    TOPOLOGY: "nodes with a leaf",
}
"""What the rows of a table are."""


@dataclass(frozen=True)
class IngestedFile:
    """A file of runs, jobs, probe results, types or a topology: its rows, and what was stored."""

    path: Path
    table: str
    read: ControlRuns
    kept: KeptRows

    @property
    def line(self) -> str:
        """Return the file and how many of its rows are new, known, in conflict and left out."""
        kept, conflicts = self.kept, ""
        if kept.contradicting:
            words = "changed" if self.table in REPLACED else "contradict stored ones, which stay"
            conflicts = f", {len(kept.contradicting):,} {words} ({some(kept.contradicting)})"
        left = ", ".join(f"{reason} {count:,}" for reason, count in self.read.left_out.items())
        rows = f"{len(self.read.runs):,} {ROWS[self.table]}: {kept.added:,} new, {kept.same:,} known{conflicts}"
        return f"{self.path}: {rows}" + (f"; left out: {left}" if left else "")


def read_counters(home: Path, system: System, progress: Progress = lambda done, total: None) -> IngestReport:
    """Read new content of the system's LDMS files.

    Raises InputError if its places name no file; the report lists broken files.
    """
    if not system.counters:
        raise InputError(
            f"{system.name}: no counters are known; read some by queuecast variability ingest --system {system.name} --counters ..."
        )
    store = CountersStore(home / "lake", system.name)
    return ingest_counters(
        store, system.counters, sampler=system.sampler or None, progress=lambda name, done, total: progress(done, total)
    )


def read_tables(lake: Lake, system: System) -> list[IngestedFile]:
    """Read the system's control runs, jobs, probe results, types and topology; store them.

    All are read before any is stored, so that an error in one changes nothing.
    """
    places: tuple[tuple[str, str, Callable[[Path], ControlRuns]], ...] = (
        (system.runs, RUNS, read_runs),
        (
            system.accounting if system.job_name else "",
            RUNS,
            lambda path: read_accounting_runs(path, system.job_name, system.time_zone or None),
        ),
        (system.accounting, JOBS, lambda path: read_accounting_jobs(path, system.time_zone or None)),
        (system.probes, PROBE_RESULTS, lambda path: ControlRuns(read_probes(path))),
        (system.types, TYPES, lambda path: ControlRuns(read_types(path))),
        (system.topology, TOPOLOGY, lambda path: ControlRuns(read_topology(path))),
    )
    contents = [(Path(place), table, read(Path(place))) for place, table, read in places if place]
    return [IngestedFile(path, table, read, keep(lake, table, system.name, read.runs)) for path, table, read in contents]


def sampled(store: CountersStore, report: IngestReport) -> pd.DataFrame:
    """Return what is stored of each sampler and day with new data, or else of each last day.

    Columns: ``sampler day rows values new``.
    """
    days = []
    for sampler in store.samplers:
        new = report.samplers[sampler].days if sampler in report.samplers else set()
        for day in sorted(new) or store.days(sampler)[-1:]:
            parts = store.parts(sampler, day)
            rows, values = sum(part.rows for part in parts), sum(part.values for part in parts)
            days.append({"sampler": sampler, "day": day, "rows": rows, "values": values, "new": day in new})
    return pd.DataFrame(days)


SCOPES = ("own", "all")
FEATURES_TABLE, MODEL_TABLE = "variability_features", "variability_model"
_RUN_COLUMNS = ("run_id", "job_id", "user", "application", "input", "start_s", "runtime_s")


@dataclass(frozen=True)
class TrainingTable:
    """Control runs of one system and their features, float64 [runs, features] by scope.

    Scopes are ``own`` and ``all``, in the same order. ``left_out`` counts runs that are not in it, by the reason.
    ``jobs`` and ``job_features`` are the same of users' jobs, if the accounting is known: they have no labels, and
    nothing learns from them.
    """

    system: str
    runs: pd.DataFrame
    features: Mapping[str, pd.DataFrame]
    generated: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)
    jobs: pd.DataFrame = field(default_factory=pd.DataFrame)
    job_features: Mapping[str, pd.DataFrame] = field(default_factory=dict)


def training_table(home: Path, system: str, scopes: Sequence[str] = SCOPES) -> TrainingTable:
    """Return the training table of ``system`` under ``home``, by one pass over its counters.

    Samples that could not yet be read when a run started (``lag_s`` in ``systems.toml``) are not used. Runs with
    unknown nodes, or without any sample in their window, are left out. Without probe results, their features are
    missing. With a topology the table also has MORE_FEATURES; neighbours are all jobs of the accounting, and control
    runs. Raises InputError without ingested control runs or counters.
    """
    lake = Lake(home / "lake")
    every = stored(lake, RUNS, system)
    if len(every) == 0:
        raise InputError(f"{lake.root / RUNS}: no control runs of {system}: ingest them first")
    lag_s = settings_of(home, system).lag_s
    store, machine = CountersStore(lake.root, system), machine_of(lake, system)
    runs = _with_jobs(every[every["nodes"].notna()], stored(lake, JOBS, system), float(every["start_s"].min()))
    before_starts = windows_before(store, runs, scopes, lag_s)
    windows = {scope: table for scope in scopes if (table := getattr(before_starts, scope)) is not None}
    sampled = ~np.all([table.isna().all(axis=1).to_numpy() for table in windows.values()], axis=0)
    kept = runs[sampled].reset_index(drop=True)
    control = kept["control"].to_numpy(bool)
    if not control.any():
        raise InputError(
            f"{system}: none of {len(every):,} control runs has known nodes and counters in the {WINDOW_S} s before it started"
        )
    probes, types = stored(lake, PROBE_RESULTS, system), application_types(lake, system)
    features = {scope: feature_matrix(table, probes, types, kept).reset_index(drop=True) for scope, table in windows.items()}
    if machine is not None:
        beside = situations_of(runs, machine).loc[kept["run_id"]]
        more = newest_before(store, kept, before_starts.interval_s, lag_s).join(beside).reset_index(drop=True)
        features = {scope: pd.concat([table, more], axis=1) for scope, table in features.items()}
    unseen = int((runs["control"].to_numpy(bool) & ~sampled).sum())
    left_out = {"nodes not known": int(every["nodes"].isna().sum()), "no counter sampled in the window": unseen}
    (of_runs, own), (of_jobs, others) = (
        (kept[rows].reset_index(drop=True), {scope: table[rows].reset_index(drop=True) for scope, table in features.items()})
        for rows in (control, ~control)
    )
    return TrainingTable(system, of_runs, own, system == SIMULATED, left_out, jobs=of_jobs, job_features=others)


def _with_jobs(runs: pd.DataFrame, jobs: pd.DataFrame, since_s: float) -> pd.DataFrame:
    """Return control ``runs`` and the other ``jobs`` that did not end before ``since_s``.

    Added columns: ``control``; ``job_id``, null for the id of a task and for a control run that is no job of the
    accounting; and ``user``.
    """
    user_of = dict(zip(jobs["job_id"], jobs["user"], strict=True))
    others = jobs[~jobs["job_id"].isin(runs["run_id"]) & ~(jobs["start_s"] + jobs["runtime_s"] < since_s)]
    tables = [runs.assign(control=True), others.rename(columns={"job_id": "run_id"}).assign(control=False, input="")]
    both = pd.concat([table for table in tables if len(table)], ignore_index=True)
    number = pd.to_numeric(both["run_id"].where(both["run_id"].isin(user_of)), errors="coerce").astype("Int64")
    return both.assign(job_id=number, user=[user_of.get(name, "") for name in both["run_id"]])


def windows_before(store: CountersStore, runs: pd.DataFrame, scopes: Sequence[str], lag_s: float) -> WindowFeatures:
    """Return the features of all samplers of ``store`` in the window before each of ``runs``.

    ``runs`` has ``run_id nodes start_s``; ``scopes`` as in :func:`training_table`. Raises InputError without counters.
    """
    from features.monitoring.windows import (  # compiled code, which tables without counters do not need
        side_by_side,
        window_features,
    )

    names = [name for name in SAMPLERS if name in store.samplers] + [name for name in store.samplers if name not in SAMPLERS]
    if not names:
        raise InputError(f"{store.root}: no counters of {store.system}: ingest them first")
    first, last = float(runs["start_s"].min()) - WINDOW_S - LONGEST_INTERVAL_S, float(runs["start_s"].max())
    scope: Any = scopes[0] if len(scopes) == 1 else "both"
    return side_by_side(
        [
            window_features(store.batches(name, first, last), runs, sampler_of(name, store.metrics(name)), lag_s=lag_s, scope=scope)
            for name in names
        ]
    )


def newest_before(
    store: CountersStore, runs: pd.DataFrame, interval_s: pd.Series, lag_s: float, columns: Sequence[str] = NEWEST_FEATURES
) -> pd.DataFrame:
    """Return those of ``columns`` that are NEWEST_FEATURES, float64, index ``run_id``.

    A value is the mean over the nodes of a metric's newest sample that could be read before the start, over the
    sampler's usual interval (``interval_s``). It is NaN if that interval is unknown, and in the columns of other
    samplers.
    """
    from features.monitoring.windows import window_features

    newest = pd.DataFrame(np.nan, pd.Index(runs["run_id"], name="run_id"), [name for name in columns if name in NEWEST_FEATURES])
    last = float(runs["start_s"].max())
    for name, interval in interval_s.items():
        metrics = [metric for metric in store.metrics(str(name)) if f"{name}.{metric}.newest" in newest]
        if not metrics or np.isnan(interval):
            continue
        window_s = min(lag_s + interval, float(WINDOW_S))
        first = float(runs["start_s"].min()) - window_s - LONGEST_INTERVAL_S
        interval_features = window_features(
            store.batches(str(name), first, last, metrics=metrics),
            runs,
            sampler_of(str(name), metrics),
            window_s=window_s,
            lag_s=lag_s,
            scope="all",
        ).all
        assert interval_features is not None
        for metric in metrics:
            newest[f"{name}.{metric}.newest"] = interval_features[f"{name}.{metric}.mean"]
    return newest


def situations_of(runs: pd.DataFrame, machine: MonitoredMachine) -> pd.DataFrame:
    """Return SITUATION_FEATURES of ``runs`` with known nodes, index ``run_id``.

    Each is a neighbour of the others. Of runs with the same start, the one with the lower number in its name started
    first.
    """
    from features.monitoring.situation import jobs_of, situations

    jobs = sorted(jobs_of(runs), key=lambda job: re.sub(r"\d+", lambda digits: digits[0].zfill(20), job.name))
    return situations(jobs, machine).set_axis(pd.Index([job.name for job in jobs], name="run_id"), axis=0)


def pack_table(table: TrainingTable) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return a training table as a table of the lake, and metadata.

    It has a row per run, or job, and scope.
    """
    rows = [
        pd.concat([runs[list(_RUN_COLUMNS)].assign(control=control, scope=scope), features[scope]], axis=1)
        for control, runs, features in ((True, table.runs, table.features), (False, table.jobs, table.job_features))
        for scope in features
        if len(runs)
    ]
    return pd.concat(rows, ignore_index=True), {"left_out": dict(table.left_out), "generated": table.generated}


def unpack_table(system: str, frame: pd.DataFrame, metadata: Mapping[str, Any]) -> TrainingTable:
    """Invert :func:`pack_table`."""
    is_control, frame = frame["control"].to_numpy(bool), frame.drop(columns="control")
    left = {key: metadata[key] for key in ("generated", "left_out")}
    parts = [
        {scope: part for scope in SCOPES if len(part := rows[rows["scope"] == scope].reset_index(drop=True))}
        for rows in (frame[is_control], frame[~is_control])
    ]
    (runs, features), (jobs, job_features) = (
        (
            next(iter(part.values()), pd.DataFrame())[list(_RUN_COLUMNS) if part else []],
            {scope: table.drop(columns=[*_RUN_COLUMNS, "scope"]) for scope, table in part.items()},
        )
        for part in parts
    )
    return TrainingTable(system, runs, features, jobs=jobs, job_features=job_features, **left)


def still_metrics(table: TrainingTable) -> list[str]:
    """Return metrics that are constant before all runs, on own nodes and on all.

    Their sensors are dead or misnamed.
    """
    still = []
    for name in table.features["own"].columns:
        if name.endswith(".max"):
            values = [frame[part] for frame in table.features.values() for part in (name, f"{name.removesuffix('.max')}.min")]
            seen = pd.concat([column.dropna() for column in values])
            if seen.nunique() <= 1:
                still.append(name.removesuffix(".max"))
    return still


def label_balance(runs: pd.DataFrame) -> pd.DataFrame:
    """Return ``runs mean_s sigma_s varied share`` by application.

    ``varied`` counts runs with z > 1.5 by the mean and deviation of all runs.
    """
    table = baselines(runs["application"], runs["runtime_s"])
    z = z_scores(runs["application"], runs["runtime_s"], table)
    varied = labels(np.nan_to_num(z), BINARY)
    table["varied"] = pd.Series(varied).groupby(runs["application"].to_numpy()).sum().reindex(table.index)
    return table.assign(share=table["varied"] / table["runs"]).reset_index()
