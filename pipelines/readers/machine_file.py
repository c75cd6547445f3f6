"""Files that describe machines: our TOML, and ``.machines`` of Klusacek's logs.

A ``.machines`` file has one line per cluster: number, name, nodes, processors of a node, speed, memory of a node in KiB. The TOML
is described in ``docs/how-to/machines.md``.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from features.errors import InputError, shown
from features.jobs.schema import ASKED
from pipelines.readers.source import load, trace_name
from pipelines.readers.text import toml_tables
from sim.machine.description import Cluster, Limit, Machine, NodeGroup

_SIZE = re.compile(r"(\d{1,15}(?:\.\d*)?) ?([KMGT]i?B)", re.ASCII)
_UNITS = {"K": 2**0, "M": 2**10, "G": 2**20, "T": 2**30}
_SPAN = re.compile(r"(\d{1,9}) ?(min|h|d|w|s)", re.ASCII)
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_KEYS = {
    "": {"name", "asked", "cluster", "limit"},
    "cluster": {"name", "nodes", "procs", "memory", "gpus", "properties"},
    "cluster.nodes": {"nodes", "procs", "memory", "gpus", "properties"},
    "limit": {"of", "what", "value", "name", "longer_than", "cluster"},
}


def read_machine(path: str | Path) -> Machine:
    """Read a machine's description; raise InputError with file, line and what is wrong."""
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
    return _Described(source.path, text).machine()


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
    """Return ``make(*of)``, with ``where`` in front of an InputError's message."""
    try:
        return make(*values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


class _Described:
    """A description in TOML, with the lines of its keys."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._lines, self._kinds = path, text.splitlines(), 0
        self._document = toml_tables(path, text)

    def machine(self) -> Machine:
        """Return the machine; raise InputError with file, line and what is wrong."""
        self._check_keys(self._document, "", 0)
        counted = self._document.get("asked", list(ASKED))
        if not (isinstance(counted, list) and all(word in ASKED for word in counted)):
            self._fail("asked", "", 0, f"must list which requests of jobs count, out of {', '.join(ASKED)}")
        clusters = [self._cluster(table, number) for number, table in enumerate(self._tables("cluster"))]
        limits = [self._limit(table, number) for number, table in enumerate(self._tables("limit"))]
        name = self._document.get("name", _name(self._path))
        if not isinstance(name, str):
            self._fail("name", "", 0, "must be a text")
        return _make_at(self._path, Machine, name, tuple(clusters), tuple(limits), tuple(counted))

    def _tables(self, key: str) -> list[dict[str, Any]]:
        tables = self._document.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._fail(key, "", 0, f"must be tables [[{key}]]")
        return tables

    def _cluster(self, table: dict[str, Any], number: int) -> Cluster:
        self._check_keys(table, "cluster", number)
        if not isinstance(name := table.get("name"), str) or not re.fullmatch(r"[^\s:^]+", name):
            self._fail("name", "cluster", number, "must be a text without blanks, colons and ^")
        nodes = table.get("nodes")
        if not isinstance(nodes, list):
            return Cluster(name, (self._nodes(table, "cluster", number),))
        if not nodes or not all(isinstance(group, dict) for group in nodes):
            self._fail("nodes", "cluster", number, "must be a number, or tables [[cluster.nodes]]")
        if both := sorted(table.keys() & _KEYS["cluster.nodes"] - {"nodes", "properties"}):
            self._fail(both[0], "cluster", number, "must stand either in each [[cluster.nodes]] or here, not in both")
        common, kinds = self._properties(table, "cluster", number), []
        for place, group in enumerate(nodes, start=self._kinds):
            self._check_keys(group, "cluster.nodes", place)
            kinds.append(self._nodes(group, "cluster.nodes", place, common))
        self._kinds += len(kinds)
        return Cluster(name, tuple(kinds))

    def _properties(self, table: dict[str, Any], kind: str, number: int) -> tuple[str, ...]:
        properties = table.get("properties", [])
        if not (isinstance(properties, list) and all(isinstance(word, str) for word in properties)):
            self._fail("properties", kind, number, "must be a list of texts")
        return tuple(properties)

    def _nodes(self, table: dict[str, Any], kind: str, number: int, common: tuple[str, ...] = ()) -> NodeGroup:
        properties = common + self._properties(table, kind, number)
        for key in ("nodes", "procs"):
            if key not in table:
                self._fail(key, kind, number, "is missing")
        memory = table.get("memory")
        match = _SIZE.fullmatch(memory) if isinstance(memory, str) else None
        if memory is not None and match is None:
            self._fail("memory", kind, number, "must be a size in quotes, such as '504 GiB' or '94035968 KiB'")
        kib = None if match is None else int(float(match[1]) * _UNITS[match[2][0]])
        where = f"{self._path}:{self._line('nodes', kind, number)}"
        return _make_at(where, NodeGroup, table["nodes"], table["procs"], kib, table.get("gpus", 0), properties)

    def _limit(self, table: dict[str, Any], number: int) -> Limit:
        self._check_keys(table, "limit", number)
        for key in ("of", "what", "value"):
            if key not in table:
                self._fail(key, "limit", number, "is missing")
        for key in ("name", "longer_than", "cluster"):
            if not isinstance(table.get(key, ""), str):
                self._fail(key, "limit", number, "must be a text")
        span = table.get("longer_than")
        match = None if span is None else _SPAN.fullmatch(span)
        if span is not None and match is None:
            self._fail("longer_than", "limit", number, "must be a time such as '90 min', '12 h', '7 d' or '1 w'")
        seconds = None if match is None else int(match[1]) * _SECONDS[match[2]]
        where = f"{self._path}:{self._line('of', 'limit', number)}"
        values = (table["of"], table["what"], table["value"], table.get("name"), seconds, table.get("cluster"))
        return _make_at(where, Limit, *values)

    def _check_keys(self, table: dict[str, Any], kind: str, number: int) -> None:
        if unknown := [key for key in table if key not in _KEYS[kind]]:
            self._fail(unknown[0], kind, number, f"is unknown here; known: {', '.join(sorted(_KEYS[kind]))}")

    def _fail(self, key: str, kind: str, number: int, what: str) -> NoReturn:
        raise InputError(f"{self._path}:{self._line(key, kind, number)}: {f'{kind}: ' if kind else ''}{shown(key)} {what}")

    def _line(self, key: str, kind: str, number: int) -> int:
        """Return the line of a key in the ``number``-th table of a kind, else of its heading."""
        return self._places.get((kind, number, key)) or self._places.get((kind, number, ""), 1)

    @cached_property
    def _places(self) -> dict[tuple[str, int, str], int]:
        """Return the line of each key, and of each heading (key ""), by kind and number of the table."""
        places: dict[tuple[str, int, str], int] = {}
        tables: Counter[str] = Counter()
        kind, number = "", 0
        for place, line in enumerate(self._lines, start=1):
            if heading := re.match(r"\s*\[+\s*([\w.]+)\s*\]", line):
                kind, number, key = heading[1], tables[heading[1]], ""
                tables[kind] += 1
            elif assignment := re.match(r"\s*[\"']?([^\"'=]+?)[\"']?\s*=", line):
                key = assignment[1]
            else:
                continue
            places.setdefault((kind, number, key), place)
        return places
