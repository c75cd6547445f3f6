"""Monitored systems by name: the sources of counters and control runs of each.

``queuecast variability ingest`` remembers its options in ``systems.toml`` in the home directory, so that the nightly run reads
the same again. ``simulated``, the embedded default, is always known.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit

from features.errors import InputError, shown
from features.names import check_name
from pipelines.readers.settings import changing, read_settings
from pipelines.readers.system import SIMULATED, System

_LISTS = ("counters", "classifiers")


def remembered(home: Path) -> Path:
    """Return the file of systems."""
    return home / "systems.toml"


def systems(home: Path) -> dict[str, System]:
    """Return the systems remembered in ``home`` by name; raise InputError if invalid."""
    path = remembered(home)
    if not path.exists():
        return {}
    tables = read_settings(path).get("systems", {})
    if not isinstance(tables, dict):
        raise InputError(f"{path}: systems must be tables [systems.NAME]")
    return {
        check_name(name, f"{path}: systems"): _of_table(name, table, f"{path}: system {name}") for name, table in tables.items()
    }


def _of_table(name: str, table: Any, where: str) -> System:
    if not isinstance(table, dict):
        raise InputError(f"{where}: must be a table, not {shown(table)}")
    if "name" in table:
        raise InputError(f"{where}: remove the key name: the table's own name is the system's")
    try:
        return System(name=name, **table)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def system(home: Path, name: str) -> System:
    """Return the system called ``name``; if unknown, raise InputError with the known names."""
    by_name = systems(home)
    if name in by_name:
        return by_name[name]
    if name == SIMULATED:
        from pipelines.readers.simulated_site import simulated_system

        return simulated_system(home)
    raise InputError(
        f"unknown system {shown(name)}; known: {', '.join([SIMULATED, *by_name])}; queuecast variability ingest --system {name} adds it"
    )


def settings_of(home: Path, name: str) -> System:
    """Return the settings of the system ``name``, or the defaults of an unknown one."""
    return system(home, name) if name == SIMULATED or name in systems(home) else System(name=name)


def remember_system(home: Path, name: str, changed: Mapping[str, Any]) -> System:
    """Update a system's remembered settings by those ``changed``; return them all.

    Further ``counters`` are added; any other value that is not empty replaces the former one.
    """
    if name == SIMULATED:
        raise InputError(f"{name}: is the name of the simulated cluster; use another name")
    check_name(name, "system")
    with changing(remembered(home)) as document:
        old = systems(home).get(name, System(name=name))
        counters = tuple(dict.fromkeys([*old.counters, *changed.get("counters", ())]))
        updated = System(**old.model_dump() | {key: value for key, value in changed.items() if value} | {"counters": counters})
        tables = document.setdefault("systems", tomlkit.table(is_super_table=True))
        default = System(name=name)
        settings = {key: value for key, value in updated if value != getattr(default, key)}
        tables[name] = {key: list(value) if key in _LISTS else value for key, value in settings.items()}
    return updated
