"""Draw values with their intervals: a panel for each trace, a line for each policy, a colour for each series."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from pipelines.report.page import INK, encode, figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#7f8c97")


def dots(rows: pd.DataFrame, xlabel: str, lines_at: Mapping[str, float], linear: float | None = None, columns: int = 2) -> bytes:
    """Return a picture of ``rows``, as PNG.

    Columns: ``panel``, ``row`` and ``series`` are texts, in the order in which they appear; ``value low high`` are numbers, the latter two NaN
    where there is no interval. ``lines_at`` says where a panel has a vertical line; beyond ``linear`` the axis is logarithmic.
    """
    panels, names, series = (list(rows[name].unique()) for name in ("panel", "row", "series"))
    height = -(-len(panels) // columns)
    with figure(4.8 * columns, height * (0.26 * len(names) + 1.2) + 0.3, generated=False) as canvas:
        grid = canvas.subplots(height, columns, sharey=True, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            for place, (name, colour) in enumerate(zip(series, COLOURS, strict=False)):
                part = rows[(rows["panel"] == panel) & (rows["series"] == name)]
                at = np.array([names.index(row) for row in part["row"]]) + (place - (len(series) - 1) / 2) * 0.66 / len(series)
                axes.hlines(at, part["low"], part["high"], color=colour, linewidth=1.6)
                axes.plot(part["value"], at, "o", color=colour, markersize=4.5, label=name)
            if panel in lines_at:
                axes.axvline(lines_at[panel], color=INK, linewidth=0.9, linestyle=":")
            if linear is not None:
                axes.set_xscale("symlog", linthresh=linear)
                axes.xaxis.set_major_formatter("{x:g}")
            axes.set_yticks(range(len(names)), names)
            axes.set(title=panel, xlabel=xlabel, ylim=(len(names) - 0.5, -0.5))
        if len(series) > 1:
            canvas.legend(*grid[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(series))
        return encode(canvas, "png")
