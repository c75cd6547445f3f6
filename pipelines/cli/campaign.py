"""``queuecast campaign``: policies compared on the weeks or months of a trace.

Schedulers x predictors x corrections, resumable, with intervals over windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pandas as pd

from features.statistics import covers
from pipelines.cli.options import (
    POLICIES,
    REGISTERED,
    Finite,
    check_outputs,
    load,
    load_machine,
    load_option,
    machine_option,
    note,
    on_option,
    shake_option,
    simulating,
    squeeze_option,
    trace_options,
    users_option,
    without_policies,
)
from pipelines.cli.progress import shown_progress
from pipelines.cli.simulate import fitted, say_dependencies, say_users, table_files
from sim.campaigns.campaign import Campaign, check_policies
from sim.campaigns.windows import CROSSING, DROP_RULES, LENGTHS_S, Windows, split_windows
from sim.metrics.schedule_metrics import TAU_S


class Starvation(click.ParamType):
    """Seconds, or ``none``."""

    name = "seconds|none"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> int | None:
        if value is None or value == "none":
            return None
        return click.IntRange(min=0).convert(value, param, context)


@click.command()
@click.argument("trace")
@trace_options
@machine_option
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    default=("EASY",),
    show_default=True,
    help=f"[ORDER-]ALGORITHM[-BACKFILLORDER]; may be repeated, like all options below. The first, with the first predictor, is the baseline. {POLICIES}",
)
@click.option("--predictor", "predictors", multiple=True, default=("requested",), show_default=True, help=REGISTERED)
@click.option("--correction", "corrections", multiple=True, default=("requested",), show_default=True)
@click.option(
    "--semantics",
    multiple=True,
    default=("per-second",),
    show_default=True,
    help="per-second or per-event, with options as in per-second(expiry=pass,every=30).",
)
@click.option(
    "--starvation",
    "starvation_s",
    multiple=True,
    type=Starvation(),
    default=("none",),
    show_default=True,
    help="Seconds of waiting after which a job goes to the head of the queue, or none.",
)
@click.option(
    "--dependencies",
    is_flag=True,
    help="Submit a job that names a preceding job (SWF field 17) of its window when that has ended and the think time (field 18) is over.",
)
@click.option(
    "--seed",
    "seeds",
    multiple=True,
    type=click.IntRange(min=0),
    default=(0,),
    show_default=True,
    help="Seed of the shake, of schedulers that draw (Harm, Rollout, PlanRS), and of random predictors (lightgbm, quantile): each seed is a replicate.",
)
@click.option("--replicates", type=click.IntRange(min=1), help="The seeds 0 to one less than this, instead of --seed.")
@users_option
@load_option
@squeeze_option
@shake_option
@click.option(
    "--tau",
    "taus_s",
    multiple=True,
    type=Finite(),
    default=(TAU_S,),
    show_default=True,
    help="Bound of the bounded slowdown, seconds.",
)
@click.option(
    "--windows",
    "split",
    type=click.Choice(list(LENGTHS_S)),
    default="whole",
    show_default=True,
    help="Simulate the trace whole, or each week (7 days) or month (30 days) of submissions separately.",
)
@click.option("--keep-first", is_flag=True, help="Keep the first window, which is otherwise left out as a test period.")
@click.option(
    "--drop-rule",
    type=click.Choice(DROP_RULES),
    default=CROSSING,
    show_default=True,
    help="Leave out jobs whose recorded start and end lie in different windows, or none.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), help="Threads; 1 where simulate_s is to be the simulation alone. [default: one a core]"
)
@on_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Write the results to this Parquet file; an interrupted campaign resumes from the journal beside it.",
)
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), help="Also write a page with tables and figures to this HTML file."
)
@click.option("--restart", is_flag=True, help="Discard the journal of an interrupted campaign.")
def command(
    trace: str,
    procs: int | None,
    timezone: str | None,
    missing_request: str | None,
    machine_file: Path | None,
    schedulers: tuple[str, ...],
    predictors: tuple[str, ...],
    corrections: tuple[str, ...],
    semantics: tuple[str, ...],
    starvation_s: tuple[int | None, ...],
    dependencies: bool,
    seeds: tuple[int, ...],
    replicates: int | None,
    users: str,
    load_by: float,
    squeeze: float,
    shake_s: int,
    taus_s: tuple[float, ...],
    split: str,
    keep_first: bool,
    drop_rule: str,
    workers: int | None,
    on: str | None,
    out: Path,
    report: Path | None,
    restart: bool,
) -> None:
    """Simulate every combination of the options on every window of TRACE, and compare them.

    TRACE is a name of the catalogue, an SWF file (plain or .gz), a canonical Parquet file or a Slurm accounting file.
    """
    from pipelines.workflows.campaigns import identity, resumable_campaign
    from sim.campaigns.window_comparison import nothing_waited, over_windows

    check_outputs({"--out": out, "--report": report}, [trace, *table_files(predictors)])
    if replicates is not None and seeds != (0,):
        raise click.UsageError("--replicates and --seed exclude each other")
    drawn = seeds if replicates is None else tuple(range(replicates))
    schedulers = without_policies(schedulers)
    named = Campaign(
        schedulers, predictors, corrections, semantics, starvation_s, drawn, taus_s, dependencies, shake_s, users, load_by, squeeze
    )
    machine = load_machine(machine_file, procs)
    workload = load(trace, procs, timezone, missing_request, machine)
    check_policies(workload.jobs, named, workload.procs, machine)  # before anything is fitted
    if dependencies:
        say_dependencies(workload)
    say_users(workload, users)
    windows = split_windows(workload.jobs, split, skip_first=not keep_first, drop=drop_rule)
    tell_windows(windows)
    chosen = tuple(fitted(name, workload) for name in predictors)
    asked = replace(named, predictors=chosen)
    with simulating(on, workers) as map_points, shown_progress() as progress, told_how_to_go_on():
        table = resumable_campaign(
            out, workload, asked, windows, machine=machine, restart=restart, map_points=map_points, progress=progress
        )
    note(f"wrote {out}: {len(table):,} rows")
    summary = over_windows(table)
    print_summary(summary, windows, workload.generated)
    if said := nothing_waited(summary, workload.procs):
        note(f"{workload.name}: {said}")
    if report is not None:
        from pipelines.report.campaign import render_campaign
        from pipelines.report.html import write_report
        from pipelines.storage.provenance import software

        provenance = {**identity(workload, asked, windows, machine), "software": software()}
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
    from sim.campaigns.window_comparison import POLICY, policy_labels

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
