"""``queuecast simulate``: schedule a trace under schedulers and predictors."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.cli import importing
from pipelines.cli.options import json_option, options
from sim.settings import Campaign


@click.command()
@click.argument("trace")
@options(
    Campaign,
    once=("semantics", "starvation_s", "seeds", "taus_s"),
    without=("replicates", "windows", "keep_first", "drop_rule"),
)
@click.option(
    "--schedule-out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write all schedules, job by job, to this Parquet file.",
)
@json_option
def simulate(campaign: Campaign, schedule_out: Path | None, as_json: bool) -> None:
    """Schedule TRACE under every combination of schedulers, predictors and corrections.

    TRACE is a name of the catalogue, an SWF file (plain or .gz), a canonical Parquet file or a Slurm accounting file.
    """
    with importing():  # a wrong option is refused before the simulator is imported
        from pipelines.cli.simulation import simulate_all

    simulate_all(campaign, schedule_out, as_json)
