"""``queuecast campaign``: policies compared on the weeks or months of a trace.

Schedulers x predictors x corrections, resumable, with intervals over windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pandas as pd

from features.statistics import covers
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
        from pipelines.report.html import write_report
        from pipelines.storage.provenance import software

        provenance = {**identity(workload, fitted, windows, machine), "software": software()}
        page = render_campaign(table, summary, windows, provenance, notes=workload.notes)
        write_report(report, page)
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
    """Print mean bounded slowdown for each tau, and mean wait; best first.

    Means over windows, ratios to the baseline, intervals, ranks.
    """
    from pipelines.report.table import Table
    from sim.campaigns.window_comparison import POLICY
    from sim.metrics.verdict import policy_labels

    first, labels = summary.iloc[0], policy_labels(summary)
    over = f"means over {first['windows']} windows ({windows.split})" if windows.split != "whole" else "the whole trace"
    settings: Any = summary.groupby(["semantics", "starvation_s"], sort=False, dropna=False)
    for (semantics, starvation_s), part in settings:
        threshold = "" if pd.isna(starvation_s) else f", starvation after {starvation_s:,} s"
        title = f"{first['trace']}: {over}, {semantics}{threshold}" + (", a generated workload" if generated else "")
        several = first["replicates"] > 1
        caption = f"ratios to {labels[tuple(first[POLICY])]}" + (
            f", {first['replicates']} replicates" if several else ", one replay of each"
        )
        if part["low"].notna().any():
            caption += ", 95 % intervals over windows" + (" and replicates" if several else ", which leave out a schedule's chaos")
        taus = [(f"slowdown, τ {tau_s:g} s", ",.4f", tau_s, "mean_bounded_slowdown") for tau_s in part["tau_s"].unique()]
        columns = [*taus, ("mean wait s", ",.1f", part["tau_s"].iloc[0], "mean_wait_s")]
        tables = [part[(part["tau_s"] == tau_s) & (part["metric"] == metric)].set_index(POLICY) for _, _, tau_s, metric in columns]
        headings = ["policy", *(name for heading, *_ in columns for name in (heading, "ratio", "rank"))]
        rows: list[list[str]] = []
        for policy in tables[0].sort_values("mean", kind="stable").index:
            cells: list[str] = []
            for (_, form, *_), values in zip(columns, tables, strict=True):
                row = values.loc[policy]
                cells += [format(row["mean"], form), ratio_cell(row), f"{row['rank']}{' =' if row['tied'] else ''}"]
            rows.append([labels[policy], *cells])
        Table(title, headings, rows, caption).show()
        for text in part.loc[part["note"] != "", "note"].unique():
            note(text)


def ratio_cell(row: pd.Series) -> str:
    """Format a ratio with its interval in brackets, if any; a dash for no ratio."""
    if pd.isna(row["ratio"]):
        return "–"
    text = f"{row['ratio']:.3f}"
    return (
        text
        if pd.isna(row["low"]) or row["low"] == row["high"]
        else f"{text} [{row['low']:.2f}, {row['high']:.2f}]{covers(row['coverage'])}"
    )
