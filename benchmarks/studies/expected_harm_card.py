"""Make the card of :mod:`benchmarks.studies.expected_harm` from its rows, and its picture."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.common.card import Card
from benchmarks.studies.expected_harm_runs import TRACES
from benchmarks.studies.expected_harm_tables import (
    ALL_METRICS,
    AWF,
    KNOBS,
    LEARNED,
    LONGEST_1,
    P2SF,
    PRIOR,
    SLOWDOWN,
)
from features.statistics import surely
from pipelines.report.style import BLUE, MUTED, SKY, encode, figure

ASKED = -0.25
"""How much lower slowdown is to be."""
NOTABLE = 0.05
"""Growth of the longest waits that is named where it is sure."""
COLOURS = {PRIOR: SKY, LEARNED: BLUE}
PANELS = {P2SF: "P2SF (fairness)", LONGEST_1: "longest 1 % of waits"}
BEST_SLOWDOWN, MOST = -55.0, 20.0
"""Ends of the picture's axes, %."""


def surely_higher(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells in which a metric is surely higher, by Holm's correction over all cells of the metric."""
    higher = [
        each[surely(each["p"].to_numpy(np.float64)) & (each["relative"] > 0)] for _, each in cells.groupby("metric", sort=False)
    ]
    return pd.concat(higher)


def card(rows: pd.DataFrame, made_by: str) -> Card:
    """Return the card."""
    cells = rows[rows["section"] == "cells"]
    slowdown = cells[cells["metric"] == SLOWDOWN]
    met = [
        f"{(each['relative'] <= ASKED).sum()} of {len(each)} cells by `{name}`"
        for name, each in slowdown.groupby("name", sort=False)
    ]
    higher = surely_higher(cells).groupby("metric").size()
    counts = [f"{metric} in {higher.get(metric, 0)}" for metric in ALL_METRICS[1:]]
    return Card(
        question="Does a scheduler that weighs distributions pay for slowdown with packing, fairness or long waits, at any load?",
        answer=f"Against EASY with requested times, slowdown is at least 25 % lower in {' and in '.join(met)}. Of {len(slowdown)} cells, surely higher are "
        f"{', '.join(counts)}.",
        picture="expected-harm.png",
        picture_caption="First halves, mean and worst over traces at a load of 1.15; left and down is better; large: the default",
        table=table(cells),
        table_caption=f"Change in % of mean bounded slowdown/AWF (packing)/P2SF (fairness), jobs of {cells['half'].iloc[-1]} halves submitted 1 to "
        f"1.3 times as fast; {int(cells['replicates'].max())} replicates; W-: half of the area is in jobs of a sixth of the machine, by hand:",
        fails=f"{tails(cells)} {lower_in_the_mean(cells)} Intervals of the longest waits cover chaos, not other weeks. "
        "`quantile`: predictions along an EASY schedule. One pool; users do not react. Earlier forms, and two variants of this one, were "
        "measured on these halves before; every look is [listed](data/expected_harm_looks.csv).",
        data=["expected-harm.csv"],
        made_by=made_by,
    )


def table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trace: changes by what Harm knows and load."""
    lines = []
    for trace, mine in cells.groupby("trace", sort=False):
        line = {"trace": str(trace)}
        for (name, load), cell in mine.groupby(["name", "load"], sort=False):
            by = cell.set_index("metric")["relative"]
            line[f"{name}, {load:g}"] = "/".join(f"{100 * by[metric]:+.0f}" for metric in (SLOWDOWN, AWF, P2SF))
        lines.append(line)
    return pd.DataFrame(lines)


def places(rows: pd.DataFrame) -> str:
    """Return the cells of ``rows`` in words, a trace with its loads."""
    return ", ".join(
        f"{trace} ({', '.join(f'{load:g}' for load in each['load'].unique())})" for trace, each in rows.groupby("trace", sort=False)
    )


def lower_in_the_mean(cells: pd.DataFrame) -> str:
    """Say on how many traces AWF and P2SF are lower in the mean over loads."""
    recorded = cells[cells["trace"].isin(TRACES)]
    means = recorded.groupby(["metric", "name", "trace"])["relative"].mean()
    counts = [
        f"{metric} on {'/'.join(str((means[metric, name] < 0).sum()) for name in (PRIOR, LEARNED))}" for metric in (AWF, P2SF)
    ]
    return f"Lower in the mean over loads, by `prior`/`quantile`: {', '.join(counts)} of {len(TRACES)} traces."


def tails(cells: pd.DataFrame) -> str:
    """Say where the longest waits surely grow by more than ``NOTABLE``, and by how much at most."""
    higher = surely_higher(cells)
    words = []
    for metric in ALL_METRICS[3:]:
        grown = higher[(higher["metric"] == metric) & (higher["relative"] > NOTABLE)]
        if len(grown) > 0:
            words.append(f"{metric} on {places(grown)}, by up to {100 * grown['relative'].max():+.0f} %")
    return f"Surely more than {100 * NOTABLE:.0f} % higher: {'; '.join(words)}." if words else ""


def draw(rows: pd.DataFrame) -> bytes:
    """Draw slowdown against fairness and against the longest waits, as two options move them."""
    points = rows[rows["section"] == "frontier"]
    with figure(8.6, 3.8, generated=False) as canvas:
        panels = canvas.subplots(1, len(PANELS), sharex=True, sharey=True)
        for axes, (metric, title) in zip(panels, PANELS.items(), strict=True):
            for name, colour in COLOURS.items():
                _curves(axes, points[points["name"] == name], metric, colour)
            axes.axhline(0.0, color=MUTED, linewidth=1)
            axes.set(title=title, xlabel="mean change of slowdown, %", xlim=(BEST_SLOWDOWN, -20.0), ylim=(-15.0, MOST))
        panels[0].set_ylabel("change against EASY, %")
        handles = [Line2D([], [], marker="o", color=colour, label=name) for name, colour in COLOURS.items()]
        handles += [Line2D([], [], color=MUTED, label="mean"), Line2D([], [], color=MUTED, linestyle=":", label="worst cell")]
        handles.append(Line2D([], [], marker="s", color=MUTED, linestyle="none", label="fairness 1, 2, 4"))
        handles.append(Line2D([], [], marker="o", color=MUTED, linestyle="none", label="urgency 0.25 to 2"))
        canvas.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=8)
        return encode(canvas, "png")


def _curves(axes: Axes, points: pd.DataFrame, metric: str, colour: str) -> None:
    """Draw mean and worst change of ``metric`` against mean slowdown along each knob."""
    for knob, values in KNOBS.items():
        marker = "s" if knob == "fairness" else "o"
        along = [points[points["scheduler"] == f"Harm({knob}={value})"] for value in values]
        x = [100 * each.loc[each["metric"] == SLOWDOWN, "relative"].mean() for each in along]
        changes = [100 * each.loc[each["metric"] == metric, "relative"] for each in along]
        sizes = [60 if value in (0.5, 2) and f"{knob}={value:g}" in ("urgency=0.5", "fairness=2") else 18 for value in values]
        for line, y in (("-", [each.mean() for each in changes]), (":", [each.max() for each in changes])):
            axes.plot(x, y, line, color=colour, linewidth=1.2)
            axes.scatter(x, y, sizes, color=colour, marker=marker, zorder=3)
