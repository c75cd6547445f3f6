"""``queuecast campaign``: policies compared on the weeks or months of a trace.

Schedulers x predictors x corrections, resumable, with intervals over windows.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.cli import note
from pipelines.cli.options import check_outputs, on_option, options, out_option, restart_option, simulating, workers_option
from pipelines.cli.progress import shown_progress
from sim.metrics.names import READ_FIRST
from sim.settings import Campaign

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.report.table import Table
    from pipelines.studies.campaigns import Run
    from sim.campaigns.windows import Windows


@click.command()
@click.argument("trace", default="")
@options(Campaign)
@click.option(
    "--suite",
    metavar="FILE",
    help="In place of TRACE: classic, modern, or a TOML file, such as traces = ['a.swf', 'kth-sp2'], schedulers = ['EASY', 'Harm'], loads = [1.0, 1.2], "
    "replicates = 5, shake_s = 60; options override it.",
)
@workers_option
@on_option
@out_option("Write the results to this Parquet file; an interrupted campaign resumes from the journal beside it.", required=True)
@click.option("--table", type=click.Path(path_type=Path, dir_okay=False), help="Write the tables as Markdown to this file.")
@restart_option
def campaign(
    settings: Campaign,
    suite: str | None,
    workers: int | None,
    on: str | None,
    out: Path,
    table: Path | None,
    restart: bool,
) -> None:
    """Simulate every combination of the options on every window of TRACE, and compare them.

    TRACE is a name of the catalogue, an SWF file (plain or .gz), a canonical Parquet file or a Slurm accounting file.
    The first scheduler with the first predictor is the baseline. With --suite this is done on several traces, each as
    the catalogue says, and the comparisons are pooled.
    """
    from pipelines.cli.simulation import tell_of_prior
    from pipelines.report.comparison import write_tables
    from pipelines.studies.campaigns import resumable_campaign
    from sim.campaigns.results import nothing_waited, over_windows

    campaigns = campaigns_of(suite, settings)
    check_outputs({"--out": out, "--table": table}, [campaign.trace for campaign in campaigns])
    tell_of_prior(campaigns[0].schedulers, campaigns[0].predictors)
    runs = [run_of(campaign) for campaign in campaigns]
    with simulating(on, workers) as map_points, shown_progress() as progress:
        results = resumable_campaign(out, runs, restart=restart, map_points=map_points, progress=progress)
    note(f"wrote {out}: {len(results):,} rows")
    summary = over_windows(results)
    if suite:
        from sim.campaigns.results import over_traces

        pooled = over_traces(summary, {run.label: run.campaign.submissions.label(Path(suite).stem) for run in runs})
        generated = any(run.workload.generated for run in runs)
        shown = print_summary(pooled, generated, settings.windows)
        click.echo("".join(f"{sentence}.\n" for sentence in ranks_of(pooled)))
    else:
        workload, windows = runs[0].workload, runs[0].windows
        shown = print_summary(summary, workload.generated, windows.split)
        if sentence := nothing_waited(summary, workload.procs):
            note(f"{workload.name}: {sentence}")
    if table is not None:
        write_tables(table, shown)
        note(f"wrote {table}")


def campaigns_of(suite: str | None, settings: Campaign) -> list[Campaign]:
    """Return the campaigns of a trace or a suite; options in ``asked`` override the suite."""
    if bool(suite) == bool(settings.trace):
        raise click.UsageError("give a TRACE, or --suite")
    if not suite:
        return [settings]
    from pipelines.studies.campaigns import suite_of

    replaced = {name: getattr(settings, name) for name in settings.model_fields_set - {"trace"}}
    read = suite_of(suite, replaced)
    return [campaign for trace in read.traces for campaign in read.campaigns(trace)]


def run_of(campaign: Campaign) -> Run:
    """Read and clean the trace of a campaign; return the campaign with it and its windows."""
    from pipelines.cli.simulation import prepared
    from pipelines.studies.campaigns import Run
    from sim.campaigns.campaign import check_once, windows_of

    check_once(campaign)
    workload, predictors = prepared(campaign)
    windows = windows_of(workload.jobs, campaign)
    tell_windows(windows)
    return Run(workload, campaign.model_copy(update={"predictors": predictors}), windows)


def tell_windows(windows: Windows) -> None:
    """Report the windows of the trace on standard error."""
    if windows.split == "whole":
        return
    kept = sum(len(window.jobs) for window in windows.windows)
    dropped = ", ".join(f"{rule} {count:,}" for rule, count in windows.counts().items()) or "none"
    note(f"{len(windows.windows)} windows of {kept:,} jobs ({windows.split}); jobs dropped: {dropped}; judged by {windows.basis}")
    if windows.empty:
        note(f"windows without jobs: {', '.join(map(str, windows.empty))}")


def print_summary(summary: pd.DataFrame, generated: bool, split: str) -> list[Table]:
    """Print the tables of a comparison, with verdicts; return them."""
    from pipelines.report.comparison import summary_tables
    from sim.campaigns.results import by_setting
    from sim.metrics.verdict import verdict

    tables = summary_tables(summary, generated, split)
    for table, part in zip(tables, by_setting(summary), strict=True):
        table.show()
        click.echo(f"\n{verdict(part).text}\n")
        if part["replicates"].max() == 1 and "traces" not in part:
            note("one replay of each makes nothing sure: --replicates 10 --shake measures how far replays differ")
        for text in part.loc[part["note"] != "", "note"].unique():
            note(text)
    return tables


def ranks_of(pooled: pd.DataFrame) -> list[str]:
    """Return mean ranks by slowdown in words, one sentence per load and setting."""
    from sim.campaigns.results import by_setting
    from sim.metrics.verdict import policy_labels
    from sim.policy import NAMES

    sentences = []
    for part in by_setting(pooled[pooled["metric"] == READ_FIRST[0]]):
        labels, load = policy_labels(part), part["trace"].iloc[0]
        rows = part.sort_values("rank").to_dict("records")
        ranks = ", ".join(f"{labels[tuple(row[name] for name in NAMES)]} {row['rank']:.1f}" for row in rows)
        sentences.append(f"{load}: mean ranks by slowdown: {ranks}")
    return sentences
