"""Training tables of a system: its control runs, with the counters before each began.

A table is made from the ingested data by one pass over the counters, and kept in the lake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from features.errors import InputError
from features.monitoring.labels import BINARY, baselines, feature_matrix, labels, z_scores
from features.monitoring.rates import LONGEST_INTERVAL_S
from features.monitoring.samplers import NEWEST_FEATURES, SAMPLERS, WINDOW_S, sampler_of
from pipelines.storage.lake import Lake

if TYPE_CHECKING:
    from features.monitoring.situation import Machine
    from features.monitoring.windows import WindowFeatures
    from pipelines.storage.counters_store import CountersStore

SCOPES = ("own", "all")
FEATURES_TABLE, MODEL_TABLE = "variability_features", "variability_model"
FEWEST_RUNS = 4
"""Min number of runs of an application for one to vary: of three, none is 1.5 standard deviations off their mean (ddof = 0)."""
_RUN_COLUMNS = ("run_id", "application", "input", "start_s", "runtime_s")


@dataclass(frozen=True)
class TrainingTable:
    """Control runs of one system and their features, float64 [runs, features] by scope.

    Scopes are ``own`` and ``all``, in the same order. ``left_out`` counts runs that are not in it, by the reason.
    ``coverage`` (one row per run, before any was left out for missing samples), ``counts`` and ``interval_s`` are those of
    :class:`features.monitoring.windows.WindowFeatures`; samples younger than ``lag_s`` were not read.
    """

    system: str
    runs: pd.DataFrame
    features: Mapping[str, pd.DataFrame]
    generated: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)
    coverage: pd.DataFrame = field(default_factory=pd.DataFrame)
    counts: pd.Series = field(default_factory=lambda: pd.Series(dtype=np.int64))
    interval_s: pd.Series = field(default_factory=lambda: pd.Series(dtype=np.float64))
    lag_s: float = 0.0


def training_table(home: Path, system: str, scopes: Sequence[str] = SCOPES) -> TrainingTable:
    """Return the training table of ``system`` under ``home``, by one pass over its counters.

    Samples that could not yet be read when a run started (``lag_s`` in ``systems.toml``) are not used. Runs with unknown nodes,
    or without any sample in their window, are left out. Without probe results, their features are missing. With a topology the
    table also has MORE_FEATURES; neighbours are the control runs with known nodes. Raises InputError without ingested control
    runs or counters.
    """
    from pipelines.sources.system import SIMULATED
    from pipelines.sources.systems import settings_of
    from pipelines.storage.counters_store import CountersStore
    from pipelines.storage.run_store import PROBE_RESULTS, RUNS, application_types, machine_of, stored

    lake = Lake(home / "lake")
    every = stored(lake, RUNS, system)
    if len(every) == 0:
        raise InputError(f"{lake.root / RUNS}: no control runs of {system}: ingest them first")
    runs = every[every["nodes"].notna()].reset_index(drop=True)
    lag_s = settings_of(home, system).lag_s
    store, machine = CountersStore(lake.root, system), machine_of(lake, system)
    before_starts = windows_before(store, runs, scopes, lag_s)
    windows = {each: table for each in scopes if (table := getattr(before_starts, each)) is not None}
    sampled = ~np.all([table.isna().all(axis=1).to_numpy() for table in windows.values()], axis=0)
    kept = runs[sampled].reset_index(drop=True)
    if len(kept) == 0:
        raise InputError(
            f"{system}: none of {len(every):,} control runs has known nodes and counters in the {WINDOW_S} s before it started"
        )
    probes, types = stored(lake, PROBE_RESULTS, system), application_types(lake, system)
    features = {each: feature_matrix(table, probes, types, kept).reset_index(drop=True) for each, table in windows.items()}
    if machine is not None:
        beside = situations_of(runs, machine).loc[kept["run_id"]]
        more = newest_before(store, kept, before_starts.interval_s, lag_s).join(beside).reset_index(drop=True)
        features = {each: pd.concat([table, more], axis=1) for each, table in features.items()}
    left_out = {"nodes not known": len(every) - len(runs), "no counter sampled in the window": int((~sampled).sum())}
    of_counters: dict[str, Any] = {
        "coverage": before_starts.coverage,
        "counts": before_starts.counts,
        "interval_s": before_starts.interval_s,
        "lag_s": lag_s,
    }
    return TrainingTable(system, kept, features, system == SIMULATED, left_out, **of_counters)


def windows_before(store: CountersStore, runs: pd.DataFrame, scopes: Sequence[str], lag_s: float) -> WindowFeatures:
    """Return the features of all samplers of ``store`` in the window before each of ``runs``.

    ``runs`` has ``run_id nodes start_s``; ``scopes`` as in :func:`training_table`. Raises InputError without counters.
    """
    from features.monitoring.windows import side_by_side, window_features

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

    A value is the mean over the nodes of a metric's newest sample that could be read before the start, over the sampler's usual
    interval (``interval_s``). It is NaN if that interval is unknown, and in the columns of other samplers.
    """
    from features.monitoring.windows import window_features

    newest = pd.DataFrame(np.nan, pd.Index(runs["run_id"], name="run_id"), [name for name in columns if name in NEWEST_FEATURES])
    last = float(runs["start_s"].max())
    for name, interval in interval_s.items():
        metrics = [each for each in store.metrics(str(name)) if f"{name}.{each}.newest" in newest]
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
        for each in metrics:
            newest[f"{name}.{each}.newest"] = interval_features[f"{name}.{each}.mean"]
    return newest


