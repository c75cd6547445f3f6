"""``queuecast machine``: show the description of a Slurm site, and how to make one."""

from __future__ import annotations

from pathlib import Path

import click

from features.errors import InputError


@click.command()
@click.argument("site", type=click.Path(path_type=Path), required=False)
@click.option("--commands", is_flag=True, help="Print the commands that make a site's folder.")
@click.option("--time-zone", "timezone", default="UTC", show_default=True, help="IANA time zone of the local times in the files.")
def command(site: Path | None, commands: bool, timezone: str) -> None:
    """Show the nodes, partitions, QOS and accounts in the files of SITE.

    Also shown are the keys that the simulator does not model.
    """
    from sim.slurm.lines import EXPORT, FILES

    if commands:
        click.echo("mkdir -p site && cd site      # slurm.conf must be there")
        click.echo("\n".join((*FILES.values(), "cd ..      # the accounting stands beside the folder", EXPORT)))
        return
    if site is None:
        raise InputError("give a site's folder, or --commands for how to make one")
    from pipelines.readers.slurm.site import load_site
    from pipelines.report.site_notes import changing, harmless
    from pipelines.report.table import Table
    from sim.slurm.releases import shown
    from sim.slurm.unbuilt import unbuilt

    slurm_site = load_site(site, timezone)
    rows = [
        [
            name,
            f"{len(part.nodes):,}",
            str(part.tier),
            str(part.factor),
            "none" if part.max_s > 10**9 else f"{part.max_s / 3600:,.1f}",
        ]
        for name, part in slurm_site.partitions.items()
    ]
    memory, gpus = sum(node.memory for node in slurm_site.nodes) / 1024, sum(node.gpus for node in slurm_site.nodes)
    title = f"{slurm_site.name}: {len(slurm_site.nodes):,} nodes, {slurm_site.procs:,} processors, {memory:,.0f} GiB, {gpus:,} GPUs"
    Table(title, ["partition", "nodes", "tier", "factor", "limit h"], rows).show()
    users = sum(association.user != "" for association in slurm_site.associations)
    click.echo(
        f"QOS {', '.join(slurm_site.qos)}; accounts: {len(slurm_site.associations) - users:,}, users: {users:,}, "
        f"reservations: {len(slurm_site.reservations):,}, outages: {len(slurm_site.outages):,}; "
        f"priorities by {'factors' if slurm_site.multifactor else 'arrival'}; Slurm {shown(slurm_site.known_release)}"
    )
    for text in slurm_site.warnings:
        click.echo(f"WARNING: {text} changes decisions and is not modelled")
    missing, others = [*unbuilt(slurm_site), *changing(slurm_site)], len(harmless(slurm_site))
    click.echo("\n".join([*slurm_site.assumed, *slurm_site.notes, *missing]))
    if not (missing or slurm_site.warnings):
        click.echo("Every setting here that changes which jobs may run where is modelled.")
    if others:
        click.echo(
            f"Settings that say nothing on which jobs may run where are not read: {others:,}, named on the page of queuecast parity."
        )
