"""Commands about a Slurm site: ``queuecast parity``, ``whatif``, ``limits``, ``machine``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from features.errors import InputError, one_line
from pipelines.cli import note
from pipelines.cli.options import check_outputs, json_option, on_option, options, report_option, simulating
from pipelines.cli.progress import stage_bars
from pipelines.studies.questions import ParitySettings, ReplaySettings, WhatIfSettings

if TYPE_CHECKING:
    from pipelines.readers.slurm.jobs import SlurmJobs
    from pipelines.studies.what_if import WhatIf
    from sim.slurm.site import Site

_LONGEST_NOTE = 600


@click.command()
@click.argument("accounting", type=click.Path(path_type=Path, dir_okay=False))
@options(ParitySettings, without={"accounting"})
@report_option
@json_option
def parity(settings: ParitySettings, report: Path | None, as_json: bool) -> None:
    """Replay ACCOUNTING as the site's Slurm would schedule it, beside the record.

    Waits are compared with their range over the phases of Slurm's clocks, which no accounting records; single
    decisions, with what the rules give in the recorded state.
    """
    check_outputs({"--report": report}, [*map(str, filter(None, (settings.accounting, settings.machine, settings.log)))])
    from pipelines.cli.compiling import announce_compilation
    from pipelines.report import parity as shown
    from pipelines.studies.parity import measure
    from sim.site.parity import exports

    announce_compilation()
    timezone = settings.timezone or "UTC"
    site, jobs = load_site_jobs(settings.accounting, settings.machine, timezone, settings.log)
    with stage_bars() as bars:
        parity = measure(site, jobs, settings.replays, settings.seed, bars, settings.log, timezone)
    if parity.lost:
        note(
            f"WARNING: {len(parity.lost):,} jobs do not start in every replay, the first are {', '.join(parity.lost[:5])}: the site's files have no "
            "node for them, or a limit below what they ask for; figures leave them out"
        )
    if report is not None:
        from pipelines.lake.places import write

        provenance = {
            "accounting": settings.accounting.name,
            "site": str(settings.machine),
            "replays": settings.replays,
            "seed": settings.seed,
            "log": settings.log.name if settings.log else "none",
        }
        write(report, shown.render_parity(parity, provenance))
    if as_json:
        named: dict[str, Any] = {"not_modelled": list(site.not_modelled), "warnings": list(site.warnings)}
        named |= {"causes": parity.causes.to_dict("records"), "export_next": exports(parity.causes)}
        click.echo(json.dumps({**parity.summary, **named}))
        return
    click.echo("\n".join(shown.answer(parity)))
    for table in shown.groups(parity):
        table.show()
    if len(parity.unexplained):
        shown.unexplained(parity).show()
    else:
        click.echo("No job's wait lies over 30 s outside the range of its replays.")
    shown.causes(parity).show()
    click.echo(shown.advice(parity))


def load_site_jobs(accounting: Path, machine: Path, timezone: str | None, log: Path | None = None) -> tuple[Site, SlurmJobs]:
    """Read a site and its accounting; note on standard error what is left out or not modelled."""
    from pipelines.studies.parity import read_site_jobs

    site, jobs = read_site_jobs(accounting, machine, timezone or "UTC", log)
    for text in jobs.notes:
        note(one_line(f"{jobs.name}: {text}", _LONGEST_NOTE))
    for text in site.warnings:
        note(f"WARNING: {site.name}: {text} changes decisions and is not modelled")
    return site, jobs


@click.command()
@click.argument("accounting", type=click.Path(path_type=Path, dir_okay=False))
@options(WhatIfSettings, without={"accounting"})
@on_option
@report_option
@json_option
def whatif(settings: WhatIfSettings, on: str | None, report: Path | None, as_json: bool) -> None:
    """Say which change of the site lowers waits, by how much, and at whose cost.

    ACCOUNTING is the site's record. Candidates are settings of Slurm, limits and nodes. Each is replayed under the same
    phases of Slurm's clocks and the same shaken submissions as today's settings. A long log is cut in two: its earlier
    half chooses, its later half judges.
    """
    from pipelines.report import what_if as shown
    from pipelines.studies.what_if import records
    from sim.site.what_if import HERE

    check_outputs({"--report": report}, [*map(str, filter(None, (settings.accounting, settings.machine, settings.candidates)))])
    what_if = answered(settings, on)
    if report is not None:
        from pipelines.lake.places import write

        provenance = {
            "accounting": settings.accounting.name,
            "site": str(settings.machine),
            "replicates": settings.replicates,
            "shake": f"{what_if.shake_s} s",
            "seed": settings.seed,
        }
        write(report, shown.render_what_if(what_if, provenance))
    if as_json:
        for record in records(what_if):
            click.echo(json.dumps(record))
        click.echo(
            json.dumps(
                {
                    "answer": shown.answer(what_if),
                    "fit": {**what_if.fit, "far": what_if.far},
                    "shake_s": what_if.shake_s,
                    "replayed_mean_wait_s": what_if.replayed_s,
                }
            )
        )
        return
    click.echo("\n".join(shown.answer(what_if)))
    name = what_if.lead
    if name in what_if.better:
        click.echo(f"\nFor “{name}” (risk: {what_if.candidates[name].risk or 'not stated'})\n{shown.pasted(what_if.lines(name))}\n")
    shown.leading(what_if).show()
    if any(what_if.verdict(candidate).endswith(HERE) for candidate in what_if.effects):
        click.echo(f"{HERE.strip()}: sure of these very jobs, not of those of other days.")
    if what_if.idle:
        click.echo(f"Changes nothing here: {', '.join(what_if.idle)}.")
    click.echo("All candidates, winners and losers, and lines of what is surely better: --report PAGE.html, or --json.")
    if not what_if.far:
        click.echo(shown.near(what_if))


def answered(settings: WhatIfSettings, on: str | None = None) -> WhatIf:
    """Read a site and its record; replay its candidates at the place ``on``, and judge them."""
    from pipelines.cli.compiling import announce_compilation
    from pipelines.studies.what_if import all_candidates, measure

    tried = all_candidates(settings.machine, settings.candidates)
    names = [candidate.name for candidate in tried]
    if wrong := set(settings.only) - set(names):
        raise InputError(f"--only {min(wrong)}: no such candidate; known: {', '.join(names)}")
    only = settings.only or names
    tried = [candidate for candidate in tried if candidate.name in only]
    announce_compilation()
    site, jobs = load_site_jobs(settings.accounting, settings.machine, settings.timezone)
    with stage_bars() as progress, simulating(on) as spread:
        return measure(site, jobs, tried, settings.replicates, settings.shake_s, settings.seed, spread, progress)


@click.command()
@click.argument("accounting", type=click.Path(path_type=Path, dir_okay=False))
@options(ReplaySettings, without={"accounting"})
@click.option("--user", help="Print the text for this user.")
@on_option
@json_option
def limits(settings: ReplaySettings, user: str | None, on: str | None, as_json: bool) -> None:
    """Say which shorter time limits surely start the jobs of a user sooner.

    ACCOUNTING is the site's record. A limit is what 95 % of jobs alike keep to, as predicted at each submission. It is
    advised where at most one in twenty of at least 20 jobs of a user that ask for the same ran longer, and paired
    replays surely start them sooner. --json prints all groups, sure or not, and the text for each user, to be mailed.
    """
    from pipelines.cli.compiling import announce_compilation
    from pipelines.report.site import letter, table_of
    from pipelines.studies.what_if import advise_limits

    announce_compilation()
    site, jobs = load_site_jobs(settings.accounting, settings.machine, settings.timezone)
    with stage_bars() as progress, simulating(on) as spread:
        advice, far = advise_limits(site, jobs, settings.replicates, settings.shake_s, settings.seed, spread, progress)
    sure = [shorter for shorter in advice if shorter.sure and not far]
    if as_json:
        for shorter in advice:
            click.echo(json.dumps({**shorter._asdict(), "sure": shorter in sure, "text": letter(shorter.user, sure)}))
    elif user is not None:
        click.echo(letter(user, sure) or f"No shorter limit surely starts jobs of {user} sooner.")
    elif sure:
        table_of(sure).show()
    else:
        why = f", as the model is too far from the record ({far})" if far else ""
        click.echo(f"No shorter limit surely starts jobs sooner{why}.")


@click.command()
@click.argument("site", type=click.Path(path_type=Path), required=False)
@click.option("--commands", is_flag=True, help="Print the commands that make a site's folder.")
@click.option("--time-zone", "timezone", default="UTC", show_default=True, help="IANA time zone of the local times in the files.")
def machine(site: Path | None, commands: bool, timezone: str) -> None:
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
    from pipelines.report.table import Table
    from sim.slurm.releases import shown
    from sim.slurm.unbuilt import changing, harmless, unbuilt

    slurm_site = load_site(site, timezone)
    rows = []
    for name, part in slurm_site.partitions.items():
        limit = "none" if part.max_s > 10**9 else f"{part.max_s / 3600:,.1f}"
        rows.append([name, f"{len(part.nodes):,}", f"{part.tier}", f"{part.factor}", limit])
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
