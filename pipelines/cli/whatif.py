"""``queuecast whatif``: what a site should change, and what it would bring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.cli.options import json_option, load, report_option, simulating
from pipelines.cli.parity import load_site_jobs
from pipelines.cli.progress import shown_progress
from sim.settings import TraceSettings

if TYPE_CHECKING:
    from pipelines.ingest.slurm_jobs import SlurmJobs
    from sim.rules.rule import Rule
    from sim.slurm.site import Site


@click.command()
@click.argument("accounting", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--machine",
    type=click.Path(path_type=Path),
    help="The site, as queuecast parity takes it. Without it a rule is inferred from the log.",
)
@click.option(
    "--procs", type=click.IntRange(min=1), help="Processors of the machine, where no --machine says it and the trace does not."
)
@click.option(
    "--candidates",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TOML of candidates of your own, tried beside the catalogue's and those of candidates.toml in the site's folder.",
)
@click.option("--only", multiple=True, help="Try only this candidate. May be repeated.")
@click.option("--slow", is_flag=True, help="Try Harm and PlanRS, too, whose replays take minutes on large sites.")
@click.option(
    "--replicates", type=click.IntRange(2, 1_000), default=8, show_default=True, help="Pairs of replays of each candidate."
)
@click.option(
    "--shake",
    "shake_s",
    type=click.IntRange(min=0),
    default=60,
    show_default=True,
    help="Seconds by which submissions move at most.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws phases and moves.")
@click.option("--time-zone", "timezone", help="IANA time zone of the local times in all files. [default: UTC]")
@click.option("--cluster", default="", help="Of accounting of several clusters: the one to read.")
@click.option("--on", help="Where replays run, as queuecast campaign takes it; by default threads here.")
@report_option
@json_option
def command(
    accounting: Path, machine: Path | None, procs: int | None, candidates: Path | None, only: tuple[str, ...], slow: bool, replicates: int, shake_s: int,
    seed: int, timezone: str | None, cluster: str, on: str | None, report: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Say which change of the site lowers waits, by how much, and at whose cost.

    ACCOUNTING is the site's record. Candidates are settings of Slurm, limits, nodes and demand. Each is replayed under the same phases of
    Slurm's clocks and the same shaken submissions as today's settings. A long log is cut in two: its earlier half chooses, its later half
    judges.

    Without --machine ACCOUNTING is any trace. The rule that it obeys is inferred as by queuecast parity, from the jobs that choose; the
    others judge, and what the rule leaves unexplained of them makes intervals wider.
    """
    from pipelines.cli.compiling import announce_compilation
    from pipelines.report import what_if as shown
    from pipelines.workflows.what_if import all_candidates, asked_of_registry, measure, records
    from sim.what_if import HERE, WEIGHED

    tried = all_candidates(machine, candidates)
    if unknown := set(only) - {each.name for each in tried}:
        raise click.UsageError(f"--only {min(unknown)}: no such candidate; known: {', '.join(each.name for each in tried)}")
    tried = [each for each in tried if (each.name in only if only else slow or not each.slow)]
    announce_compilation()
    site: Site | Rule
    if machine is None:
        site, jobs, until_s = load_rule(
            TraceSettings(trace=str(accounting), procs=procs, timezone=timezone, cluster=cluster or None)
        )
    elif procs is not None:
        raise click.UsageError(f"--machine {machine} says how many processors there are: give no --procs")
    else:
        (site, jobs), until_s = load_site_jobs(accounting, machine, timezone, cluster), None
        jobs = asked_of_registry(jobs, tried, timezone or "UTC")
    with shown_progress("replays") as progress, simulating(on) as spread:
        found = measure(
            site,
            jobs,
            tried,
            replicates,
            shake_s,
            seed,
            spread,
            progress,
            until_s,
        )
    if report is not None:
        from pipelines.report.html import write_report

        stated = {
            "accounting": accounting.name,
            "site": str(machine or "a rule inferred from the log"),
            "replicates": replicates,
            "shake": f"{shake_s} s",
            "seed": seed,
        }
        write_report(report, shown.render_what_if(found, stated))
    if as_json:
        for record in records(found):
            click.echo(json.dumps(record))
        click.echo(
            json.dumps(
                {"answer": shown.answer(found), "recorded_mean_wait_s": found.recorded_s, "replayed_mean_wait_s": found.replayed_s}
                | ({} if found.left is None else found.left.record())
            )
        )
        return
    click.echo("\n".join(shown.answer(found)))
    name = found.lead
    if name is not None and found.effects[name].metrics[WEIGHED[0]].relative < 0:
        click.echo(
            f"\nFor “{name}” (risk: {found.candidates[name].risk or 'not stated'})\n{shown.pasted(found.changes[name].lines)}\n"
        )
    shown.first(found).show()
    if any(word.endswith(HERE) for word in found.verdicts.values()):
        click.echo(f"{HERE.strip()}: sure of these very jobs, not of those of other days.")
    if found.idle:
        click.echo(f"Changes nothing here: {', '.join(found.idle)}.")
    click.echo("All candidates and metrics, winners and losers, and the lines of each: --report PAGE.html, or --json.")
    click.echo(
        f"Replays of today's settings wait {found.replayed_s:,.0f} s in the mean, the record {found.recorded_s:,.0f} s: queuecast parity says how far the "
        "model is from the record, and why."
    )


def load_rule(settings: TraceSettings) -> tuple[Rule, SlurmJobs, int]:
    """Read a trace and infer its rule; return what :func:`site_of` does."""
    from pipelines.workflows.rules import site_of

    trace = load(settings)
    with shown_progress("replays") as progress:
        return site_of(trace, lambda stage, done, of: progress(done, of))
