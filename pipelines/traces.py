"""Traces that have been run: remembered by name, with place and options, so that the nightly run reads them the same way again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomlkit
from filelock import FileLock

from features.errors import InputError
from features.schema import Trace
from pipelines.atomic import replacing
from pipelines.catalogue import load_catalogue, remembered
from pipelines.ingest.read import find_entry, read_trace
from pipelines.ingest.source import trace_name


def remember(spec: str, *, procs: int | None = None, timezone: str | None = None, missing_request: str | None = None) -> str:
    """The name under which TRACE is known from now on; a path, and options given here, are kept in the home directory.

    Raises InputError if there is no such trace.
    """
    entry = find_entry(spec)
    options = {"procs": procs, "timezone": timezone, "missing_request": missing_request}
    stated: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    name = trace_name(spec) if entry is None else entry.name
    if entry is None:
        stated["place"] = str(Path(spec).absolute())
    elif stated:
        stated = {**_as_table(entry), **stated}
    if stated:
        _keep(name, stated)
    return name


def read_known(name: str) -> tuple[Trace, str]:
    """The trace called ``name``, and what the catalogue says about its missing requests. Raises InputError."""
    catalogue = load_catalogue()
    if name not in catalogue:
        raise InputError(f"{name}: no longer in the catalogue; run it once more with `queuecast run --trace`")
    return read_trace(name, catalogue=catalogue), catalogue[name].missing_request


def _as_table(entry: Any) -> dict[str, Any]:
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
