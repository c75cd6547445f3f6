"""Monitored systems by name: where counters and control runs of each come from.

``queuecast variability ingest`` remembers its options in ``systems.toml`` in the home directory, so that the nightly run reads
the same again. ``simulated``, the embedded default, is always known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tomlkit
from pydantic import Field, Strict

from features.errors import InputError, shown
from features.names import check_name
from features.validation import validated
from models.variability.classifiers import CLASSIFIERS, PUBLISHED
from pipelines.sources.settings import changing, read_settings

SIMULATED = "simulated"
"""Name of the embedded default, a small simulated cluster."""


Texts = Annotated[tuple[str, ...], Strict(False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Classifiers = Annotated[tuple[Literal[CLASSIFIERS], ...], Strict(False)]  # type: ignore[valid-type]


@dataclass(frozen=True)
class System:
    """One monitored system; places are absolute.

    ``counters`` are files, directories or patterns of LDMS CSV, the others as the options of ``queuecast variability ingest``.
    ``lag_s`` is the age of a sample when it can be read: younger ones are not used for training. ``scope`` says which nodes'
    counters its models read, ``classifiers`` which are candidates, and ``elimination`` whether columns are eliminated recursively
    before each is trained.
    """

    name: str
    counters: Texts = ()
    sampler: str = ""
    runs: str = ""
    accounting: str = ""
    job_name: str = ""
    time_zone: str = ""
    probes: str = ""
    types: str = ""
    topology: str = ""
    lag_s: Seconds = 0.0
    scope: Literal["own", "all"] = "own"
    classifiers: Classifiers = PUBLISHED
    elimination: bool = False

    @property
    def simulated(self) -> bool:
        return self.name == SIMULATED


_LISTS = ("counters", "classifiers")


def remembered(home: Path) -> Path:
    """Return the file of systems."""
    return home / "systems.toml"


def systems(home: Path) -> dict[str, System]:
    """Return the systems remembered in ``home`` by name; InputError for an invalid file."""
    path = remembered(home)
    if not path.exists():
        return {}
    tables = read_settings(path).get("systems", {})
    if not isinstance(tables, dict):
        raise InputError(f"{path}: systems must be tables [systems.NAME]")
    return {
        check_name(name, f"{path}: systems"): System(name, **validated(System, table, f"{path}: system {name}"))
        for name, table in tables.items()
    }


def system(home: Path, name: str) -> System:
    """Return the system called ``name``; InputError with the known names otherwise."""
    known = systems(home)
    if name in known:
        return known[name]
    if name == SIMULATED:
        from pipelines.sources.simulated_site import simulated_system

        return simulated_system(home)
    raise InputError(
        f"unknown system {shown(name)}; known: {', '.join([SIMULATED, *known])}; queuecast variability ingest --system {name} adds it"
    )


def settings_of(home: Path, name: str) -> System:
    """Return the settings of the system ``name``, or the defaults of an unknown one."""
    return system(home, name) if name == SIMULATED or name in systems(home) else System(name)


def remember_system(home: Path, name: str, given: Mapping[str, Any]) -> System:
    """Add what is ``given`` of a system to what is known of it.

    Further ``counters`` are added; anything else replaces the former value.
    """
    if name == SIMULATED:
        raise InputError(f"{name}: is the name of the simulated cluster; use another name")
    check_name(name, "system")
    with changing(remembered(home)) as document:
        old = systems(home).get(name, System(name))
        new = {**asdict(old), **{key: value for key, value in given.items() if value}}
        new["counters"] = tuple(dict.fromkeys([*old.counters, *given.get("counters", ())]))
        known = System(**new)
        tables = document.setdefault("systems", tomlkit.table(is_super_table=True))
        default = asdict(System(name))
        said = {key: value for key, value in asdict(known).items() if key != "name" and value != default[key]}
        tables[name] = {key: list(value) if key in _LISTS else value for key, value in said.items()}
    return known
