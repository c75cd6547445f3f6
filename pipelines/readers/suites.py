"""Suites: traces and settings of a comparison that is pooled over traces, as TOML files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from features.errors import InputError
from pipelines.readers.catalogue import load_catalogue
from pipelines.readers.settings import read_settings
from sim.settings import Suite

FOLDER = Path(__file__).parent


def suite_of(name: str, replaced: dict[str, Any]) -> Suite:
    """Return a suite by name or from a file; ``replaced`` settings take the place of its own.

    Paths of traces are relative to the file. Raises InputError for an unknown suite, bad TOML or settings, and traces not fetched.
    """
    built_in = FOLDER / f"suite-{name}.toml"
    path = built_in if built_in.is_file() else Path(name)
    if not path.is_file():
        raise InputError(f"no suite {name}: known are classic and modern, or give a TOML file")
    try:
        settings = read_settings(path, "suite")
        traces = settings.get("traces", [])
        if not isinstance(traces, list):
            raise InputError("traces must be a list")
        # files are named relative to the suite's own; what is no file beside it is a name or an address
        beside = [
            str(path.parent / trace) if isinstance(trace, str) and (path.parent / trace).is_file() else trace for trace in traces
        ]
        suite = Suite(**settings | {"traces": beside} | replaced)
    except InputError as error:
        raise InputError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error
    entries = [entry for trace in suite.traces if (entry := load_catalogue().get(trace)) is not None]
    if absent := [entry.name for entry in entries if entry.remote and not entry.path.exists()]:
        raise InputError(f"{name}: not fetched yet: run {', '.join(f'`queuecast fetch {trace}`' for trace in absent)}")
    return suite
