"""Header lines of LDMS CSV: columns of time, node, and each metric with its sampler.

LDMS's ``store_csv`` writes ``#Time,Time_usec,ProducerName,component_id,job_id``, then the metrics; its function store puts
``DT,DT_usec`` after the time; with ``time_format=1`` the time is ``Time_msec``, milliseconds, and ``Time_usec`` the rest of one.
Exports of the same data name metrics ``metric::sampler`` and use ``node_id`` and ``timestamp``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from features.errors import InputError, shown
from features.monitoring.samplers import SAMPLERS

_MILLISECONDS = "time_msec"
_TIMES = ("time", "timestamp", _MILLISECONDS)
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
    """The columns of a header line, by their places from 0.

    ``per_second`` is the unit of the time, 1 or 1,000 for milliseconds. ``microseconds`` is the column that completes whole
    seconds, or milliseconds, if there is one. ``samplers`` maps sampler -> metric -> place.
    """

    line: str
    columns: tuple[str, ...]
    time: int
    node: int
    per_second: int
    microseconds: int | None
    samplers: Mapping[str, Mapping[str, int]]

    @property
    def metrics(self) -> list[int]:
        """Return the places of all metrics, sampler by sampler."""
        return [place for places in self.samplers.values() for place in places.values()]

    def without(self, columns: Set[int]) -> Header:
        """Return the header without the metrics in ``columns``; raise InputError if none stays."""
        samplers = {
            sampler: kept
            for sampler, places in self.samplers.items()
            if (kept := {name: place for name, place in places.items() if place not in columns})
        }
        if not samplers:
            raise InputError("no metric is a number")
        return replace(self, samplers=samplers)


def is_header(line: str) -> bool:
    """Tell whether a line names a time column, and so may be a header."""
    return any(name.lower() in _TIMES for name in _names(line))


def read_header(line: str, *, sampler: str | None = None, file_name: str = "") -> Header:
    """Read a header line.

    A metric's sampler is the text after ``::``, else ``sampler``, else the one of features.monitoring.samplers.SAMPLERS that the
    file is named after. Raises InputError that says what is wrong, without file and line.
    """
    columns = _names(line)
    if not all(columns):
        raise InputError(f"the header leaves column {columns.index('') + 1} without a name")
    lower = [name.lower() for name in columns]
    time = next((lower.index(name) for name in _TIMES if name in lower), None)
    node = next((lower.index(name) for name in _NODES if name in lower), None)
    if time is None:
        raise InputError("no header line: no column is called Time, Time_msec or timestamp")
    if node is None:
        raise InputError("the header has no column of nodes: ProducerName, node_id, hostname or component_id")
    microseconds = lower.index("time_usec") if lower[time] != "timestamp" and "time_usec" in lower else None
    others = {*_TIMES, "time_usec", *_NODES, *_UNREAD, *_TRANSACTION}
    metrics = [
        place
        for place, name in enumerate(lower)
        if name not in others and not name.startswith("#") and not name.endswith(".userdata")
    ]
    if not metrics:
        raise InputError("the header names no metric")
    samplers = _by_sampler({place: columns[place] for place in metrics}, sampler, file_name)
    per_second = 1_000 if lower[time] == _MILLISECONDS else 1
    return Header(line, tuple(columns), time, node, per_second, microseconds, samplers)


def sampler_of(file_name: str) -> str | None:
    """Return the known sampler that a file is named after, as ``sysclassib.1507711419.gz`` is."""
    stem = file_name
    while shorter := _ROTATED.sub("", stem):
        if shorter == stem:
            break
        stem = shorter
    return next((name for name in SAMPLERS if name == stem), None)


def _names(line: str) -> list[str]:
    names = [name.strip().strip('"').strip() for name in line.strip().removeprefix("\ufeff").split(",")]
    return [names[0].removeprefix("#").strip(), *names[1:]]


def _by_sampler(columns: Mapping[int, str], option: str | None, file_name: str) -> dict[str, dict[str, int]]:
    """Return sampler -> metric's name -> column."""
    split = {place: name.split("::", 1) for place, name in columns.items()}
    unnamed = [parts[0] for parts in split.values() if len(parts) == 1]
    default = option or sampler_of(file_name) or ""
    if unnamed and not default:
        raise InputError(f"unknown sampler: the file's name is none of {', '.join(SAMPLERS)}; say which it is with --sampler")
    samplers: dict[str, dict[int, str]] = {}
    for place, parts in split.items():
        owner = parts[1] if len(parts) == 2 else default
        if not _SAFE.fullmatch(owner):
            raise InputError(f"{shown(owner)} cannot be a sampler's name: letters, digits, _ . and - only")
        samplers.setdefault(owner, {})[place] = parts[0]
    return {owner: _by_metric(names) for owner, names in samplers.items()}


def _by_metric(columns: Mapping[int, str]) -> dict[str, int]:
    """Map names without prefix, ``.value`` and instance (``#hfi1_0.1``) to columns.

    The instance stays if a metric has several.
    """
    parts = {place: name.partition("#") for place, name in columns.items()}
    bare = {place: _bare(name) for place, (name, _, _) in parts.items()}
    count = Counter(bare.values())
    places: dict[str, int] = {}
    for place, (_, _, instance) in parts.items():
        name = f"{bare[place]}#{instance}" if count[bare[place]] > 1 and instance else bare[place]
        if name in places:
            raise InputError(f"the header names the metric {name[:40]} twice")
        if name == "time_s":
            raise InputError("a metric cannot be called time_s")
        places[name] = place
    return places


def _bare(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name.removesuffix(".value")
