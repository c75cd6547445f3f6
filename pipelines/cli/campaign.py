"""``queuecast campaign``: policies compared on the weeks or months of a trace.

Schedulers x predictors x corrections, resumable, with intervals over windows.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pandas as pd

from features.statistics import FEWEST_BLOCKS
from pipelines.cli.notes import note
from pipelines.cli.options import (
    check_outputs,
    on_option,
    options,
    out_option,
    report_option,
    restart_option,
    simulating,
    workers_option,
)
from pipelines.cli.progress import shown_progress
from pipelines.cli.simulate import prepared, table_files
from sim.campaigns.campaign import check_once, windows_of
from sim.campaigns.windows import Windows
from sim.metrics.formats import change, interval
from sim.metrics.names import METRICS, READ_FIRST
from sim.policy import NAMES
from sim.settings import Campaign


@click.command()
@click.argument("trace")
@options(Campaign)
@workers_option
@on_option
@out_option("Write the results to this Parquet file; an interrupted campaign resumes from the journal beside it.", required=True)
@report_option
@restart_option
def command(asked: Campaign, workers: int | None, on: str | None, out: Path, report: Path | None, restart: bool) -> None:
    """Simulate every combination of the options on every window of TRACE, and compare them.

    TRACE is a name of the catalogue, an SWF file (plain or .gz), a canonical Parquet file or a Slurm accounting file. The first
    scheduler with the first predictor is the baseline.
    """
    from pipelines.workflows.campaigns import identity, resumable_campaign
    from sim.campaigns.window_comparison import nothing_waited, over_windows

    check_outputs({"--out": out, "--report": report}, [asked.trace, *table_files(asked.predictors)])
    check_once(asked)
    workload, machine, predictors = prepared(asked)
    windows = windows_of(workload.jobs, asked)
    tell_windows(windows)
    fitted = asked.model_copy(update={"predictors": predictors})
    with simulating(on, workers) as map_points, shown_progress() as progress, told_how_to_go_on():
        table = resumable_campaign(
            out, workload, fitted, windows, machine=machine, restart=restart, map_points=map_points, progress=progress
        )
    note(f"wrote {out}: {len(table):,} rows")
    summary = over_windows(table)
    print_summary(summary, windows, workload.generated)
    if sentence := nothing_waited(summary, workload.procs):
        note(f"{workload.name}: {sentence}")
    if report is not None:
        from pipelines.report.campaign import render_campaign
        from pipelines.report.html import data_of, write_report
        from pipelines.storage.provenance import software

        provenance = {**identity(workload, fitted, windows, machine), "software": software()}
        page = render_campaign(table, summary, windows, provenance, notes=workload.notes, data=data_of(report))
        write_report(report, page, summary)
        note(f"wrote {report}")


def tell_windows(windows: Windows) -> None:
    """Report the windows of the trace on standard error."""
    if windows.split == "whole":
        return
    kept = sum(len(window.jobs) for window in windows.windows)
    dropped = ", ".join(f"{rule} {count:,}" for rule, count in windows.counts().items()) or "none"
    note(f"{len(windows.windows)} windows of {kept:,} jobs ({windows.split}); jobs dropped: {dropped}; judged by {windows.basis}")
    if windows.empty:
        note(f"windows without jobs: {', '.join(map(str, windows.empty))}")


@contextmanager
def told_how_to_go_on() -> Iterator[None]:
    """Tell on interruption that the campaign can be resumed."""
    try:
        yield
    except KeyboardInterrupt:
        note("run the same command to resume")
        raise


def print_summary(summary: pd.DataFrame, windows: Windows, generated: bool) -> None:
    """Print the metrics that are read first, lowest slowdown first, and a verdict.

    A table for each semantics, threshold and tau. Means over windows, with changes to the baseline and their intervals.
    """
    from pipelines.report.table import Table
    from sim.campaigns.window_comparison import as_changes
    from sim.metrics.verdict import policy_labels, verdict

    over = f"means over {summary['windows'].iloc[0]} windows ({windows.split})" if windows.split != "whole" else "the whole trace"
    for (semantics, starvation_s, tau_s), part in as_changes(summary).items():
        weighed, labels = verdict(part), policy_labels(part)
        at = {(tuple(row[name] for name in NAMES), row["metric"]): row for row in part.to_dict("records")}
        threshold = "" if pd.isna(starvation_s) else f", starvation after {starvation_s:,} s"
        title = f"{part['trace'].iloc[0]}: {over}, {semantics}{threshold}, tau {tau_s:g} s" + (
            ", a generated workload" if generated else ""
        )
        replays = int(part["replicates"].iloc[0])
        caption = f"changes against {labels[weighed.baseline]}, " + (
            f"{replays} replicates" if replays > 1 else "one replay of each"
        )
        if part["low"].notna().any():
            weeks = int(part["windows"].iloc[0]) >= FEWEST_BLOCKS
            over_what = "windows and replicates" if replays > 1 and weeks else "replicates" if replays > 1 else "windows"
            caption += f", 95 % intervals over {over_what}" + ("" if replays > 1 else ", which leave out a schedule's chaos")
        order = sorted(labels, key=lambda key: at[key, READ_FIRST[0]]["value"])
        rows = [[labels[key], *(_cell(at[key, name], key == weighed.baseline) for name in READ_FIRST)] for key in order]
        Table(title, ["policy", *(METRICS[name].short for name in READ_FIRST)], rows, caption).show()
        click.echo(f"\n{weighed.text}\n")
        for text in part.loc[part["note"] != "", "note"].unique():
            note(text)


def _cell(row: Mapping[Any, Any], baseline: bool) -> str:
    """Format a mean and, but for the baseline, its change with its interval, if any."""
    mean = format(row["value"], METRICS[row["metric"]].form)
    return mean if baseline else f"{mean}  {change(row['relative'])} {interval(row['low'], row['high'], row['coverage'])}".rstrip()
