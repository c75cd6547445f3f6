"""``queuecast whatif``: changes that a site should make, and their effects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from features.errors import InputError
from pipelines.cli.options import check_outputs, json_option, on_option, options, report_option, simulating
from pipelines.cli.parity import load_site_jobs
from pipelines.cli.progress import stage_bars
from pipelines.studies.questions import WhatIfSettings

if TYPE_CHECKING:
    from pipelines.studies.what_if import WhatIf


@click.command()
@click.argument("accounting", type=click.Path(path_type=Path, dir_okay=False))
@options(WhatIfSettings, without={"accounting"})
@on_option
@report_option
@json_option
def command(settings: WhatIfSettings, on: str | None, report: Path | None, as_json: bool) -> None:
    """Say which change of the site lowers waits, by how much, and at whose cost.

    ACCOUNTING is the site's record. Candidates are settings of Slurm, limits and nodes. Each is replayed under the same phases of
    Slurm's clocks and the same shaken submissions as today's settings. A long log is cut in two: its earlier half chooses, its later half
    judges.
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
    site, jobs = load_site_jobs(settings.accounting, settings.machine, settings.timezone, settings.cluster)
    with stage_bars() as progress, simulating(on) as spread:
        return measure(site, jobs, tried, settings.replicates, settings.shake_s, settings.seed, spread, progress)
