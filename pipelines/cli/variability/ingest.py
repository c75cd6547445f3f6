"""``queuecast variability ingest``: LDMS counters, control runs, probe results and application types into the lake."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from features.errors import InputError
from pipelines.cli.options import console, note

if TYPE_CHECKING:
    from pipelines.ingest.ldms_ingest import IngestReport
    from pipelines.lake import Lake

_SHOWN = 20


@click.command()
@click.option("--system", required=True, help="Name of the cluster; what is read is kept under it.")
@click.option(
    "--counters", multiple=True, help="LDMS CSV: a file, a directory with all below it, or a pattern in quotes. Repeatable."
)
@click.option("--sampler", help="Whose metrics these are, where neither ::sampler, the file's name nor the metrics say.")
@click.option("--runs", type=click.Path(path_type=Path), help="Control runs: run_id,application,input,nodes,start_s,runtime_s.")
@click.option(
    "--accounting", type=click.Path(path_type=Path), help="Control runs from Slurm accounting (sacct --parsable2, or CSV)."
)
@click.option(
    "--job-name",
    help="Which of its jobs: a regular expression for the whole name, with groups (?P<application>...) and (?P<input>...).",
)
@click.option("--time-zone", "timezone", help="IANA time zone of the accounting's local times, such as America/Denver.")
@click.option("--probes", type=click.Path(path_type=Path), help="MPI probe results: run_id,node,send_s,recv_s,allreduce_s.")
@click.option("--types", type=click.Path(path_type=Path), help="Application types: application,type (compute, network or io).")
def command(
    system: str,
    counters: tuple[str, ...],
    sampler: str | None,
    runs: Path | None,
    accounting: Path | None,
    job_name: str | None,
    timezone: str | None,
    probes: Path | None,
    types: Path | None,
) -> None:
    """Read counters, control runs, probe results and application types of one system.

    What was read before changes nothing; a counter file that grew gives its new lines. A broken counter file is quarantined with the reason
    and the rest goes on: then the exit code is 2.
    """
    from pipelines.home import home
    from pipelines.ingest.ldms_files import counter_files
    from pipelines.lake import Lake

    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", system):
        raise InputError(f"--system {system!r}: lower-case letters, digits, dot, hyphen and underscore only")
    if (accounting is None) != (job_name is None):
        raise InputError("--accounting and --job-name belong together: the file, and which of its jobs are control runs")
    if not (counters or runs or accounting or probes or types):
        raise InputError("nothing to read: give --counters, --runs, --accounting, --probes or --types")
    for spec in counters:
        counter_files(spec)  # a slip in a name is told before anything is done
    lake = Lake(home() / "lake")
    _read_tables(lake, system, runs, accounting, job_name, timezone, probes, types)
    if counters and _read_counters(lake, system, counters, sampler).quarantined:
        sys.stdout.flush()
        sys.exit(2)


def _read_tables(lake: Lake, system: str, runs, accounting, job_name, timezone, probes, types) -> None:
    """All are read before any is kept, so that a mistake in one leaves everything as it was."""
    from pipelines.ingest.control_runs import ControlRuns, read_accounting_runs, read_runs
    from pipelines.ingest.probes import read_probes, read_types
    from pipelines.run_store import PROBE_RESULTS, RUNS, TYPES, keep

    found = []
    for path, table, what in ((runs, RUNS, "control runs"), (accounting, RUNS, "control runs"), (probes, PROBE_RESULTS, "probe results"),
                              (types, TYPES, "application types")):  # fmt: skip
        if path is None:
            continue
        if table == RUNS:
            read = read_runs(path) if path is runs else read_accounting_runs(path, job_name, timezone)
        else:
            read = ControlRuns(read_probes(path) if table == PROBE_RESULTS else read_types(path))
        found.append((path, table, what, read))
    for path, table, what, read in found:
        kept = keep(lake, table, system, read.runs)
        left = ", ".join(f"{reason} {count:,}" for reason, count in read.left_out.items())
        note(
            f"{path}: {len(read.runs):,} {what}: {kept.added:,} new, {kept.same:,} known"
            + (f", {len(kept.contradicting):,} {'changed' if table == TYPES else 'contradict what was there first, which stays'}"
               f" ({_few(kept.contradicting)})" if kept.contradicting else "")
            + (f"; left out: {left}" if left else "")
        )  # fmt: skip
        for text in read.notes:
            note(f"{path}: {text}")
        click.echo(f"{what:<18}{lake.path(table, system)}")


def _read_counters(lake: Lake, system: str, counters: tuple[str, ...], sampler: str | None) -> IngestReport:
    from pipelines.counters_store import CountersStore
    from pipelines.ingest.ldms_ingest import ingest_counters

    store = CountersStore(lake.root, system)
    with _progress() as progress:
        report = ingest_counters(store, counters, sampler=sampler, progress=progress)
    _print(report)
    for text in report.contradictions[:_SHOWN]:
        note(text)
    click.echo(f"{'counters':<18}{store.root}")
    return report


@contextmanager
def _progress() -> Iterator:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading counters", total=None)
        yield lambda name, done, total: bar.update(task, description=name or "reading counters", completed=done, total=total)


def _print(report: IngestReport) -> None:
    from rich.markup import escape
    from rich.table import Table

    title = f"{report.ingested:,} files read, {report.continued:,} read on, {report.known:,} known, {len(report.quarantined):,} quarantined"
    if report.unfinished:
        title += f"; {report.unfinished:,} unfinished last lines wait for their end"
    note(title)
    shown = Table(title="what came in", title_justify="left")
    for heading in (
        "sampler",
        "files",
        "rows",
        "values",
        "null cells",
        "nodes",
        "days",
        "duplicates",
        "contradictions",
        "late rows",
    ):
        shown.add_column(heading, justify="left" if heading == "sampler" else "right")
    for name, tally in sorted(report.samplers.items()):
        numbers = (tally.files, tally.rows, tally.values, tally.nulls, len(tally.nodes), len(tally.days))
        shown.add_row(escape(name), *(f"{number:,}" for number in (*numbers, tally.duplicates, tally.contradictions, tally.late)))
    if report.samplers:
        console().print(shown)
    if report.quarantined:
        broken = Table(title="quarantined: nothing of them is stored", title_justify="left")
        broken.add_column("file", overflow="fold")
        broken.add_column("line", justify="right")
        broken.add_column("reason", overflow="fold")
        for row in report.quarantined[:_SHOWN]:
            broken.add_row(escape(row["file"]), str(row["line"] or ""), escape(row["reason"]))
        if len(report.quarantined) > _SHOWN:
            broken.add_row(f"and {len(report.quarantined) - _SHOWN:,} more", "", "all are in quarantine.parquet")
        console().print(broken)


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
