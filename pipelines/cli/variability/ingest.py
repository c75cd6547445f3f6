"""``queuecast variability ingest``: read a system's monitoring files into the lake.

These are LDMS counters, control runs, probe results, application types and the topology.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from features.errors import InputError, printable
from features.names import check_name
from pipelines.cli.notes import note
from pipelines.cli.options import options, system_option
from pipelines.cli.progress import shown_progress
from pipelines.readers.system import PLACES, System
from pipelines.readers.systems import remember_system
from pipelines.report.table import Table

if TYPE_CHECKING:
    from pipelines.lake.tables import Lake
    from pipelines.readers.ldms.ingest import IngestReport

_SHOWN = 20


@click.command()
@system_option
@options(
    System,
    "counters",
    "sampler",
    "runs",
    "accounting",
    "job_name",
    "time_zone",
    "probes",
    "types",
    "topology",
    "scope",
    "classifiers",
)
def command(system: System) -> None:
    """Read counters, control runs, probe results, types and the topology of one system.

    The system's places are remembered and read again every night. Known content changes nothing; a counter file that grew adds
    its new lines. A broken counter file is quarantined with the reason and the rest is ingested: then the exit code is 2.
    """
    from pipelines.lake.home import home
    from pipelines.lake.tables import Lake
    from pipelines.readers.ldms.files import counter_files

    if system.simulated:
        raise InputError(f"--system {system.name}: is the name of the simulated cluster; use another name")
    check_name(system.name, "--system")
    if system.job_name and not system.accounting:
        raise InputError("--job-name needs --accounting: it says which of its jobs are control runs")
    places = {key: str(Path(getattr(system, key)).absolute()) for key in PLACES if getattr(system, key)}
    if not (system.counters or places):
        raise InputError("nothing to read: give --counters, --runs, --accounting, --probes, --types or --topology")
    for spec in system.counters:
        counter_files(spec)  # fails early for a wrong name
    lake = Lake(home() / "lake")
    _read_tables(lake, system)
    broken = _read_counters(lake, system).quarantined if system.counters else []
    counters = tuple(str(Path(spec).absolute()) for spec in system.counters)
    sources = {**system.model_dump(exclude={"name"}, exclude_unset=True), **places, "counters": counters}
    remember_system(home(), system.name, sources)
    if broken:
        sys.stdout.flush()
        sys.exit(2)


def _read_tables(lake: Lake, system: System) -> None:
    from pipelines.lake.run_store import JOBS, PROBE_RESULTS, REPLACED, RUNS, TOPOLOGY, TYPES
    from pipelines.studies.variability_ingest import read_tables

    named = {
        RUNS: "control runs",
        JOBS: "jobs",
        PROBE_RESULTS: "probe results",
        TYPES: "application types",
        TOPOLOGY: "nodes with a leaf",
    }
    for ingested in read_tables(lake, system):
        what, kept = named[ingested.table], ingested.kept
        left = ", ".join(f"{reason} {count:,}" for reason, count in ingested.read.left_out.items())
        note(
            f"{ingested.path}: {len(ingested.read.runs):,} {what}: {kept.added:,} new, {kept.same:,} known"
            + (f", {len(kept.contradicting):,} {'changed' if ingested.table in REPLACED else 'contradict stored ones, which stay'}"
               f" ({_few(kept.contradicting)})" if kept.contradicting else "")
            + (f"; left out: {left}" if left else "")
        )  # fmt: skip
        for text in ingested.read.notes:
            note(f"{ingested.path}: {text}")
        click.echo(f"{what:<18}{lake.path(ingested.table, system.name)}")


def _read_counters(lake: Lake, system: System) -> IngestReport:
    from pipelines.lake.version import COUNTERS
    from pipelines.studies.variability_ingest import read_counters

    with shown_progress("bytes", "reading counters") as progress:
        report = read_counters(lake.root.parent, system, progress)
    _print(report)
    click.echo(f"{'counters':<18}{lake.root / COUNTERS / system.name}")
    return report


def _print(report: IngestReport) -> None:
    title = f"{report.ingested:,} files read, {report.continued:,} read on, {report.unchanged:,} known, {len(report.quarantined):,} quarantined"
    if report.unfinished:
        title += f"; {report.unfinished:,} unfinished last lines wait for their end"
    note(title)
    if report.damaged:
        note(f"{report.damaged:,} damaged lines, neither rows nor headers, are left out; counter_files counts them")
    for name, files in sorted(report.text_columns.items()):
        note(f"{printable(name)} is a column of text in {files:,} files and is not read")
    headings = ("sampler", "files", "rows", "values", "null cells", "nodes", "days", "duplicates", "contradictions")
    cells = []
    for name, tally in sorted(report.samplers.items()):
        numbers = (tally.files, tally.rows, tally.values, tally.nulls, len(tally.nodes), len(tally.days))
        cells.append([name, *(f"{number:,}" for number in (*numbers, tally.duplicates, tally.contradictions))])
    if cells:
        Table("what came in", headings, cells).show()
    for text in report.quarantined[:_SHOWN]:
        note(f"quarantined, nothing of it is stored: {text}")
    if (more := len(report.quarantined) - _SHOWN) > 0:
        note(f"and {more:,} more")


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
