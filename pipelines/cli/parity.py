"""``queuecast parity``: how far replays of a Slurm site are from its accounting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from features.errors import InputError, one_line
from pipelines.cli.notes import note
from pipelines.cli.options import json_option
from pipelines.cli.progress import shown_progress
from pipelines.report.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.ingest.slurm_jobs import SlurmJobs
    from sim.slurm.site import Site

_LONGEST_NOTE = 600


@click.command()
@click.argument("accounting", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--machine",
    type=click.Path(path_type=Path),
    required=True,
    help="The site: a folder or tar with slurm.conf and what queuecast machine --commands lists, or slurm.conf alone.",
)
@click.option(
    "--replays", type=click.IntRange(2, 10_000), default=40, show_default=True, help="Replays, each with phases of its own."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws the phases.")
@click.option("--time-zone", "timezone", default="UTC", show_default=True, help="IANA time zone of the local times in all files.")
@click.option("--cluster", default="", help="Of accounting of several clusters: the one to read.")
@click.option(
    "--log",
    type=click.Path(path_type=Path, dir_okay=False),
    help="slurmctld's log of the same time: the phases are its.",
)
@json_option
def command(
    accounting: Path, machine: Path, replays: int, seed: int, timezone: str, cluster: str, log: Path | None, as_json: bool
) -> None:
    """Replay ACCOUNTING as the site's Slurm would schedule it, beside the record.

    Waits are compared with their range over the phases of Slurm's clocks, which no accounting holds; single decisions with what the
    rules give in the recorded state; and each rule that the site uses is left out once, to show what the figures can see.
    """
    from pipelines.cli.compiling import announce_compilation
    from pipelines.ingest.slurmctld_log import read_phases
    from sim.parity import BY, by_group, decisions, open_replays, unexplained, without

    announce_compilation()
    site, jobs = load_site_jobs(accounting, machine, timezone, cluster)
    phases = None if log is None else read_phases(log, site, jobs.table, timezone)
    with shown_progress("replays") as progress:
        made = open_replays(site, jobs.table, replays, seed, progress, phases)
    if lost := jobs.table["job_id"][made.lost].tolist():
        if not made.starts.any():
            raise InputError(f"{accounting}: no job starts on the site's nodes: its files do not have what the jobs ask for")
        note(
            f"WARNING: {len(lost):,} jobs do not start in every replay, the first are {', '.join(lost[:5])}: the site's files have no node "
            "for them, or a limit below what they ask for; figures leave them out"
        )
    asked = decisions(site, jobs.table, seed)
    with shown_progress("rules left out") as progress:
        left_out = without(site, jobs.table, max(replays // 2, 2), seed, progress=progress)
    summary = {"trace": jobs.name, "machine": site.name, "replays": replays, **made.summary(), **asked.summary()}
    if as_json:
        rules = left_out.set_index("rule").to_dict("index")
        click.echo(
            json.dumps({**summary, "without": rules, "not_modelled": list(site.not_modelled), "warnings": list(site.warnings)})
        )
        return
    _print_summary(summary, jobs)
    for by in BY:
        table = by_group(jobs.table, made, by)
        if len(table) > 1:
            _waits(table, f"Mean waits by {by}").show()
    _left_out(left_out, summary).show()
    rows = unexplained(jobs.table, made)
    if len(rows):
        _unexplained(rows).show()
    else:
        click.echo("No job's wait lies over 30 s outside the range of its replays.")


def load_site_jobs(accounting: Path, machine: Path, timezone: str | None, cluster: str) -> tuple[Site, SlurmJobs]:
    """Read a site and its accounting; say on standard error what is left out or not modelled."""
    from pipelines.ingest.slurm_jobs import read_slurm_jobs
    from pipelines.ingest.slurm_site import load_site

    site = load_site(machine, timezone or "UTC")
    jobs = read_slurm_jobs(accounting, site, timezone or "UTC", cluster)
    for text in jobs.notes:
        note(one_line(f"{jobs.name}: {text}", _LONGEST_NOTE))
    for text in site.warnings:
        note(f"WARNING: {site.name}: {text} changes decisions and is not modelled")
    if unknown := set(jobs.table["qos"]) - set(site.qos):
        raise InputError(
            f"{accounting}: names the QOS {min(unknown)}, which the site's qos.txt does not; known: {', '.join(site.qos)}"
        )
    if unknown := {each for text in set(jobs.table["partition"]) for each in text.split(",")} - set(site.partitions):
        raise InputError(
            f"{accounting}: names the partition {min(unknown)}, which slurm.conf does not: is it newer than the jobs? known: {', '.join(site.partitions)}"
        )
    return site, jobs


def _print_summary(summary: dict[str, object], jobs: SlurmJobs) -> None:
    """Print in two sentences whether the record lies in the range of replays, and how often decisions agree."""
    recorded, mean, low, high = (float(str(summary[name])) for name in ("recorded_mean_wait_s", "mean_wait_s", "low_s", "high_s"))
    lies = "inside" if low <= recorded <= high else "outside"
    click.echo(
        f"{jobs.name}: {summary['jobs']:,} jobs waited {recorded:,.1f} s in the mean; {summary['replays']} replays give {mean:,.1f} s "
        f"[{low:,.1f}, {high:,.1f}] ({mean / recorded - 1:+.1%}): the record lies {lies} the range that the phases of Slurm's clocks make."
        if recorded
        else f"{jobs.name}: no job waited; {summary['replays']} replays give {mean:,.1f} s."
    )
    click.echo(
        f"{summary['within_1_s']:.0%} of starts lie within 1 s of the record, {summary['within_5_s']:.0%} within 5 s, "
        f"{summary['within_30_s']:.0%} within 30 s. From the recorded states, {summary['decisions']:.1%} of the starts are decided "
        f"as recorded, and {summary['decisions_extra']:.1%} as many that did not happen."
    )


def _waits(table: pd.DataFrame, title: str) -> Table:
    rows: list[list[str]] = [
        [
            str(row["value"]),
            f"{row['jobs']:,}",
            f"{row['recorded_s']:,.0f}",
            f"{row['mean_s']:,.0f}",
            f"{row['low_s']:,.0f} to {row['high_s']:,.0f}",
            "outside" if row["outside"] else "",
        ]
        for row in table.to_dict("records")
    ]
    return Table(title, [title.rpartition(" ")[2], "jobs", "recorded s", "replayed s", "range s", "record"], rows)


def _left_out(table: pd.DataFrame, summary: dict[str, object]) -> Table:
    rows = [
        [
            "(none)",
            f"{summary['mean_wait_s']:,.1f}",
            f"{summary['low_s']:,.1f} to {summary['high_s']:,.1f}",
            f"{summary['within_5_s']:.0%}",
        ]
    ]
    for row in table.to_dict("records"):
        span = f"{row['low_s']:,.1f} to {row['high_s']:,.1f}"
        rows.append([row["rule"], f"{row['mean_wait_s']:,.1f}", span, f"{row['within_5_s']:.0%}"])
    return Table("What each rule contributes: replays without it", ["left out", "mean wait s", "range s", "within 5 s"], rows)


def _unexplained(rows: pd.DataFrame) -> Table:
    cells = [
        [
            row["job_id"],
            row["user"],
            row["partition"],
            f"{row['recorded_s']:,.0f}",
            f"{row['low_s']:,.0f} to {row['high_s']:,.0f}",
            row["why"],
        ]
        for row in rows.to_dict("records")
    ]
    return Table(
        "Waits that no replay has",
        ["job", "user", "partition", "recorded s", "range s", "what may explain it"],
        cells,
        left=["what may explain it"],
    )
