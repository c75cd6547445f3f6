"""``queuecast parity``: how far replays of a Slurm site are from its accounting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from features.errors import one_line
from pipelines.cli.notes import note
from pipelines.cli.options import check_outputs, json_option, options, report_option
from pipelines.cli.progress import stage_bars
from pipelines.studies.questions import ParitySettings

if TYPE_CHECKING:
    from pipelines.readers.slurm.jobs import SlurmJobs
    from sim.slurm.site import Site

_LONGEST_NOTE = 600


@click.command()
@click.argument("accounting", type=click.Path(path_type=Path, dir_okay=False))
@options(ParitySettings, without={"accounting"})
@report_option
@json_option
def command(settings: ParitySettings, report: Path | None, as_json: bool) -> None:
    """Replay ACCOUNTING as the site's Slurm would schedule it, beside the record.

    Waits are compared with their range over the phases of Slurm's clocks, which no accounting records; single decisions, with
    what the rules give in the recorded state.
    """
    check_outputs({"--report": report}, [*map(str, filter(None, (settings.accounting, settings.machine, settings.log)))])
    from pipelines.cli.compiling import announce_compilation
    from pipelines.report import parity as shown
    from pipelines.studies.parity import measure
    from sim.site.causes import exports

    announce_compilation()
    timezone = settings.timezone or "UTC"
    site, jobs = load_site_jobs(settings.accounting, settings.machine, timezone, settings.cluster, settings.log)
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


def load_site_jobs(
    accounting: Path, machine: Path, timezone: str | None, cluster: str, log: Path | None = None
) -> tuple[Site, SlurmJobs]:
    """Read a site and its accounting; note on standard error what is left out or not modelled."""
    from pipelines.studies.parity import read_site_jobs

    site, jobs = read_site_jobs(accounting, machine, timezone or "UTC", cluster, log)
    for text in jobs.notes:
        note(one_line(f"{jobs.name}: {text}", _LONGEST_NOTE))
    for text in site.warnings:
        note(f"WARNING: {site.name}: {text} changes decisions and is not modelled")
    return site, jobs
