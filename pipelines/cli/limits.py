"""``queuecast limits``: shorter time limits that start the jobs of users sooner."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pipelines.cli.options import json_option, on_option, options, simulating
from pipelines.cli.parity import load_site_jobs
from pipelines.cli.progress import stage_bars
from pipelines.studies.questions import ReplaySettings


@click.command()
@click.argument("accounting", type=click.Path(path_type=Path, dir_okay=False))
@options(ReplaySettings, without={"accounting"})
@click.option("--user", help="Print the text for this user.")
@on_option
@json_option
def command(settings: ReplaySettings, user: str | None, on: str | None, as_json: bool) -> None:
    """Say which shorter time limits surely start the jobs of a user sooner.

    ACCOUNTING is the site's record. A limit is what 95 % of jobs alike keep to, as predicted at each submission. It is advised
    where at most one in twenty of at least 20 jobs of a user that ask for the same ran longer, and paired replays surely start
    them sooner. --json prints all groups, sure or not, and the text for each user, to be mailed.
    """
    from pipelines.cli.compiling import announce_compilation
    from pipelines.report.limits import letter, misses, table_of
    from pipelines.studies.what_if import advise_limits

    announce_compilation()
    site, jobs = load_site_jobs(settings.accounting, settings.machine, settings.timezone, settings.cluster)
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
        click.echo(f"No shorter limit surely starts jobs sooner{why}: {misses(advice, jobs.table)}.")
