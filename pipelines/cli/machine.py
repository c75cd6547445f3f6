"""``queuecast machine``: what a description of a Slurm site says, and how to make one."""

from __future__ import annotations

from pathlib import Path

import click

from features.errors import InputError


@click.command()
@click.argument("site", type=click.Path(path_type=Path), required=False)
@click.option("--commands", is_flag=True, help="Print the commands that make a site's folder.")
@click.option("--time-zone", "timezone", default="UTC", show_default=True, help="IANA time zone of the local times in the files.")
def command(site: Path | None, commands: bool, timezone: str) -> None:
    """Show what the files of SITE say, and the keys that count for nothing here.

    Nodes, partitions, QOS, accounts.
    """
    from sim.slurm.lines import FILES

    if commands:
        click.echo("mkdir site && cd site      # all files but slurm.conf may be missing")
        click.echo("\n".join(FILES.values()))
        return
    if site is None:
        raise InputError("give a site's folder, or --commands for how to make one")
    from pipelines.ingest.slurm_site import load_site
    from pipelines.report.table import Table

    found = load_site(site, timezone)
    rows = [
        [
            name,
            f"{len(each.nodes):,}",
            str(each.tier),
            str(each.factor),
            "none" if each.max_s > 10**9 else f"{each.max_s / 3600:,.1f}",
        ]
        for name, each in found.partitions.items()
    ]
    memory, gpus = sum(node.memory for node in found.nodes) / 1024, sum(node.gpus for node in found.nodes)
    title = f"{found.name}: {len(found.nodes):,} nodes, {found.procs:,} processors, {memory:,.0f} GiB, {gpus:,} GPUs"
    Table(title, ["partition", "nodes", "tier", "factor", "limit h"], rows).show()
    users = sum(each.user != "" for each in found.associations)
    click.echo(
        f"QOS {', '.join(found.qos)}; {len(found.associations) - users:,} accounts, {users:,} users; {len(found.reservations):,} "
        f"reservations, {len(found.outages):,} outages; priorities by {'factors' if found.multifactor else 'arrival'}"
    )
    for text in found.warnings:
        click.echo(f"WARNING: {text} changes decisions and is not modelled")
    if found.not_modelled:
        click.echo(f"not modelled, {len(found.not_modelled)} keys: {', '.join(found.not_modelled)}")
