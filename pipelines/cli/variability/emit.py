"""``queuecast variability emit``: write a simulated cluster's monitoring as files.

``ingest`` reads them.
"""

from pathlib import Path

import click

from pipelines.cli.lazy import importing
from pipelines.cli.notes import note
from pipelines.cli.options import check_outputs, out_option
from pipelines.cli.progress import shown_progress


@click.command()
@click.option(
    "--cluster",
    "cluster_name",
    type=click.Choice(["congested", "congested-small"]),
    default="congested",
    show_default=True,
    help="The simulated cluster; congested-small is a quarter of it.",
)
@click.option("--days", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True, help="Days of users' load.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--gzip", "packed", is_flag=True, help="Pack the counters' files.")
@out_option(
    "A new or empty directory, or one with fewer days of the same, to which the others are added.",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
)
def command(cluster_name: str, days: float, seed: int, packed: bool, out: Path) -> None:
    """Simulate a cluster and its users, and write what a site would record.

    It writes counters as LDMS CSV, accounting, control runs, probe results, application types and the topology. A day of the 512
    nodes of congested is some 135 million values: 1.6 GB of text, and half of that packed. A day of the 128 nodes of
    congested-small, which are sampled a quarter as often, is 8 million values and 0.1 GB.
    """
    with importing():  # a wrong option is refused before the simulator is imported
        from pipelines.readers.emission import COUNTERS, JOBS, PROBE_RESULTS, RUNS, TOPOLOGY, TYPES, emit
        from sim.cluster.presets import CONGESTED, CONGESTED_SMALL

    check_outputs({"--out": out}, [])
    cluster = CONGESTED if cluster_name == CONGESTED.name else CONGESTED_SMALL
    with shown_progress("seconds of the cluster", after_s=1.0) as progress:
        emitted = emit(cluster, out, days=days, seed=seed, packed=packed, progress=progress)
    jobs, runs = len(emitted.recorded.jobs), len(emitted.recorded.runs)
    note(
        f"simulated cluster {cluster.name}, {days:g} days: {emitted.values:,} values in {emitted.files:,} new files, "
        f"{jobs:,} jobs, {runs:,} of them control runs"
    )
    named = {
        "counters": COUNTERS,
        "accounting": JOBS,
        "control runs": RUNS,
        "probe results": PROBE_RESULTS,
        "types": TYPES,
        "topology": TOPOLOGY,
    }
    for what, name in named.items():
        click.echo(f"{what:<18}{out / name}")
