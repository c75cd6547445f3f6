"""Files of an LDMS store: their list, text (packed or not), checksum, header and sampler.

With ``altheader`` LDMS writes ``sysclassib.HEADER`` beside ``sysclassib``, or ``sysclassib.HEADER.1507711419`` beside
``sysclassib.1507711419`` where it rotates.
"""

from __future__ import annotations

import glob
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path

from features.errors import InputError, shown
from features.monitoring.samplers import SAMPLERS
from pipelines.readers.text import BLOCK, text_of

_HEADER_FILE = re.compile(r"\.(HEADER|KIND)(?=[.-]|$)")


@dataclass(frozen=True)
class Scanned:
    """A file read through once.

    ``length`` counts the bytes of its text up to the last line end, ``rest`` those after it. ``sha256`` is that of the
    complete lines. ``first`` identifies header and first row. ``known_length`` is the length of the longest known text
    with which the file begins, 0 if there is none.
    """

    length: int
    rest: int
    sha256: str
    first: str
    known_length: int


def counter_files(spec: str | Path) -> list[Path]:
    """Return the files that a path, directory (searched recursively) or pattern names, sorted.

    Hidden files and header files are left out.
    """
    place = Path(spec)
    if place.is_dir():
        paths = [path for path in place.rglob("*") if not any(part.startswith(".") for part in path.relative_to(place).parts)]
    elif place.exists():
        return [place]
    else:
        paths = [Path(name) for name in glob.glob(str(spec), recursive=True)]
    files = sorted(path for path in paths if path.is_file() and not _HEADER_FILE.search(path.name))
    if not files:
        raise InputError(f"{spec}: no such file" if not place.is_dir() else f"{spec}: holds no file")
    return files


def header_beside(path: Path) -> str | None:
    """Return the last header line beside a file that has none of its own; None without one.

    It is in the header file of the same time, else in the one without a time.
    """
    with text_of(path) as text:
        if is_header(text.readline().decode("utf-8", "replace")):
            return None
    stem, _, stamp = path.name.removesuffix(".gz").rpartition(".")
    names = [f"{stem}.HEADER.{stamp}", f"{stem}.HEADER"] if stamp.isdecimal() else [f"{path.name.removesuffix('.gz')}.HEADER"]
    for file in map(path.with_name, names):
        if file.is_file():
            with text_of(file) as text:
                lines = text.read(BLOCK).decode("utf-8", "replace").split("\n")
            return next((line.strip() for line in reversed(lines) if is_header(line)), None)
    return None


def scan(path: Path, lengths_of: dict[str, dict[int, str]]) -> Scanned:
    """Read a file through and compare its beginning with known texts.

    ``lengths_of`` maps ``first`` of known texts to their lengths, and these to SHA-256. Raises InputError for an empty
    file.
    """
    with text_of(path) as file:
        own, second = file.readline(), file.readline()
        if not own:
            raise InputError(f"{path}: is empty")
        first = hashlib.sha256(own + second.removesuffix(b"\n")).hexdigest()[:16]
        digest = hashlib.sha256()
        length = rest = known_length = 0
        file.seek(0)
        for stop in (*sorted(lengths_of.get(first, {})), sys.maxsize):
            while length < stop and not rest:
                block = file.read(min(BLOCK, stop - length))
                if not block.endswith(b"\n"):
                    block += file.readline()
                rest = len(block) - block.rfind(b"\n") - 1
                block = block[: len(block) - rest]
                if not block:
                    break
                digest.update(block)
                length += len(block)
            if length == stop and digest.hexdigest() == lengths_of[first][stop]:
                known_length = stop
    return Scanned(length, rest, digest.hexdigest(), first, known_length)


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
_ROTATED = re.compile(r"(\.(gz|csv|txt|log)|[.-]\d{6,})+$", re.IGNORECASE)


@dataclass(frozen=True)
class Header:
    """The columns of a header line, by their places from 0.

    ``per_second`` is the unit of the time, 1 or 1,000 for milliseconds. ``microseconds`` is the column that completes
    whole seconds, or milliseconds, if there is one. ``samplers`` maps sampler -> metric -> place.
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

    A metric's sampler is the text after ``::``, else ``sampler``, else the one of features.monitoring.samplers.SAMPLERS
    that the file is named after. Raises InputError that says what is wrong, without file and line.
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
    stem = _ROTATED.sub("", file_name)
    return stem if stem in SAMPLERS else None


def _names(line: str) -> list[str]:
    names = [name.strip().strip('"').strip() for name in line.strip().removeprefix("\ufeff").split(",")]
    return [names[0].removeprefix("#").strip(), *names[1:]]


def _by_sampler(columns: Mapping[int, str], option: str | None, file_name: str) -> dict[str, dict[str, int]]:
    """Return sampler -> metric -> column, for columns called ``metric#instance::sampler``.

    Metrics lose prefix, ``.value`` and instance (``#hfi1_0.1``), but keep the instance if a metric has several.
    """
    default = option or sampler_of(file_name) or ""
    parts = {}
    for place, name in columns.items():
        metric, named, owner = name.partition("::")
        if not named and not default:
            raise InputError(f"unknown sampler: the file's name is none of {', '.join(SAMPLERS)}; say which it is with --sampler")
        owner = owner if named else default
        if not _SAFE.fullmatch(owner):
            raise InputError(f"{shown(owner)} cannot be a sampler's name: letters, digits, _ . and - only")
        metric, _, instance = metric.partition("#")
        for prefix in _PREFIXES:
            metric = metric.removeprefix(prefix)
        parts[place] = owner, metric.removesuffix(".value"), instance
    count = Counter((owner, metric) for owner, metric, _ in parts.values())
    samplers: dict[str, dict[str, int]] = {}
    for place, (owner, metric, instance) in parts.items():
        name = f"{metric}#{instance}" if count[owner, metric] > 1 and instance else metric
        if name in samplers.setdefault(owner, {}):
            raise InputError(f"the header names the metric {name[:40]} twice")
        if name == "time_s":
            raise InputError("a metric cannot be called time_s")
        samplers[owner][name] = place
    return samplers
