"""Control runs, probe results and application types at rest: ``<lake>/<table>/<system>.parquet``, each row once.

A row whose key is there already stays as it was first: the same again is counted, another is named as a contradiction. Application types
are configuration, so a later file's word holds. Nothing is written where nothing is new. Additions of one table wait for each other; a reader sees the
table before one or after it, whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from filelock import FileLock

from features.monitoring.samplers import PROBES
from pipelines.ingest.control_runs import COLUMNS
from pipelines.storage.lake import Lake

RUNS, PROBE_RESULTS, TYPES = "control_runs", "probes", "application_types"
_KEYS = {RUNS: ["run_id"], PROBE_RESULTS: ["run_id", "node"], TYPES: ["application"]}
_COLUMNS = {RUNS: COLUMNS, PROBE_RESULTS: ("run_id", "node", *PROBES), TYPES: ("application", "type")}


@dataclass(frozen=True)
class Kept:
    """Rows added, rows that were there already, and the keys of rows that say otherwise than the one that is there (or was, for types)."""

    added: int
    same: int
    contradicting: tuple[str, ...]


def keep(lake: Lake, table: str, system: str, frame: pd.DataFrame) -> Kept:
    """Add the rows of ``frame`` to a table of ``system``, after other processes that do."""
    path = lake.path(table, system)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):
        return _added(lake, table, system, frame)


def _added(lake: Lake, table: str, system: str, frame: pd.DataFrame) -> Kept:
    keys = _KEYS[table]
    old = stored(lake, table, system)
    there = {_key(row, keys): row for row in old.to_dict("records")}
    added, same, other = [], 0, []
    for row in frame.to_dict("records"):
        key = _key(row, keys)
        if key not in there:
            added.append(row)
        elif _equal(there[key], row):
            same += 1
        else:
            other.append(" of ".join(reversed(key)))
            if table == TYPES:
                there[key] = row
    if added or (table == TYPES and other):
        rows = pd.DataFrame([*there.values(), *added], columns=list(_COLUMNS[table])).sort_values(keys, ignore_index=True)
        lake.write(table, system, rows)
    return Kept(len(added), same, tuple(other))


def stored(lake: Lake, table: str, system: str) -> pd.DataFrame:
    """A table of ``system``, sorted by its key, empty where there is none yet. ``nodes`` of runs are lists, or None where not known."""
    if not lake.path(table, system).exists():
        return pd.DataFrame({name: [] for name in _COLUMNS[table]})
    frame = lake.read(table, system)[0]
    if "nodes" in frame:
        frame["nodes"] = pd.Series([None if names is None else list(names) for names in frame["nodes"]], dtype=object)
    return frame


def application_types(lake: Lake, system: str) -> dict[str, str]:
    """Application -> type, as far as the site has said."""
    frame = stored(lake, TYPES, system)
    return dict(zip(frame["application"], frame["type"], strict=True))


def _key(row: Mapping, keys: list[str]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in keys)


def _equal(one: Mapping, other: Mapping) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)
