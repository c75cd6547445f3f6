"""The page of a campaign: the best policies over the windows, and their cost."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from features.statistics import CONFIDENCE, FEWEST_BLOCKS
from pipelines.report.page import Front, render
from pipelines.report.plots import picture_of_changes
from pipelines.report.style import looks
from pipelines.report.table import Table
from pipelines.report.tables import interval_notes, intervals_hint, leading, metric_table
from pipelines.report.wording import kind_of_jobs, not_modelled
from sim.campaigns.window_comparison import as_changes, nothing_waited
from sim.campaigns.windows import NONE, Windows
from sim.metrics.formats import change, interval, sentence
from sim.metrics.names import METRICS, READ_FIRST
from sim.metrics.verdict import policy_labels, verdict
from sim.policy import NAMES

_RULES = {
    "first-window": "submitted in the first window, taken for a test period",
    "crosses-windows": "started in one window and ended in another",
}


def render_campaign(
    table: pd.DataFrame,
    summary: pd.DataFrame,
    windows: Windows,
    provenance: Mapping[str, object],
    notes: Sequence[str] = (),
    data: str = "",
) -> str:
    """Return the page of a campaign; reads no files.

    ``table`` comes from :func:`sim.campaigns.campaign.run_campaign` on ``windows``, ``summary`` from
    :func:`sim.campaigns.window_comparison.over_windows`, and ``data`` is the file beside the page with its rows; ``provenance``
    and ``notes`` are printed in their order.
    """
    first = table.iloc[0]
    generated = bool(table["generated"].any())
    settings = {setting: _setting(rows, generated) for setting, rows in as_changes(summary).items()}
    (lead, *_), no_wait_text = settings.values(), sentence(nothing_waited(summary, int(first["procs"])))
    return render(
        "campaign.html.j2",
        Front(
            title=f"{first['trace']}: policies compared {f'over the {windows.split}' if windows.split != 'whole' else 'on the whole trace'}",
            answer=[no_wait_text] if no_wait_text else lead.answer,
            table=lead.table,
            hint=f"{lead.title}. {lead.hint}",
            picture=lead.picture,
            data=data,
            generated="campaign" if generated else "",
            facts=[
                (f"{len(windows.windows):,}", windows.split if windows.split != "whole" else "window, the whole trace"),
                (f"{sum(len(window.jobs) for window in windows.windows):,}", f"jobs in them{kind_of_jobs(generated)}"),
                (f"{first['procs']:,}", "processors"),
                (f"{len(policy_labels(summary)):,}", "policies"),
                (f"{len(table) // table['tau_s'].nunique():,}", "simulations"),
            ],
            notes=[*notes, *interval_notes(summary), not_modelled(first["machine"])],
            provenance=provenance,
        ),
        others=[each for each in settings.values() if each is not lead],
        windows=windows,
        dropped=_dropped(windows),
        kept_rule=windows.drop == NONE,
    )


def render_suite(
    pooled: pd.DataFrame,
    summary: pd.DataFrame,
    name: str,
    ranks: Sequence[str],
    provenance: Mapping[str, object],
    generated: bool = False,
    data: str = "",
) -> str:
    """Return the page of a suite: the best policies over all its traces, and on each.

    ``pooled`` comes from :func:`sim.campaigns.pooling.over_traces` of ``summary``; ``ranks`` are sentences. Otherwise as :func:`render_campaign`.
    """
    fronts = [
        _setting(rows, generated, f"{part}: ", over)
        for table, over in ((pooled, "traces"), (summary, ""))
        for part, of_part in table.groupby("trace", sort=False)
        for rows in as_changes(of_part).values()
    ]
    traces = pooled["traces"].max()
    return render(
        "campaign.html.j2",
        replace(
            fronts[0],
            title=f"{name}: policies compared on {traces} traces",
            data=data,
            generated="suite, or a part of it," if generated else "",
            facts=[(traces, "traces"), (pooled["trace"].nunique(), "loads"), (f"{len(policy_labels(pooled)):,}", "policies")],
            notes=[*ranks, *interval_notes(pooled)],
            provenance=provenance,
        ),
        others=fronts[1:],
        windows=None,
    )


def _setting(rows: pd.DataFrame, generated: bool, of: str = "", over: str = "") -> Front:
    """Return the front of a page for one semantics and threshold, pooled ``over`` something or not."""
    weighed = verdict(rows)
    first, drawn = leading(rows, weighed), looks(rows[list(NAMES)].itertuples(index=False, name=None))
    base, start = drawn[weighed.baseline].label, rows.iloc[0]
    threshold = "no starvation threshold" if pd.isna(start["starvation_s"]) else f"starvation threshold {start['starvation_s']:,} s"
    semantics = start["semantics"] if of else start["semantics"].capitalize()
    windows = "windows" if int(start["windows"]) >= FEWEST_BLOCKS else ""
    return Front(
        title=f"{of}{semantics}, {threshold}, τ of bounded slowdown {start['tau_s']:g} s",
        answer=weighed.sentences,
        table=metric_table(rows, drawn, first, weighed),
        hint=intervals_hint(rows, base, CONFIDENCE, over or windows, not over),
        picture=picture_of_changes(rows, first, generated, drawn),
    )


def summary_tables(summary: pd.DataFrame, generated: bool, split: str) -> list[Table]:
    """Return tables of the metrics that are read first.

    Each trace, semantics, threshold and tau has a table: means, changes from the baseline and their intervals. ``summary`` is
    pooled over traces, or over windows of a ``split``.
    """
    tables = []
    for trace, of_trace in summary.groupby("trace", sort=False):
        over, caption = _means_and_intervals(of_trace, generated, split)
        for (semantics, starvation_s, tau_s), part in as_changes(of_trace).items():
            base, labels = verdict(part).baseline, policy_labels(part)
            at = {(tuple(row[name] for name in NAMES), row["metric"]): row for row in part.to_dict("records")}
            threshold = "" if pd.isna(starvation_s) else f", starvation after {starvation_s:,} s"
            order = sorted(labels, key=lambda key: at[key, READ_FIRST[0]]["value"])
            rows = [[labels[key], *(_cell(at[key, name], key == base) for name in READ_FIRST)] for key in order]
            title = f"{trace}: {over}, {semantics}{threshold}, tau {tau_s:g} s"
            against = f"changes against {labels[base]}, {caption}"
            tables.append(Table(title, ["policy", *(METRICS[name].short for name in READ_FIRST)], rows, against))
    return tables


def _means_and_intervals(summary: pd.DataFrame, generated: bool, split: str) -> tuple[str, str]:
    """Return in words what means and intervals of a trace or a suite's load are taken over."""
    if "traces" in summary:
        over = f"geometric means over {summary['traces'].max()} traces"
        return over + (", some of generated workloads" if generated else ""), "95 % intervals over traces"
    windows, replays = int(summary["windows"].iloc[0]), int(summary["replicates"].iloc[0])
    over, caption = f"means over {windows} windows ({split})" if split != "whole" else "the whole trace", "one replay of each"
    caption = f"{replays} replicates" if replays > 1 else caption
    if summary["low"].notna().any():
        several = "windows and replicates" if windows >= FEWEST_BLOCKS else "replicates"
        caption += f", 95 % intervals over {several if replays > 1 else 'windows'}" + (
            "" if replays > 1 else ", which leave out a schedule's chaos"
        )
    return over + (", a generated workload" if generated else ""), caption


def _cell(row: Mapping[Any, Any], baseline: bool) -> str:
    """Format a mean and, except for the baseline, its change with its interval, if any."""
    mean = format(row["value"], METRICS[row["metric"]].form)
    return mean if baseline else f"{mean}  {change(row['relative'])} {interval(row['low'], row['high'], row['coverage'])}".rstrip()


def _dropped(windows: Windows) -> Table:
    rows = [(rule, _RULES[rule], f"{count:,}") for rule, count in windows.counts().items()]
    return Table("Jobs left out", ["rule", "meaning", "jobs"], rows, left=["meaning"])
