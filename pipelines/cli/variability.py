"""``queuecast variability``: from monitoring counters to a scheduler that waits."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from features.errors import InputError, check_name, printable
from pipelines.cli import LazyGroup, note, record
from pipelines.cli.options import json_option, options, system_option
from pipelines.cli.progress import shown_progress
from pipelines.readers.systems import PLACES, System, remember_system
from pipelines.readers.text import some

if TYPE_CHECKING:
    from pipelines.lake.tables import Lake
    from pipelines.readers.ldms.ingest import IngestReport
    from pipelines.studies.variability_ask import VariationAnswer

_COMMANDS = {
    "ingest": ("variability", "read counters, control runs and probe results"),
    "ask": ("variability", "would a job vary if it started now? The champion's answer"),
}


@click.group("variability", cls=LazyGroup, commands=_COMMANDS)
def variability() -> None:
    """Performance variability: predict from counters whether a job would run slow."""


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
def ingest(system: System) -> None:
    """Read counters, control runs, probe results, types and the topology of one system.

    The system's places are remembered and read again every night. Known content changes nothing; a counter file that
    grew adds its new lines. A broken counter file is quarantined with the reason and the rest is ingested: then the
    exit code is 2.
    """
    from pipelines.lake.places import home
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
    from pipelines.studies.monitored import ROWS, read_tables

    for ingested in read_tables(lake, system):
        note(ingested.line)
        for text in ingested.read.notes:
            note(f"{ingested.path}: {text}")
        click.echo(f"{ROWS[ingested.table]:<18}{lake.path(ingested.table, system.name)}")


def _read_counters(lake: Lake, system: System) -> IngestReport:
    from pipelines.lake.version import COUNTERS
    from pipelines.studies.monitored import read_counters

    with shown_progress("bytes", "reading counters") as progress:
        report = read_counters(lake.root.parent, system, progress)
    _print_report(report)
    click.echo(f"{'counters':<18}{lake.root / COUNTERS / system.name}")
    return report


def _print_report(report: IngestReport) -> None:
    from pipelines.report.table import Table

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
        note(f"quarantined: {text}")
    if (more := len(report.quarantined) - _SHOWN) > 0:
        note(f"and {more:,} more")


@click.command()
@system_option
@click.option(
    "--nodes", "node_list", required=True, help="The nodes the job would get: n1,n2 or a Slurm list such as quartz[1-16,20]."
)
@click.option("--application", required=True, help="Name of the application, as in the control runs.")
@click.option("--at", "at_s", type=click.FloatRange(0, 1e10), help="When it would start, in Unix seconds.  [default: now]")
@json_option
def ask(name: str, node_list: str, application: str, at_s: float | None, as_json: bool) -> None:
    """Ask the champion of SYSTEM whether APPLICATION would vary if it started on these nodes.

    It uses the ingested counters of the five minutes before.
    """
    from features.node_list import expand_nodes
    from pipelines.lake.places import home
    from pipelines.lake.registry import tracking
    from pipelines.studies.variability_ask import ask

    try:
        nodes = expand_nodes(node_list)
    except ValueError as error:
        raise InputError(f"--nodes {node_list!r} is not {error}") from error
    if not nodes:
        raise InputError("--nodes names no node")
    answer = ask(home(), tracking(), name, nodes, application, time.time() if at_s is None else at_s)
    if as_json:
        record(asdict(answer))
    else:
        _print_answer(answer)


def _print_answer(answer: VariationAnswer) -> None:
    from pipelines.studies.variability_ask import time_text

    on = f"{len(answer.nodes)} node{'s' if len(answer.nodes) > 1 else ''}"
    click.echo(
        f"{answer.application} on {on} at {time_text(answer.at_s)}: {'predicted: variation' if answer.varies else 'predicted: no variation'}"
    )
    side = "reaches" if answer.varies else "is below"
    does = "let it wait" if answer.varies else "start it"
    click.echo(
        f"probability   {answer.variation:.3f}, which {side} the cutoff {answer.cutoff:.3f}: a scheduler that asks would {does}"
    )
    if math.isfinite(answer.varies_above_s):
        click.echo(f"varies above  {answer.varies_above_s:,.0f} s")
    else:
        note(f"{answer.application}: {answer.model} has no baseline for it, because it learned from no control runs of it")
    click.echo(f"model         {answer.model} version {answer.version}, {answer.classifier}, counters of {answer.scope} nodes")
    if answer.missing:
        note(f"{len(answer.missing)} columns have no value, and the model takes usual values: {some(answer.missing)}")
