"""Files that describe machines: our TOML, and ``.machines`` of Klusacek's logs.

A ``.machines`` file has one line per cluster: number, name, nodes, processors of a node, speed, memory of a node in
KiB. The TOML is described in ``docs/how-to/machines.md``.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Strict

from features.errors import InputError, shown
from features.jobs.schema import ASKED
from features.validation import validated
from pipelines.readers.text import load, toml_tables, trace_name
from sim.machine.description import Cluster, Limit, Machine, NodeGroup

_SIZE = re.compile(r"(\d{1,15}(?:\.\d*)?) ?([KMGT]i?B)", re.ASCII)
_UNITS = {"K": 2**0, "M": 2**10, "G": 2**20, "T": 2**30}
_SPAN = re.compile(r"(\d{1,9}) ?(min|h|d|w|s)", re.ASCII)
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
Texts = Annotated[tuple[str, ...], Strict(False)]


def read_machine(path: str | Path) -> Machine:
    """Read a machine's description; raise InputError with file, place and what is wrong."""
    source = load(path)
    try:
        with source.open() as file:
            text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text (byte {error.start})") from error
    lines = [line.split("#")[0].split(";")[0].strip() for line in text.splitlines()]
    first = next(filter(None, lines), "")
    if not first:
        raise InputError(f"{path}: describes no cluster: it is empty")
    if first[0].isdigit():
        return _of_table(source.path, lines)
    return _of_toml(source.path, text)


def _of_table(path: str, lines: list[str]) -> Machine:
    """Return the machine of a ``.machines`` file."""
    clusters, speeds = [], set()
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words:
            continue
        if len(words) != 6:
            raise InputError(
                f"{path}:{number}: {len(words)} columns instead of 6: number, name, nodes, processors of a node, speed, memory of a node in KiB"
            )
        figures = [word for place, word in enumerate(words) if place not in (1, 4)]
        if bad := next((word for word in figures if not re.fullmatch(r"\d{1,18}", word, re.ASCII)), None):
            raise InputError(f"{path}:{number}: {shown(bad)} is not a whole number")
        speeds.add(words[4])
        if len(speeds) > 1:
            raise InputError(f"{path}:{number}: its speed, {shown(words[4])}, is another: all nodes must have one speed here")
        count, procs, kib = map(int, figures[1:])
        clusters.append(
            _make_at(f"{path}:{number}", lambda name, *counts: Cluster(name, (NodeGroup(*counts),)), words[1], count, procs, kib)
        )
        _make_at(f"{path}:{number}", Machine, "", tuple(clusters))
    return Machine(_name(path), tuple(clusters))


def _name(path: str) -> str:
    return trace_name(Path(path).name.removesuffix(".toml").removesuffix(".machines"))


def _make_at(where: str, make: Callable[..., Any], *values: Any) -> Any:
    """Return ``make(*values)``, with ``where`` in front of an InputError's message."""
    try:
        return make(*values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


@dataclass(frozen=True)
class _NodesTable:
    """A table [[cluster.nodes]]."""

    nodes: int
    procs: int
    memory: str | None = None
    gpus: int = 0
    properties: Texts = ()


@dataclass(frozen=True)
class _ClusterTable:
    """A table [[cluster]], whose nodes are a number, or tables of their own."""

    name: str
    nodes: int | list[dict[str, Any]]
    procs: int | None = None
    memory: str | None = None
    gpus: int | None = None
    properties: Texts = ()


@dataclass(frozen=True)
class _LimitTable:
    """A table [[limit]]."""

    of: str
    what: str
    value: Any
    name: str | None = None
    longer_than: str | None = None
    cluster: str | None = None


@dataclass(frozen=True)
class _MachineTable:
    """All of a file."""

    name: str = ""
    asked: Annotated[tuple[Literal[ASKED], ...], Strict(False)] = ASKED  # type: ignore[valid-type]
    cluster: list[dict[str, Any]] = field(default_factory=list)
    limit: list[dict[str, Any]] = field(default_factory=list)


def _of_toml(path: str, text: str) -> Machine:
    """Return the machine of a description in TOML."""
    table: dict[str, Any] = {"name": _name(path), "cluster": [], "limit": [], "asked": ASKED}
    table |= validated(_MachineTable, toml_tables(path, text), path, left_out=())
    clusters = tuple(_cluster(row, f"{path}: cluster {place}") for place, row in enumerate(table["cluster"], start=1))
    limits = tuple(_limit(row, f"{path}: limit {place}") for place, row in enumerate(table["limit"], start=1))
    return _make_at(path, Machine, table["name"], clusters, limits, tuple(table["asked"]))


def _cluster(row: dict[str, Any], where: str) -> Cluster:
    table = validated(_ClusterTable, row, where, left_out=())
    name, nodes = table.pop("name"), table.pop("nodes")
    if not re.fullmatch(r"[^\s:^]+", name):
        raise InputError(f"{where}: name must be a text without blanks, colons and ^")
    if not isinstance(nodes, list):
        return _make_at(where, Cluster, name, (_nodes({"nodes": nodes, **table}, where),))
    common = table.pop("properties", ())
    if not nodes:
        raise InputError(f"{where}: nodes must be a number, or tables [[cluster.nodes]]")
    if table:
        raise InputError(f"{where}: {min(table)} must stand either in each [[cluster.nodes]] or here, not in both")
    groups = [_nodes(group, f"{where}: nodes {place}", common) for place, group in enumerate(nodes, start=1)]
    return _make_at(where, Cluster, name, tuple(groups))


def _nodes(row: dict[str, Any], where: str, common: tuple[str, ...] = ()) -> NodeGroup:
    table = validated(_NodesTable, row, where, left_out=())
    memory = table.get("memory")
    match = _SIZE.fullmatch(memory or "")
    if memory is not None and match is None:
        raise InputError(f"{where}: memory must be a size such as '504 GiB' or '94035968 KiB', not {shown(memory)}")
    kib = None if match is None else int(float(match[1]) * _UNITS[match[2][0]])
    properties = (*common, *table.get("properties", ()))
    return _make_at(where, NodeGroup, table["nodes"], table["procs"], kib, table.get("gpus", 0), properties)


def _limit(row: dict[str, Any], where: str) -> Limit:
    table = validated(_LimitTable, row, where, left_out=())
    span = table.get("longer_than")
    match = _SPAN.fullmatch(span or "")
    if span is not None and match is None:
        raise InputError(f"{where}: longer_than must be a time such as '90 min', '12 h', '7 d' or '1 w', not {shown(span)}")
    seconds = None if match is None else int(match[1]) * _SECONDS[match[2]]
    return _make_at(where, Limit, table["of"], table["what"], table["value"], table.get("name"), seconds, table.get("cluster"))
