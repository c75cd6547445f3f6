"""``queuecast run``: materialise the whole pipeline for a trace and a monitored system."""

from __future__ import annotations

import click

from pipelines.cli import importing
from pipelines.cli.options import options
from pipelines.training.run_settings import FIRST, TODAY, RunSettings


@click.command()
@click.option(
    "--trace",
    help=f"Catalogue name, SWF file, canonical Parquet or Slurm accounting. [default: the last months of {FIRST.trace}, if no system is "
    "named either]",
)
@click.option(
    "--system",
    help="A monitored system that queuecast variability ingest has read, or simulated. [default: simulated, if no trace is named either]",
)
@click.option(
    "--night",
    metavar="[DAY]",
    is_flag=False,
    flag_value=TODAY,
    help="Do the night of a day (2026-03-01), by default of today, as the nightly schedule does: of --trace or of --system, as they were run. "
    "[default: of both that a run without them made]",
)
@options(RunSettings)
def run(settings: RunSettings, system: str | None, night: str | None) -> None:
    """Materialise everything of a trace or a monitored system, by default of one each.

    The defaults are a real log, which comes with Queuecast, and a simulated cluster. A trace has ingest, features,
    registered predictors, their simulation, comparison, report; a system has counters, control runs, features,
    classifiers of variation.
    """
    with importing():  # a wrong option is refused before Dagster is imported
        from pipelines.cli.running import run_pipeline

    run_pipeline(settings, system, night)
