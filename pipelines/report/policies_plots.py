"""Figures of a study of mixed policies, after those of Legrand, Trystram & Zrigui (2018).

Every function takes tables of :class:`sim.search.study.Tables` and returns the bytes of an image. A policy has the same colour in
all figures.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pipelines.report.style import INK, MUTED, ImageFormat, encode, figure
from sim.search.claims import recorded
from sim.search.pure import BASELINE, PURE, USUAL
from sim.search.study import GREEDY, HINDSIGHT, ORACLE, TRAINED
from sim.search.transfer import TESTING, Split

COLOURS = {
    USUAL: INK,
    BASELINE: "#0072b2",
    ORACLE: "#d55e00",
    TRAINED: "#009e73",
    GREEDY: "#cc79a7",
    HINDSIGHT: "#e69f00",
    "xnes3": "#56b4e9",
    "xnes6": "#6a51a3",
}
_PLAIN = FuncFormatter(lambda value, _: f"{value:,g}")
_SHADE = "#eef1f4"


def best_pure(replays: pd.DataFrame, tau_s: float, unit: str, generated: bool, image: ImageFormat = "svg") -> bytes:
    """Draw the best pure policy of each window against SAF (figures 2 and 12).

    Above SAF's mean bounded slowdown and the best one's, below the ratio, with the name of the best where it is much better.
    """
    weekly = recorded(replays, tau_s)
    best, names = weekly[list(PURE)].min(axis=1), weekly[list(PURE)].idxmin(axis=1)
    with figure(10.5, 4.2, generated) as drawing:
        above, below = drawing.subplots(2, 1, sharex=True, height_ratios=(1.2, 1.0))
        above.plot(weekly.index, weekly[BASELINE], "o-", color=COLOURS[BASELINE], label=BASELINE, markersize=3, linewidth=1.2)
        above.plot(
            best.index, best, "_", color=COLOURS[ORACLE], label="best pure policy of the window", markersize=7, markeredgewidth=2
        )
        _logarithmic(above, "mean bounded slowdown")
        ratio = weekly[BASELINE] / best
        below.bar(ratio.index, ratio - 1.0, bottom=1.0, color=COLOURS[BASELINE], width=0.8)
        for window in ratio[ratio > 1.25].index:
            below.annotate(
                str(names[window]), (window, ratio[window]), fontsize=5.5, rotation=90, ha="center", va="bottom", color=INK
            )
        below.set(title=f"{BASELINE} over the best", xlabel=unit.removesuffix("s"), ylim=(1.0, ratio.max() * 1.25))
        below.set_yscale("log")
        below.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        below.yaxis.set_major_formatter(_PLAIN)
        below.yaxis.set_minor_formatter(NullFormatter())
        drawing.legend(*above.get_legend_handles_labels(), loc="outside upper center", ncols=2)
        return encode(drawing, image)


def by_window(
    replays: pd.DataFrame,
    tau_s: float,
    split: Split,
    unit: str,
    generated: bool,
    names: Sequence[str] = (USUAL, BASELINE, GREEDY, TRAINED, ORACLE),
    image: ImageFormat = "svg",
) -> bytes:
    """Draw policies by window (figures 3, 13 and 15), the testing windows on a white ground.

    Above their mean bounded slowdowns, below their ratios to SAF.
    """
    weekly = recorded(replays, tau_s)
    with figure(10.5, 5.0, generated) as drawing:
        above, below = drawing.subplots(2, 1, sharex=True)
        for name in names:
            look = {"color": COLOURS[name], "label": name, "linewidth": 1.1, "marker": "o", "markersize": 2.6}
            above.plot(weekly.index, weekly[name], **look)
            if name != BASELINE:
                below.plot(weekly.index, weekly[name] / weekly[BASELINE], **look)
        _logarithmic(above, "mean bounded slowdown")
        below.axhline(1.0, color=COLOURS[BASELINE], linewidth=1.2)
        _logarithmic(below, f"ratio to {BASELINE}")
        below.set_xlabel(unit.removesuffix("s"))
        for panel in (above, below):
            panel.axvspan(min(split.training) - 0.5, max(split.training) + 0.5, color=_SHADE, zorder=0)
        drawing.legend(*above.get_legend_handles_labels(), loc="outside upper center", ncols=len(names))
        return encode(drawing, image)


def optimised(replays: pd.DataFrame, tau_s: float, unit: str, generated: bool, image: ImageFormat = "svg") -> bytes:
    """Draw what xNES finds against the optimum of the grid, by window (figures 5 and 14)."""
    weekly = recorded(replays, tau_s)
    with figure(10.5, 4.0, generated) as drawing:
        above, below = drawing.subplots(2, 1, sharex=True)
        for name, mark in ((ORACLE, "o"), ("xnes3", "x"), ("xnes6", "+")):
            look = {"color": COLOURS[name], "label": name, "linewidth": 1.0, "marker": mark, "markersize": 4}
            above.plot(weekly.index, weekly[name], **look)
            if name != ORACLE:
                below.plot(weekly.index, weekly[name] / weekly[ORACLE], **look)
        _logarithmic(above, "mean bounded slowdown")
        below.axhline(1.0, color=COLOURS[ORACLE], linewidth=1.2)
        below.set(title=f"ratio to {ORACLE}", xlabel=unit.removesuffix("s"))
        drawing.legend(*above.get_legend_handles_labels(), loc="outside upper center", ncols=3)
        return encode(drawing, image)


def sums(table: pd.DataFrame, generated: bool, image: ImageFormat = "svg") -> bytes:
    """Draw sums over the testing windows relative to SAF's, with intervals.

    ``table`` is that of :func:`sim.search.transfer.sums`. Dots are replays as recorded, lines the intervals of the shaken ones.
    """
    testing = table[(table["part"] == TESTING) & (table["policy"] != BASELINE)]
    taus = testing["tau_s"].unique()
    order = testing[testing["tau_s"] == taus[0]].sort_values("sum", kind="stable")["policy"].tolist()
    with figure(10.5, 0.9 + 0.24 * len(order), generated) as drawing:
        panels = drawing.subplots(1, len(taus), sharey=True, squeeze=False)[0]
        for panel, tau_s in zip(panels, taus, strict=True):
            rows = testing[testing["tau_s"] == tau_s].set_index("policy").loc[order]
            base = float(
                table[(table["tau_s"] == tau_s) & (table["part"] == TESTING) & (table["policy"] == BASELINE)]["sum"].iloc[0]
            )
            for place, (name, row) in enumerate(rows.iterrows()):
                colour = COLOURS.get(str(name), MUTED)
                panel.plot([1 + row["low"], 1 + row["high"]], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
                panel.plot(1 + row["relative"], place, "|", color=colour, markersize=9, markeredgewidth=2)
                panel.plot(row["sum"] / base, place, "o", markerfacecolor="white", markeredgecolor=colour, markersize=5)
            panel.axvline(1.0, color=COLOURS[BASELINE], linewidth=1.2)
            panel.set(title=f"τ = {tau_s:g} s", xlabel=f"sum over the testing windows, relative to {BASELINE}'s", xscale="log")
            panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
            panel.xaxis.set_major_formatter(_PLAIN)
            panel.xaxis.set_minor_formatter(NullFormatter())
            panel.set_yticks(range(len(order)), order)
            panel.set_ylim(len(order) - 0.4, -0.6)
        return encode(drawing, image)


def landscapes(
    table: pd.DataFrame, chosen: pd.DataFrame, tau_s: float, unit: str, generated: bool, image: ImageFormat = "png"
) -> bytes:
    """Draw landscapes of windows (figure 4): both faces, lighter is better, the optimum a dot.

    The left face has weights of n below 0, the right one above; the weight of r grows to the upper left, that of wait to the upper right.
    """
    weeks = list(table["week"].unique())
    columns = min(len(weeks), 2)
    lines = -(-len(weeks) // columns)
    with figure(3.5 * columns, 1.95 * lines, generated) as drawing:
        panels = drawing.subplots(lines, 2 * columns, squeeze=False).ravel()
        for panel in panels:
            panel.set_axis_off()
        for place, week in enumerate(weeks):
            rows = table[(table["week"] == week) & (table["tau_s"] == tau_s)]
            best = chosen[(chosen["week"] == week) & (chosen["policy"] == ORACLE) & (chosen["tau_s"] == tau_s)].iloc[0]
            low, high = rows["value"].min(), rows["value"].quantile(0.98)
            for side, (_, part) in enumerate(rows.groupby("face", sort=False)):
                panel = panels[2 * place + side]
                grid = part.pivot(index="up", columns="across", values="value")
                shades = np.log(grid.clip(lower=low, upper=high))
                ends = {"vmin": np.log(low), "vmax": max(np.log(high), np.log(low) + 1e-9)}
                panel.imshow(shades, cmap="viridis_r", origin="lower", extent=(-1, 1, -1, 1), interpolation="nearest", **ends)
                if (best["n"] >= 0) == (side == 1):
                    panel.plot(
                        best["wait"] - best["r"],
                        best["wait"] + best["r"],
                        "o",
                        color="#d7191c",
                        markersize=4.5,
                        markeredgecolor="white",
                    )
                panel.set_aspect("equal")
                words = f"{unit.removesuffix('s')} {week}, n ≤ 0" if side == 0 else f"n ≥ 0; {low:,.1f} to {high:,.0f}"
                panel.set_title(words, fontsize=7.5)
        return encode(drawing, image)


def _logarithmic(panel: Axes, title: str) -> None:
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.yaxis.set_major_formatter(_PLAIN)
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_title(title)
