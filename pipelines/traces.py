"""Traces that have been run: remembered by name, with place and options, so that the nightly run reads them the same way again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomlkit
from filelock import FileLock

from features.cleaning import clean
from features.errors import InputError
from features.schema import Trace
from pipelines.atomic import replacing
from pipelines.catalogue import Entry, catalogue_entry, load_catalogue, remembered
from pipelines.ingest.read import find_entry, read_trace
from pipelines.ingest.source import trace_name


def remember(spec: str, *, procs: int | None = None, timezone: str | None = None, missing_request: str | None = None) -> str:
    """The name under which TRACE is known from now on. A path, and options given here, are kept in the home directory until given anew.

    The trace is read and cleaned first, so that nothing is kept which the nightly run would fail on. Raises InputError for a trace that cannot be
    used, and where the name of a file is already that of another trace, whose results would be replaced.
    """
    catalogue = load_catalogue()
    entry = find_entry(spec, catalogue)
    options = {"procs": procs, "timezone": timezone, "missing_request": missing_request}
    stated: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    if entry is None:
        name = trace_name(spec)
        entry = _same_file(name, Path(spec).absolute(), catalogue.get(name))
        stated = {**(_as_table(entry) if entry else {}), **stated, "place": str(Path(spec).absolute())}
    else:
        name = entry.name
        if entry.format == "generated" and procs is not None:
            raise InputError(f"{name}: the machine is part of what is generated: list a workload of your own in queuecast.toml")
        if not stated and entry is catalogue[name]:
            return name  # else a copy of the archive's file, which is where the trace is from now on
        stated = {**_as_table(entry), **stated}
    known = catalogue_entry(name, stated, remembered())
    clean(read_trace(name, catalogue={name: known}), missing_request=known.missing_request)
    _keep(name, stated)
    return name


def _same_file(name: str, path: Path, entry: Entry | None) -> Entry | None:
    """The entry that an earlier run of the file ``path`` left; InputError if ``name`` is already another trace's."""
    if entry is None:
        return None
    if entry.stated_in != remembered():
        other = " with other content" if entry.checked else ""
        raise InputError(f"{path}: would be called {name}, which is a trace of {entry.stated_in.name}{other}: rename the file")
    if entry.path != path and entry.path.exists():
        raise InputError(f"{path}: would be called {name}, which is {entry.path}, run before: rename one of the files")
    return entry


def read_known(name: str) -> tuple[Trace, str]:
    """The trace called ``name``, and what the catalogue says about its missing requests. Raises InputError."""
    catalogue = load_catalogue()
    if name not in catalogue:
        raise InputError(f"{name}: no longer in the catalogue; run it once more with `queuecast run --trace`")
    return read_trace(name, catalogue=catalogue), catalogue[name].missing_request


def _as_table(entry: Entry) -> dict[str, Any]:
    """An entry as its TOML table; a relative place is made absolute, since the table moves to another file."""
    keys = ("title", "sha256", "sha256_content", "procs", "timezone", "missing_request", "processors", "format", "options")
    table = {key: getattr(entry, key) for key in keys if getattr(entry, key)}
    if entry.place:
        table["place"] = entry.place if entry.remote else str(entry.path)
    return table


def _keep(name: str, table: dict[str, Any]) -> None:
    path = remembered()
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        document = tomlkit.parse(path.read_text(encoding="utf-8")) if path.exists() else tomlkit.document()
        traces = document.setdefault("traces", tomlkit.table(is_super_table=True))
        traces[name] = table
        with replacing(path) as temporary:
            temporary.write_text(tomlkit.dumps(document), encoding="utf-8")
