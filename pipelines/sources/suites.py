"""Suites: traces and settings of a comparison that is pooled over traces, as TOML files."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from features.errors import InputError
from pipelines.sources.catalogue import load_catalogue
from sim.settings import Suite

FOLDER = Path(__file__).parent


def suite_of(name: str, given: dict[str, Any]) -> Suite:
    """Return a suite by name or from a file; ``given`` settings replace its own.

    Paths of traces are relative to the file. Raises InputError for an unknown suite, bad TOML or settings, and traces not fetched.
    """
    built_in = FOLDER / f"suite-{name}.toml"
    path = built_in if built_in.is_file() else Path(name)
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
        traces = settings.get("traces", [])
        if not isinstance(traces, list):
            raise InputError("traces must be a list")
        beside = [str(path.parent / each) if isinstance(each, str) and (path.parent / each).is_file() else each for each in traces]
        suite = Suite(**settings | {"traces": beside} | given)
    except FileNotFoundError as error:
        raise InputError(f"no suite {name}: known are classic and modern, or give a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError, InputError) as error:
        raise InputError(f"{path}: {error}") from error
    entries = [entry for each in suite.traces if (entry := load_catalogue().get(each)) is not None]
    if absent := [entry.name for entry in entries if entry.remote and not entry.path.exists()]:
        raise InputError(f"{name}: not fetched yet: run {', '.join(f'`queuecast fetch {each}`' for each in absent)}")
    return suite
