"""Ingestion of a system: counters, control runs, probes, types, topology into the lake.

They are kept as ingested: they only grow, by whole files, and reading a file again changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from features.errors import InputError
from pipelines.lake.counters import CountersStore
from pipelines.lake.run_store import JOBS, PROBE_RESULTS, RUNS, TOPOLOGY, TYPES, KeptRows, keep
from pipelines.lake.tables import Lake
from pipelines.readers.control_runs import (
    ControlRuns,
    read_accounting_jobs,
    read_accounting_runs,
    read_probes,
    read_runs,
    read_topology,
    read_types,
)
from pipelines.readers.ldms.ingest import IngestReport, ingest_counters
from pipelines.readers.systems import System

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class IngestedFile:
    """A file of runs, jobs, probe results, types or a topology: its rows, and what was stored."""

    path: Path
    table: str
    read: ControlRuns
    kept: KeptRows


def read_counters(home: Path, system: System, progress: Progress = lambda done, total: None) -> IngestReport:
    """Read new content of the system's LDMS files.

    Raises InputError if its places name no file; the report lists broken files.
    """
    if not system.counters:
        raise InputError(
            f"{system.name}: no counters are known; read some by queuecast variability ingest --system {system.name} --counters ..."
        )
    store = CountersStore(home / "lake", system.name)
    return ingest_counters(
        store, system.counters, sampler=system.sampler or None, progress=lambda name, done, total: progress(done, total)
    )


def read_tables(lake: Lake, system: System) -> list[IngestedFile]:
    """Read the system's control runs, jobs, probe results, types and topology; store them.

    All are read before any is stored, so that an error in one changes nothing.
    """
    places: tuple[tuple[str, str, Callable[[Path], ControlRuns]], ...] = (
        (system.runs, RUNS, read_runs),
        (
            system.accounting if system.job_name else "",
            RUNS,
            lambda path: read_accounting_runs(path, system.job_name, system.time_zone or None),
        ),
        (system.accounting, JOBS, lambda path: read_accounting_jobs(path, system.time_zone or None)),
        (system.probes, PROBE_RESULTS, lambda path: ControlRuns(read_probes(path))),
        (system.types, TYPES, lambda path: ControlRuns(read_types(path))),
        (system.topology, TOPOLOGY, lambda path: ControlRuns(read_topology(path))),
    )
    contents = [(Path(place), table, read(Path(place))) for place, table, read in places if place]
    return [IngestedFile(path, table, read, keep(lake, table, system.name, read.runs)) for path, table, read in contents]


def sampled(store: CountersStore, report: IngestReport) -> pd.DataFrame:
    """Return what is stored of each sampler and day with new data, or else of each last day.

    Columns: ``sampler day rows values new``.
    """
    days = []
    for sampler in store.samplers:
        new = report.samplers[sampler].days if sampler in report.samplers else set()
        for day in sorted(new) or store.days(sampler)[-1:]:
            parts = store.parts(sampler, day)
            rows, values = sum(part.rows for part in parts), sum(part.values for part in parts)
            days.append({"sampler": sampler, "day": day, "rows": rows, "values": values, "new": day in new})
    return pd.DataFrame(days)
