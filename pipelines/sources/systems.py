"""Monitored systems by name: where counters and control runs of each come from.

``queuecast variability ingest`` remembers its options in ``systems.toml`` in the home directory, so that the nightly run reads
the same again. ``simulated``, the embedded default, is always known.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomlkit
from pydantic import ConfigDict, Field, Strict

from features.errors import InputError, shown
from features.names import check_name
from models.variability.classifiers import CLASSIFIERS, PUBLISHED
from pipelines.sources.settings import changing, read_settings
from sim.settings import Settings

SIMULATED = "simulated"
"""Name of the embedded default, a small simulated cluster."""


Texts = Annotated[tuple[str, ...], Strict(False)]
Classifiers = Annotated[tuple[Literal[CLASSIFIERS], ...], Strict(False)]  # type: ignore[valid-type]


class System(Settings):
    """One monitored system; places are absolute where they are remembered.

    ``queuecast variability ingest`` and ``train`` make their options of these fields. ``lag_s`` is the age of a sample when it can be read:
    younger ones are not used for training.
    """

    model_config = ConfigDict(strict=True)

    counters: Texts = Field(default=(), description="LDMS CSV: a file, a directory with all below it, or a pattern in quotes.")
    sampler: str = Field(
        default="", description="The metrics' sampler, where neither ::sampler, the file's name nor the metrics tell."
    )
    runs: str = Field(default="", description="Control runs: run_id,application,input,nodes,start_s,runtime_s.")
    accounting: str = Field(default="", description="Control runs from Slurm accounting (sacct --parsable2, or CSV).")
    job_name: str = Field(
        default="",
        description="Names of its control runs: a regular expression for the whole name, with groups (?P<application>...) and (?P<input>...).",
    )
    time_zone: str = Field(default="", description="IANA time zone of the accounting's local times, such as America/Denver.")
    probes: str = Field(default="", description="MPI probe results: run_id,node,send_s,recv_s,allreduce_s.")
    types: str = Field(default="", description="Application types: application,type (compute, network or io).")
    topology: str = Field(default="", description="Leaf switches: Slurm's topology.conf, or CSV node,leaf.")
    lag_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    scope: Literal["own", "all"] = Field(default="own", description="Counters of the run's own nodes, or of all.")
    classifiers: Classifiers = Field(default=PUBLISHED, title="classifier", description="A candidate.")
    elimination: bool = Field(default=False, title="eliminate", description="Eliminate features recursively before each training.")
    name: str

    @property
    def simulated(self) -> bool:
        return self.name == SIMULATED


PLACES = ("runs", "accounting", "probes", "types", "topology")
"""The fields that are files, beside the counters."""
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
        check_name(name, f"{path}: systems"): _of_table(name, table, f"{path}: system {name}") for name, table in tables.items()
    }


def _of_table(name: str, table: Any, where: str) -> System:
    if not isinstance(table, dict):
        raise InputError(f"{where}: must be a table, not {shown(table)}")
    if "name" in table:
        raise InputError(f"{where}: name is unknown here: the table's own name is the system's")
    try:
        return System(name=name, **table)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


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
    return system(home, name) if name == SIMULATED or name in systems(home) else System(name=name)


def remember_system(home: Path, name: str, given: Mapping[str, Any]) -> System:
    """Add what is ``given`` of a system to what is known of it.

    Further ``counters`` are added; anything else replaces the former value.
    """
    if name == SIMULATED:
        raise InputError(f"{name}: is the name of the simulated cluster; use another name")
    check_name(name, "system")
    with changing(remembered(home)) as document:
        old = systems(home).get(name, System(name=name))
        counters = tuple(dict.fromkeys([*old.counters, *given.get("counters", ())]))
        known = System(**old.model_dump() | {key: value for key, value in given.items() if value} | {"counters": counters})
        tables = document.setdefault("systems", tomlkit.table(is_super_table=True))
        default = System(name=name)
        stated = {key: value for key, value in known if value != getattr(default, key)}
        tables[name] = {key: list(value) if key in _LISTS else value for key, value in stated.items()}
    return known
