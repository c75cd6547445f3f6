"""The figure of the nights: accuracy night by night, evidence, and promotions."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, PercentFormatter

from models.packed.methods import Boosting
from pipelines.report.style import BLUE, GREEN, GRID, INK, MUTED, PURPLE, VERMILION, figure

_TICKS = 12
"""Max number of nights named on the axis."""


def over_nights(nights: pd.DataFrame, generated: bool) -> Figure:
    """Draw accuracy by night (table ``nights``), the challenger's advantage, and its evidence."""
    place = np.arange(len(nights))
    with figure(7.0, 6.4, generated) as drawing:
        above, below, lowest = drawing.subplots(3, 1, sharex=True, height_ratios=[1.7, 1, 1])
        dot: dict[str, Any] = {"marker": "o", "markersize": 3.5} if len(nights) == 1 else {}  # one night makes no line
        best = nights["challenger_method"].replace("", np.nan).mode()
        learned = best.iloc[0] if len(best) else Boosting.name
        if f"accuracy_{learned}_now" in nights:
            above.plot(
                place,
                nights[f"accuracy_{learned}_now"],
                color=MUTED,
                linestyle=":",
                linewidth=1.4,
                label=f"{learned}, if every end were known at once",
                **dot,
            )
        if f"accuracy_{learned}" in nights:
            above.plot(
                place,
                nights[f"accuracy_{learned}"],
                color=GREEN,
                linestyle="--",
                marker="s",
                markersize=3.5,
                linewidth=1.3,
                label=f"challenger: {learned} trained anew each night",
            )
        above.plot(place, nights["accuracy_last2"], color=PURPLE, linestyle="-.", linewidth=1.3, label="last2", **dot)
        above.plot(place, nights["accuracy_requested"], color=MUTED, linewidth=1, label="requested", **dot)
        style: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 4, "linewidth": 1.8}
        above.plot(place, nights["accuracy_champion"], label="champion, as it was served", **style)
        _mark(above, nights)
        above.set(title="as served, over the last 14 days", ylabel="accuracy")
        above.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], min_n_ticks=3))
        above.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %", decimals=0))
        drawing.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8, handlelength=3)

        points = 100 * nights[["low", "difference", "high"]].to_numpy(np.float64)
        finite = np.isfinite(points).all(axis=1)
        below.axhline(0, color=INK, linewidth=0.9)
        below.vlines(place[finite], points[finite, 0], points[finite, 2], color=GREEN, linewidth=1.4, alpha=0.7)
        below.plot(place[finite], points[finite, 1], "s", color=GREEN, markersize=4.5)
        _mark(below, nights)
        below.set(title="challenger less champion, with the interval of that night alone", ylabel="points")
        below.yaxis.set_major_locator(MaxNLocator(4, min_n_ticks=3))
        _draw_evidence(lowest, nights)
        step = max(1, -(-len(nights) // _TICKS))
        lowest.set_xticks(place[::step], nights["night"].iloc[::step], rotation=30, ha="right")
    return drawing


def _draw_evidence(panel: Axes, nights: pd.DataFrame) -> None:
    """Draw the evidence of each night on a logarithmic axis, and the evidence needed."""
    place = np.arange(len(nights))
    panel.set(
        title="evidence that the challenger is better; dashed: what is needed", xlabel="night", ylabel="logarithmic", yscale="log"
    )
    for name, colour, line, marker in (("evidence_needed", INK, "--", ""), ("evidence", GREEN, "-", "s")):
        values = nights[name].to_numpy(np.float64)
        there = np.isfinite(values) & (values > 0)
        panel.plot(place[there], values[there], color=colour, linestyle=line, marker=marker, markersize=4.5, linewidth=1.1)
    panel.axhline(1.0, color=MUTED, linewidth=0.9)
    panel.set_ylim(bottom=min(0.1, *panel.get_ylim()))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_locator(NullLocator())
    _mark(panel, nights)


def _mark(panel: Axes, nights: pd.DataFrame) -> None:
    """Mark promotions as lines and nights with drift as bands."""
    for place, (promoted, drifted) in enumerate(zip(nights["promoted"], nights["drifted"], strict=True)):
        if drifted:
            panel.axvspan(
                place - 0.5, place + 0.5, color=GRID, zorder=0, linewidth=0, label="drift" if not _named(panel, "drift") else None
            )
        if promoted:
            panel.axvline(place, color=VERMILION, linewidth=1.2, label="promotion" if not _named(panel, "promotion") else None)


def _named(panel: Axes, label: str) -> bool:
    return label in panel.get_legend_handles_labels()[1]
