"""Header lines of LDMS CSV: columns of time, node, and each metric with its sampler.

LDMS's ``store_csv`` writes ``#Time,Time_usec,ProducerName,component_id,job_id``, then the metrics; its function store puts
``DT,DT_usec`` behind the time; exports of the same data name metrics ``metric::sampler`` and say ``node_id`` and ``timestamp``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from features.errors import InputError, one_line, shown
from features.monitoring.samplers import SAMPLERS
from pipelines.ingest import ldms_kernel as kernel

_TIMES = ("time", "timestamp")
_NODES = ("producername", "producer", "node_id", "node", "hostname", "host", "component_id", "compid")
"""Columns that name the node, best first."""
_UNREAD = {"job_id", "jobid", "app_id", "uid", "instance", "dt", "dt_usec"}
_TRANSACTION = {"consistent", "duration", "arrival", "trip", "datagn", "metagn", "setptr"}
"""Columns about the sample itself, an option of ``store_csv``."""
_PREFIXES = ("client.lstats.", "ib.")
"""Prefixes of metric names of the samplers lustre2_client and sysclassib."""
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ROTATED = re.compile(r"(\.(gz|csv|txt|log)|[.-]\d{6,})$", re.IGNORECASE)


@dataclass(frozen=True)
class Header:
    """Roles of the columns, and the metrics of each sampler.

    ``roles`` int64 [columns] as ldms_kernel takes them; ``samplers``: sampler -> its metrics' names and their rows in the
    kernel's values.
    """

    line: str
    columns: tuple[str, ...]
    roles: np.ndarray
    samplers: Mapping[str, tuple[tuple[str, ...], np.ndarray]]
    text_first: bool

    @property
    def metrics(self) -> int:
        return int((self.roles >= 0).sum())


def is_header(line: str) -> bool:
    """Tell whether a line names a time column, and so may be a header."""
    return any(name.lower() in _TIMES for name in _names(line))


def read_header(line: str, *, sampler: str | None = None, file_name: str = "") -> Header:
    """Read a header line. Raises InputError saying what is wrong, without file and line.

    The sampler is the text behind ``::``, else ``sampler``, else the one that the file's name or else most metric names indicate
    (features.monitoring.samplers.SAMPLERS).
    """
    columns = _names(line)
    if not all(columns):
        raise InputError(f"the header leaves column {columns.index('') + 1} without a name")
    lower = [name.lower() for name in columns]
    roles = np.full(len(columns), kernel.SKIP, np.int64)
    time = next((lower.index(name) for name in _TIMES if name in lower), None)
    node = next((lower.index(name) for name in _NODES if name in lower), None)
    if time is None:
        raise InputError("no header line: no column is called Time or timestamp")
    if node is None:
        raise InputError("the header has no column of nodes: ProducerName, node_id, hostname or component_id")
    roles[time], roles[node] = kernel.TIME, kernel.NODE
    if lower[time] == "time" and "time_usec" in lower:
        roles[lower.index("time_usec")] = kernel.USEC
    others = {*_TIMES, "time_usec", *_NODES, *_UNREAD, *_TRANSACTION}
    metrics = [
        place
        for place, name in enumerate(lower)
        if name not in others and not name.startswith("#") and not name.endswith(".userdata")
    ]
    if not metrics:
        raise InputError("the header names no metric")
    samplers = _by_sampler({place: columns[place] for place in metrics}, sampler, file_name)
    placed = {}
    row = 0
    for name, found in samplers.items():
        rows = np.arange(row, row + len(found))
        roles[list(found)] = rows
        placed[name] = (tuple(found.values()), rows)
        row += len(found)
    return Header(line, tuple(columns), roles, placed, roles[0] == kernel.NODE)


def sampler_of(file_name: str) -> str | None:
    """Return the known sampler that a file is named after, as ``sysclassib.1507711419.gz``."""
    stem = file_name
    while shorter := _ROTATED.sub("", stem):
        if shorter == stem:
            break
        stem = shorter
    return next((name for name in SAMPLERS if name == stem), None)


def _names(line: str) -> list[str]:
    names = [name.strip().strip('"').strip() for name in line.strip().removeprefix("\ufeff").split(",")]
    return [names[0].removeprefix("#").strip(), *names[1:]]


def _by_sampler(columns: Mapping[int, str], stated: str | None, file_name: str) -> dict[str, dict[int, str]]:
    """Return sampler -> column -> metric's name."""
    split = {place: name.split("::", 1) for place, name in columns.items()}
    unnamed = {place: parts[0] for place, parts in split.items() if len(parts) == 1}
    default = (stated or sampler_of(file_name) or _alike(unnamed.values())) if unnamed else None
    found: dict[str, dict[int, str]] = {}
    for place, parts in split.items():
        owner = parts[1] if len(parts) == 2 else default
        assert owner is not None
        if not _SAFE.fullmatch(owner):
            raise InputError(f"{shown(owner)} cannot be a sampler's name: letters, digits, _ . and - only")
        found.setdefault(owner, {})[place] = parts[0]
    return {owner: _metric_names(names) for owner, names in found.items()}


def _metric_names(columns: Mapping[int, str]) -> dict[int, str]:
    """Return names without prefix, ``.value`` and instance (``#hfi1_0.1``).

    The instance stays where a metric has several.
    """
    parts = {place: name.partition("#") for place, name in columns.items()}
    bare = {place: _bare(name) for place, (name, _, _) in parts.items()}
    count = Counter(bare.values())
    names = {
        place: f"{bare[place]}#{parts[place][2]}" if count[bare[place]] > 1 and parts[place][2] else bare[place]
        for place in columns
    }
    repeated = [name for name, times in Counter(names.values()).items() if times > 1]
    if repeated:
        raise InputError(f"the header names the metric {repeated[0][:40]} twice")
    if taken := {"time_s"} & set(names.values()):
        raise InputError(f"a metric cannot be called {taken.pop()}")
    return names


def _bare(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name.removesuffix(".value")


def _alike(names: Iterable[str]) -> str:
    bare = {_bare(name.partition("#")[0]) for name in names}
    shared = {sampler.name: len(bare & set(sampler.metrics)) for sampler in SAMPLERS.values()}
    best = max(shared, key=lambda name: shared[name])
    if 2 * shared[best] < len(bare):
        some = one_line(", ".join(sorted(bare)[:3]), 60) + (", ..." if len(bare) > 3 else "")
        raise InputError(
            f"unknown sampler: neither the file's name nor its metrics ({some}) are those of "
            f"{', '.join(SAMPLERS)}; say which it is with --sampler"
        )
    return best
