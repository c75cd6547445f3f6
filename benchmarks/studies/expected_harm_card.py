"""Make the card of :mod:`benchmarks.studies.expected_harm` from its rows, and its picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.common.card import Card
from benchmarks.studies.expected_harm_tables import BOUND, LEARNED, METRICS, REQUESTS
from features.statistics import covers
from pipelines.report.style import INK, MUTED, encode, figure

SLOWDOWN, AWF, P2SF = METRICS.values()
ASKED = {LEARNED: -0.25, REQUESTS: -0.15}
"""How much lower slowdown is to be, by what ``Harm`` knows."""
COLOURS = {LEARNED: "#0072b2", REQUESTS: "#56b4e9", BOUND: MUTED}
ENDS = {SLOWDOWN: (-85.0, 45.0), AWF: (-40.0, 25.0), P2SF: (-50.0, 45.0)}
"""Ends of the picture's axes, %; what is beyond is cut."""


def missed(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what each cell of ``cells`` misses: ``name trace load missed``, the metrics in words, "" for none."""
    misses = []
    for name, most in ASKED.items():
        for (trace, load), cell in rows[rows["name"] == name].groupby(["trace", "load"], sort=False):
            by = cell.set_index("metric")
            wrong = [SLOWDOWN] * (not by.loc[SLOWDOWN, "relative"] <= most)
            wrong += [metric for metric in (AWF, P2SF) if not by.loc[metric, "low"] <= 0]  # nor without an interval
            misses.append({"name": name, "trace": trace, "load": load, "missed": ", ".join(wrong)})
    return pd.DataFrame(misses)


def card(rows: pd.DataFrame, made_by: str) -> Card:
    """Return the card."""
    cells, tail = (rows[rows["section"] == name] for name in ("cells", "longest"))
    wrong, half = missed(cells), str(rows["half"].iloc[0])
    met = {name: each["missed"].eq("") for name, each in wrong.groupby("name", sort=False)}
    table = []
    for (trace, name), mine in cells[cells["name"].isin(ASKED)].groupby(["trace", "name"], sort=False):
        loads = {
            load: " / ".join(f"{100 * each:+.0f}" for each in cell["relative"]).replace(" / ", "/")
            for load, cell in mine.groupby("load")
        }
        marks = wrong[(wrong["trace"] == trace) & (wrong["name"] == name) & wrong["missed"].ne("")]["load"]
        table.append(
            [trace, str(name).removeprefix("Harm / "), *(f"{text}{'*' * int(load in set(marks))}" for load, text in loads.items())]
        )
    return Card(
        question="Does a scheduler that weighs distributions pay for slowdown with packing or fairness, at any load?",
        answer=f"Against EASY with requested times, `quantile` has at least 25 % less slowdown in {met[LEARNED].sum()} of {len(met[LEARNED])} cells, and "
        f"`prior`, without a model, at least 15 % less in {met[REQUESTS].sum()} of {len(met[REQUESTS])}, both with neither AWF nor P2SF surely higher "
        "(interval above 0). "
        f"{moonshot(rows[rows['section'] == 'bound'])}",
        picture="expected-harm.png",
        picture_caption="95 % intervals; left is better",
        table=pd.DataFrame(table, columns=["trace", "by", *(f"load {load:g}" for load in sorted(cells["load"].unique()))]),
        table_caption=f"Change in % of mean bounded slowdown / AWF (packing) / P2SF (fairness), jobs of {half} halves submitted 1 to 1.3 times as fast; "
        f"{int(cells['replicates'].max())} replicates; `quantile`: predictions along an EASY schedule; * misses its claim:",
        fails=f"{failures(wrong)} {tails(tail)} Jobs run on one pool; users do not react. "
        "Earlier forms were measured on these halves before; every look is "
        "[listed](data/expected_harm_looks.csv).",
        data=["expected-harm.csv"],
        made_by=made_by,
    )


def failures(wrong: pd.DataFrame) -> str:
    """Say which cells miss which claims."""
    each = wrong[wrong["missed"].ne("")]
    words = [
        f"`{row['name'].removeprefix('Harm / ')}` on {row['trace']} at {row['load']:g} ({row['missed']})"
        for row in each.to_dict("records")
    ]
    return f"These miss their claim: {'; '.join(words)}." if words else "No claim is missed."


def moonshot(rows: pd.DataFrame) -> str:
    """Say in how many cells ``quantile`` is as low as EASY with exact runtimes in AWF and P2SF."""
    bad = rows[rows["metric"].isin([AWF, P2SF]) & ~(rows["low"] <= 0)].groupby(["trace", "load"])
    total, lower = (
        len(rows.groupby(["trace", "load"])),
        rows[rows["metric"].isin([AWF, P2SF])].groupby(["trace", "load"])["relative"].max() <= 0,
    )
    return (
        f"Against EASY with exact runtimes, `quantile` has neither surely higher in {total - len(bad)} of {total} cells; "
        f"both means are as low in {int(lower.sum())}."
    )


def tails(rows: pd.DataFrame) -> str:
    """Say what becomes of the longest waits with ``quantile``."""
    mine = rows[rows["name"] == LEARNED]
    longer = mine[mine["relative"] > 2 * mine["error"]]
    words = "; ".join(f"{row['trace']} {row['load']:g}: {100 * row['relative']:+.0f} %" for row in longer.to_dict("records"))
    return (
        f"The longest 1 % of waits change by {100 * mine['relative'].min():+.0f} to {100 * mine['relative'].max():+.0f} %"
        f"{f'; they grow by over two standard errors on {words}' if words else ''}."
    )


def bounded(*rows: Mapping[str, Any] | pd.Series) -> str:
    """Return changes in % with their intervals, where there are any."""
    each = [
        f" [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]{covers(row.get('coverage'))}" if pd.notna(row["low"]) else ""
        for row in rows
    ]
    return ", ".join(f"{100 * row['relative']:+.1f}{interval}" for row, interval in zip(rows, each, strict=True))


def draw(rows: pd.DataFrame) -> bytes:
    """Draw a row of panels a trace, a column a metric: changes with their intervals, by load and information."""
    cells = rows[(rows["section"] == "cells") & rows["name"].isin(COLOURS)]
    traces, loads = list(cells["trace"].unique()), sorted(cells["load"].unique())
    with figure(8.6, 1.0 + 1.5 * len(traces), generated=False) as canvas:
        panels = canvas.subplots(len(traces), len(ENDS), sharex="col", squeeze=False)
        for (trace, metric), each in cells.groupby(["trace", "metric"], sort=False):
            _changes(panels[traces.index(trace)][list(ENDS).index(metric)], each, loads, ENDS[metric])
        for row, trace in zip(panels, traces, strict=True):
            row[0].set_ylabel(trace, fontweight="bold", color=INK)
        for axes, metric in zip(panels[0], ENDS, strict=True):
            axes.set(title=metric, xlim=ENDS[metric])
        handles = [Line2D([], [], marker="o", color=colour, label=name) for name, colour in COLOURS.items()]
        canvas.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=8)
        canvas.supxlabel("change against EASY with requested times, %, by load: left is better", fontsize=9)
        return encode(canvas, "png")


def _changes(axes: Axes, rows: pd.DataFrame, loads: list[float], ends: tuple[float, float]) -> None:
    axes.axvline(0.0, color=MUTED, linewidth=1)
    for row in rows.to_dict("records"):
        place = loads.index(row["load"]) + 0.25 * (list(COLOURS).index(row["name"]) - 1)
        low, high, middle = (min(max(100 * row[name], ends[0]), ends[1]) for name in ("low", "high", "relative"))
        axes.plot([low, high], [place, place], color=COLOURS[row["name"]], linewidth=1.5)
        axes.plot(middle, place, "o", color=COLOURS[row["name"]], markersize=4)
    axes.set_yticks(range(len(loads)), [f"{load:g}" for load in loads], fontsize=8)
    axes.set_ylim(len(loads) - 0.5, -0.5)
