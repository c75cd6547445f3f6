"""Draw the pictures of :mod:`benchmarks.studies.expected_harm`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.studies.expected_harm_tables import EXACT, LEARNED, METRICS, REQUESTS
from pipelines.report.style import INK, MUTED, encode, figure

SLOWDOWN, AWF, P2SF = METRICS.values()
_COLOURS = {"requested": MUTED, "last2": "#56b4e9", "quantile": "#0072b2", "clairvoyant": "#e69f00"}
_HARM = {REQUESTS: "requested", LEARNED: "quantile", EXACT: "clairvoyant"}
"""What is drawn of Harm, by the predictor whose colour it has."""


def titles_of(table: pd.DataFrame) -> list[str]:
    """Return the traces of a table, in its order."""
    return [str(title) for title in table["trace"].unique()]


def draw(tables: Mapping[str, pd.DataFrame], path: Path) -> None:
    """Draw slowdown against AWF and P2SF: a column a trace, a row a metric."""
    titles = titles_of(tables["headline"])
    with figure(2.6 * len(titles) + 0.8, 5.6, generated=False) as canvas:
        panels = canvas.subplots(2, len(titles), squeeze=False)
        for column, title in enumerate(titles):
            mine, theirs = (tables[name][tables[name]["trace"] == title] for name in ("headline", "rivals"))
            for row, metric in enumerate((AWF, P2SF)):
                _panel(panels[row][column], mine[mine["name"].isin(list(_HARM))], theirs, metric)
            panels[0][column].set_title(title)
            panels[1][column].set_xlabel("change of slowdown, %")
        for axes, metric in zip(panels[:, 0], (AWF, P2SF), strict=True):
            axes.set_ylabel(f"change of {metric}, %")
        words = {"requested": "requested times", "clairvoyant": "exact runtimes"}
        handles = [
            Line2D([], [], marker="o", color=colour, linestyle="", label=words.get(name, name)) for name, colour in _COLOURS.items()
        ]
        handles.append(Line2D([], [], marker="*", color=INK, linestyle="", markersize=11, label="Harm"))
        canvas.legend(handles=handles, loc="outside upper center", ncols=len(handles))
        path.write_bytes(encode(canvas, "png"))


RIGHT = 40.0
"""Slowdowns that are worse by more than this, %, are drawn at the edge."""


def _panel(axes: Axes, harm: pd.DataFrame, rivals: pd.DataFrame, metric: str) -> None:
    wide = rivals.pivot(index=["name", "predictor"], columns="metric", values="relative") * 100
    for (_, predictor), x, y in zip(wide.index, wide[SLOWDOWN], wide[metric], strict=True):
        axes.plot(min(x, RIGHT), y, "o" if x <= RIGHT else ">", color=_COLOURS[predictor], markersize=4, alpha=0.75, clip_on=False)
    for name, rows in harm.groupby("name", sort=False):
        x, y = (rows[rows["metric"] == each].iloc[0] for each in (SLOWDOWN, metric))
        bars = [100 * np.array([[each["relative"] - each["low"]], [each["high"] - each["relative"]]]) for each in (x, y)]
        colour = _COLOURS[_HARM[str(name)]]
        axes.errorbar(
            100 * x["relative"], 100 * y["relative"], bars[1], bars[0], fmt="none", ecolor=colour, elinewidth=1.2, zorder=3
        )
        axes.plot(100 * x["relative"], 100 * y["relative"], "*", color=colour, markersize=13, markeredgecolor=INK, zorder=4)
    axes.axhline(0, color=INK, linewidth=0.8, linestyle=":")
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=":")
    axes.set_xlim(-100, RIGHT)
    axes.set_yscale("symlog", linthresh=10, linscale=2)
    ticks = [tick for tick in (-100, -30, -10, -5, 0, 5, 10, 30, 100, 1000) if axes.get_ylim()[0] <= tick <= axes.get_ylim()[1]]
    axes.set_yticks(ticks, [f"{tick:+g}" if tick else "0" for tick in ticks])
    axes.minorticks_off()
    axes.fill_between([-100, -25], [axes.get_ylim()[0]] * 2, 0, color="#009e73", alpha=0.08, linewidth=0)
