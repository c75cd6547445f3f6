"""Monitored systems by name: the sources of counters and control runs of each.

``queuecast variability ingest`` remembers its options in ``systems.toml`` in the home directory, so that the nightly
run reads the same again. ``simulated``, the embedded default, is always known.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomlkit
from pydantic import ConfigDict, Field, Strict

from features.errors import InputError, check_name, shown
from models.variability.classifiers import CANDIDATES, CLASSIFIERS
from pipelines.readers import SIMULATED
from pipelines.readers.text import changing, read_settings
from sim.settings import CheckedSettings

Texts = Annotated[tuple[str, ...], Strict(False)]
Classifiers = Annotated[tuple[Literal[CLASSIFIERS], ...], Strict(False)]  # type: ignore[valid-type]


class System(CheckedSettings):
    """One monitored system; remembered places are absolute.

    ``queuecast variability ingest`` makes its options of these fields. ``lag_s`` is the age at which a sample can
    be read: training does not use younger ones.
    """

    model_config = ConfigDict(strict=True)

    counters: Texts = Field(default=(), description="LDMS CSV: a file, a directory with all below it, or a pattern in quotes.")
    sampler: str = Field(default="", description="The metrics' sampler, where neither ::sampler nor the file's name tells.")
    runs: str = Field(default="", description="Control runs: run_id,application,input,nodes,start_s,runtime_s.")
    accounting: str = Field(
        default="",
        description="All jobs with their nodes from Slurm accounting (sacct --parsable2, or CSV), with --job-name its control runs, too.",
    )
    job_name: str = Field(
        default="",
        description="Names of its control runs: a regular expression for the whole name, with groups (?P<application>...) and (?P<input>...).",
    )
    time_zone: str = Field(default="", description="IANA time zone of the accounting's local times, such as America/Denver.")
    probes: str = Field(default="", description="MPI probe results: run_id,node,send_s,recv_s,allreduce_s.")
    types: str = Field(default="", description="Application types: application,type (compute, network or io).")
    topology: str = Field(default="", description="Leaf switches: Slurm's topology.conf.")
    lag_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    scope: Literal["own", "all"] = Field(default="own", description="Counters of the run's own nodes, or of all.")
    classifiers: Classifiers = Field(
        default=CANDIDATES, title="classifier", description="A classifier that runs and nights train and judge."
    )
    elimination: bool = Field(default=False, title="eliminate", description="Eliminate features recursively before each training.")
    name: str

    @property
    def simulated(self) -> bool:
        return self.name == SIMULATED


PLACES = ("runs", "accounting", "probes", "types", "topology")
"""The fields that are files, in addition to the counters."""


_LISTS = ("counters", "classifiers")
_CLASSIFIERS = ("ordinal", "extra-trees")
"""A classifier of delays, and one as published beside it; both read the counters of all nodes.

Chosen, like the share of control runs, on simulations of other seeds than those that are shown.
"""


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


def simulated_system(home: Path) -> System:
    """Return the system that :mod:`pipelines.readers.simulated_site` writes."""
    from pipelines.readers.simulated_site import CLUSTER, COUNTERS, JOBS, PROBE_RESULTS, RUNS, TOPOLOGY, TYPES, site_folder

    folder = site_folder(home)
    return System(
        name=SIMULATED,
        counters=(str(folder / COUNTERS),),
        runs=str(folder / RUNS),
        accounting=str(folder / JOBS),
        time_zone="UTC",
        probes=str(folder / PROBE_RESULTS),
        types=str(folder / TYPES),
        topology=str(folder / TOPOLOGY),
        lag_s=CLUSTER.lag_s,
        scope="all",
        classifiers=_CLASSIFIERS,
    )


def system(home: Path, name: str) -> System:
    """Return the system called ``name``; if unknown, raise InputError with the known names."""
    by_name = systems(home)
    if name in by_name:
        return by_name[name]
    if name == SIMULATED:
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
