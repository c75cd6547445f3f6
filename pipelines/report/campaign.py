"""The page of a campaign: settings, means over windows by tau, and figures by window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from features.statistics import covers
from pipelines.report import campaign_plots
from pipelines.report.page import data_uri, stated, template
from pipelines.report.table import Cell, Row, Table
from pipelines.report.wording import kind_of_jobs, not_modelled, tone
from sim.campaigns.window_comparison import POLICY, nothing_waited
from sim.campaigns.windows import NONE, Windows
from sim.metrics.formats import number, sentence
from sim.metrics.names import METRICS
from sim.metrics.verdict import policy_labels

_BESIDE = ("mean_wait_s", "awf_s", "p2sf_s", "utilization")
"""Metrics independent of tau, printed once beside the mean bounded slowdowns."""
_MOST = 40
"""Max policies printed and drawn, the best by mean bounded slowdown; the page says how many it leaves out."""
_UNITS = {"weeks": "week", "months": "month of 30 days", "whole": "whole trace"}
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
    confidence: float = 0.95,
) -> str:
    """Return the page of a campaign, from values alone.

    ``table`` comes from :func:`sim.campaigns.campaign.run_campaign` on ``windows``, ``summary`` from
    :func:`sim.campaigns.window_comparison.over_windows` at ``confidence``; ``provenance`` and ``notes`` are printed in their
    order.
    """
    labels = policy_labels(summary)
    base = labels[next(summary[POLICY].itertuples(index=False, name=None))]
    first = table.iloc[0]
    generated = bool(table["generated"].any())
    unit = _UNITS[windows.split]
    settings = _settings(table, summary, labels, base, unit, generated)
    return template("campaign.html.j2").render(
        trace=first["trace"],
        generated=generated,
        unit=unit,
        facts=[
            (f"{len(windows.windows):,}", windows.split if windows.split != "whole" else "window, the whole trace"),
            (f"{sum(len(window.jobs) for window in windows.windows):,}", f"jobs in them{kind_of_jobs(generated)}"),
            (f"{first['procs']:,}", "processors"),
            (f"{len(labels):,}", "policies"),
            (f"{len(table) // table['tau_s'].nunique():,}", "simulations"),
        ],
        baseline=base,
        common=_common(summary),
        confidence=f"{100 * confidence:g}",
        replicates=int(summary["replicates"].min()),
        has_intervals=bool((summary["low"].notna() & (summary["low"] != summary["high"])).any()),
        windows=windows,
        settings=settings,
        tau=f"{summary['tau_s'].iloc[0]:g}",
        notes=[
            *filter(None, [sentence(nothing_waited(summary, int(first["procs"])))]),
            *notes,
            *_remarks(summary),
            not_modelled(first["machine"]),
        ],
        dropped=_dropped(windows),
        kept_rule=windows.drop == NONE,
        provenance=stated(provenance),
    )


def _dropped(windows: Windows) -> Table:
    rows = [(rule, _RULES[rule], f"{count:,}") for rule, count in windows.counts().items()]
    return Table("Jobs left out", ["rule", "meaning", "jobs"], rows, left=["meaning"])


def _common(summary: pd.DataFrame) -> str:
    """Return what all policies share, which the labels leave out."""
    shared = [f"{name} {summary[name].iloc[0]}" for name in POLICY[1:] if summary[name].nunique() == 1]
    return ", ".join(shared)


def _settings(
    table: pd.DataFrame, summary: pd.DataFrame, labels: Mapping[tuple[str, str, str], str], base: str, unit: str, generated: bool
) -> list[dict[str, Any]]:
    """Return title, table and figures for each semantics and threshold."""
    made = []
    keys = ["semantics", "starvation_s"]
    groups: Any = summary.groupby(keys, sort=False, dropna=False)
    for (semantics, starvation_s), part in groups:
        same = table["starvation_s"].isna() if pd.isna(starvation_s) else table["starvation_s"] == starvation_s
        rows = table[(table["semantics"] == semantics) & same.fillna(False).astype(bool)]
        threshold = "no starvation threshold" if pd.isna(starvation_s) else f"starvation threshold {starvation_s:,} s"
        printed = _policies(part, labels, base)
        shown = {str(row[0]) for row in printed.rows} | {base}
        values = {float(tau_s): _by_window(rows[rows["tau_s"] == tau_s], labels, shown) for tau_s in summary["tau_s"].unique()}
        count = int(part["windows"].iloc[0])
        first = values[next(iter(values))]
        figures = []
        if count > 1:
            figures.append(("boxes", data_uri(campaign_plots.boxes(values, base, generated))))
        if count > 1 and len(first.columns) > 1:
            figures.append(("by window", data_uri(campaign_plots.by_window(first, base, unit, generated))))
        made.append(
            {
                "title": f"{semantics}, {threshold}",
                "table": printed,
                "hidden": len(labels) - len(printed.rows),
                "sentences": _sentences(part, labels, base, first),
                "figures": dict(figures),
            }
        )
    return made


def _policies(part: pd.DataFrame, labels: Mapping[tuple[str, str, str], str], base: str) -> Table:
    """Return a row a policy, best first by the first tau, with the baseline however bad it is.

    A cell a tau, then the metrics independent of tau.
    """
    taus = list(part["tau_s"].unique())
    wanted = [(tau_s, "mean_bounded_slowdown") for tau_s in taus] + [(taus[0], name) for name in _BESIDE]
    records = {(tuple(row[name] for name in POLICY), row["tau_s"], row["metric"]): row for row in part.to_dict("records")}
    slowdowns = part[(part["tau_s"] == taus[0]) & (part["metric"] == "mean_bounded_slowdown")]
    ranked = list(slowdowns.sort_values("mean", kind="stable")[POLICY].itertuples(index=False, name=None))
    shown = ranked[:_MOST] + [policy for policy in ranked[_MOST:] if labels[policy] == base]
    rows: list[Row] = [
        [labels[policy], *(_cell(records[policy, *which], labels[policy] == base) for which in wanted)] for policy in shown
    ]
    headings = [f"mean bounded slowdown, τ = {tau_s:g} s" for tau_s in taus]
    headings += [METRICS[name].title + (", s" if name.endswith("_s") else "") for name in _BESIDE]
    classes = ["baseline" if labels[policy] == base else "" for policy in shown]
    return Table("Policies", ["policy", *headings], rows, classes=classes)


def _cell(row: Mapping[Any, Any], baseline: bool) -> Cell:
    """Return a mean; below it the ratio to the baseline with its interval, and the rank."""
    metric = METRICS[row["metric"]]
    ratio = ""
    if not baseline:
        ratio = "–" if pd.isna(row["ratio"]) else f"× {row['ratio']:.2f}"
        ratio += "" if pd.isna(row["low"]) else f" [{row['low']:.2f}, {row['high']:.2f}]{covers(row['coverage'])}"
    sure = tone(row["low"], row["high"], metric.lower_is_better, even=1.0) if row["sure"] else ""
    rank = f"rank {row['rank']}{' =' if row['tied'] else ''}"
    return Cell(number(row["mean"], metric.kind), ((ratio, sure), (rank, "")), best=row["rank"] == 1 and not row["tied"])


def _by_window(rows: pd.DataFrame, labels: Mapping[tuple[str, str, str], str], shown: set[str]) -> pd.DataFrame:
    """Return mean bounded slowdowns [windows, policies], means over seeds, columns by label."""
    values = rows.groupby(["window", *POLICY], sort=False)["mean_bounded_slowdown"].mean().unstack(POLICY, sort=False)
    policies: list[Any] = list(values.columns)
    named = values.set_axis([labels[policy] for policy in policies], axis="columns")
    return named.filter(items=sorted(shown)).sort_index()


def _sentences(part: pd.DataFrame, labels: Mapping[tuple[str, str, str], str], base: str, first: pd.DataFrame) -> list[str]:
    """Say which policy has the lowest mean bounded slowdown by tau, and in how many windows.

    Ties are counted apart.
    """
    sentences = []
    slowdowns = part[part["metric"] == "mean_bounded_slowdown"]
    for tau_s in slowdowns["tau_s"].unique():
        best = slowdowns[slowdowns["tau_s"] == tau_s].sort_values("mean", kind="stable").iloc[0]
        name = labels[best["scheduler"], best["predictor"], best["correction"]]
        text = f"With τ = {tau_s:g} s the lowest mean bounded slowdown is that of {name}: {number(best['mean'], 'ratio')}"
        if name == base:
            text += ", the baseline"
        elif not pd.isna(best["ratio"]):
            text += f", {best['ratio']:.2f} times that of {base}"
            text += "" if pd.isna(best["low"]) else f" [{best['low']:.2f}, {best['high']:.2f}]{covers(best['coverage'])}"
        if best["tied"]:
            text += f", a tie with {best['tied']} other{'s' if best['tied'] > 1 else ''}"
        sentences.append(text + ".")
    if len(first) > 1 and len(first.columns) > 1:
        leader = first.mean().idxmin()
        best = first[leader] <= first.min(axis=1)
        shared = best & (first.eq(first.min(axis=1), axis=0).sum(axis=1) > 1)
        alone, tied = int((best & ~shared).sum()), int(shared.sum())
        sentences.append(
            f"{leader} alone is the best in {alone} of {len(first)} windows, and in {tied} it is a tie with others (τ = {part['tau_s'].iloc[0]:g} s)."
        )
    return sentences


def _remarks(summary: pd.DataFrame) -> list[str]:
    """Return each note of the summary once."""
    return [sentence(note) for note in summary.loc[summary["note"] != "", "note"].unique()]