def situations_of(runs: pd.DataFrame, machine: Machine) -> pd.DataFrame:
    """Return SITUATION_FEATURES of ``runs`` with known nodes, index ``run_id``.

    Each is a neighbour of the others. Of runs with the same start, the one with the lower number in its name started first.
    """
    from features.monitoring.situation import jobs_of, situations

    jobs = sorted(jobs_of(runs), key=lambda job: re.sub(r"\d+", lambda digits: digits[0].zfill(20), job.name))
    return situations(jobs, machine).set_axis(pd.Index([job.name for job in jobs], name="run_id"), axis=0)


def pack_table(table: TrainingTable) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return a training table as a table of the lake, one row per run and scope, and metadata."""
    runs = table.runs[list(_RUN_COLUMNS)]
    rows = [pd.concat([runs.assign(scope=scope), table.features[scope]], axis=1) for scope in table.features]
    return pd.concat(rows, ignore_index=True), {"left_out": dict(table.left_out), "generated": table.generated}


def unpack_table(system: str, frame: pd.DataFrame, metadata: Mapping[str, Any]) -> TrainingTable:
    """Invert :func:`pack_table`, without the coverage."""
    parts = {scope: frame[frame["scope"] == scope].reset_index(drop=True) for scope in SCOPES if (frame["scope"] == scope).any()}
    runs = next(iter(parts.values()))[list(_RUN_COLUMNS)]
    features = {scope: part.drop(columns=[*_RUN_COLUMNS, "scope"]) for scope, part in parts.items()}
    return TrainingTable(system, runs, features, generated=metadata["generated"], left_out=metadata["left_out"])


def coverage(table: TrainingTable) -> pd.DataFrame:
    """Return the coverage behind the features, one row per sampler and scope.

    It has ``interval_s`` (usual seconds between samples), ``nodes`` (share of the runs' own nodes with a sample), ``minutes``
    (share of the expected samples that were seen) and ``without`` (number of runs without any sample).
    """
    rows = []
    for sampler, interval_s in table.interval_s.items():
        for scope in SCOPES:
            name = f"{sampler}.{scope}"
            if f"{name}.samples" not in table.coverage:
                continue
            samples, expected = table.coverage[f"{name}.samples"], table.coverage[f"{name}.expected"]
            nodes = expected * interval_s / (WINDOW_S - table.lag_s)
            rows.append(
                {
                    "sampler": sampler,
                    "scope": scope,
                    "interval_s": interval_s,
                    "nodes": float(table.coverage[f"{name}.nodes"].sum() / nodes.sum()),
                    "minutes": float(samples.sum() / expected.sum()),
                    "without": int((samples == 0).sum()),
                }
            )
    return pd.DataFrame(rows)


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
