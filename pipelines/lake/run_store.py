"""Control runs, jobs, probe results, types, topology: tables, each of which is a subject.

Each row is kept once. The first row of a key stays: later equal rows are counted, different ones are reported as
contradictions. Jobs may still run when they are read, and application types and the topology (each node's leaf switch)
are configuration: rows of a later file replace earlier ones, and the topology is replaced as a whole. Nothing is
written without new rows; a reader sees the whole table, before or after an addition.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from features.monitoring.samplers import PROBES
from features.monitoring.situation import RATES, MonitoredMachine
from pipelines.lake.locks import held
from pipelines.lake.tables import Lake
from pipelines.readers.control_runs import COLUMNS, JOB_COLUMNS

RUNS, JOBS, PROBE_RESULTS, TYPES, TOPOLOGY = "control_runs", "monitored_jobs", "probes", "application_types", "topology"
REPLACED = (JOBS, TYPES, TOPOLOGY)
"""Tables in which later rows replace earlier ones."""
_KEYS = {RUNS: ["run_id"], JOBS: ["job_id"], PROBE_RESULTS: ["run_id", "node"], TYPES: ["application"], TOPOLOGY: ["node"]}
_COLUMNS = {
    RUNS: COLUMNS,
    JOBS: JOB_COLUMNS,
    PROBE_RESULTS: ("run_id", "node", *PROBES),
    TYPES: ("application", "type", *RATES),
    TOPOLOGY: ("node", "leaf"),
}
TABLES = tuple(_COLUMNS)


@dataclass(frozen=True)
class KeptRows:
    """Rows added, rows known already, and keys of contradicting rows.

    Contradicting rows of :data:`REPLACED` tables replace the earlier ones.
    """

    added: int
    same: int
    contradicting: tuple[str, ...]


def keep(lake: Lake, table: str, system: str, frame: pd.DataFrame) -> KeptRows:
    """Add the rows of ``frame`` to a table of ``system``, one process at a time."""
    with held(lake.root / table / f".{system}.lock"):
        return _added(lake, table, system, frame)


def _added(lake: Lake, table: str, system: str, frame: pd.DataFrame) -> KeptRows:
    keys = _KEYS[table]
    rows = {_key(row, keys): row for row in stored(lake, table, system).to_dict("records")}
    new = {_key(row, keys): row for row in frame.to_dict("records")}
    added = [key for key in new if key not in rows]
    other = [key for key, row in new.items() if key in rows and not _equal(rows[key], row)]
    gone = rows.keys() - new.keys() if table == TOPOLOGY else set()
    replaced = other if table in REPLACED else []
    if added or gone or replaced:
        rows |= {key: new[key] for key in (*added, *replaced)}
        kept = [row for key, row in rows.items() if key not in gone]
        lake.write(table, system, pd.DataFrame(kept, columns=list(_COLUMNS[table])).sort_values(keys, ignore_index=True))
    return KeptRows(len(added), len(new) - len(added) - len(other), tuple(" of ".join(reversed(key)) for key in other))


def stored(lake: Lake, table: str, system: str) -> pd.DataFrame:
    """Return a table of ``system``, sorted by its key, empty if there is none yet.

    ``nodes`` of runs are lists, or None if unknown.
    """
    if not lake.has(table, system):
        return pd.DataFrame({name: [] for name in _COLUMNS[table]})
    frame = lake.read(table, system)[0]
    if "nodes" in frame:
        frame["nodes"] = pd.Series([None if names is None else list(names) for names in frame["nodes"]], dtype=object)
    return frame


def application_types(lake: Lake, system: str) -> dict[str, str]:
    """Return application -> type, for the applications whose type the site has given."""
    frame = stored(lake, TYPES, system)
    return dict(zip(frame["application"], frame["type"], strict=True))


def machine_of(lake: Lake, system: str) -> MonitoredMachine | None:
    """Return the leaf switches, types and usual rates of ``system``; None without a topology."""
    topology = stored(lake, TOPOLOGY, system)
    return MonitoredMachine.of(topology, stored(lake, TYPES, system)) if len(topology) else None


def _key(row: Mapping, keys: list[str]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in keys)


def _equal(one: Mapping, other: Mapping) -> bool:
    """Tell whether two rows are equal; an absent column counts as a missing value."""
    return all(
        np.array_equal(cell, also) or (isinstance(cell, float) and isinstance(also, float) and cell != cell and also != also)
        for cell, also in ((one.get(name, np.nan), other.get(name, np.nan)) for name in {**one, **other})
    )
