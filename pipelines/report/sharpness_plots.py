"""Figures of predicted distributions: loss by level, and coverage by group of jobs.

They take tables of :class:`sim.predictions.sharpness.Sharpness` and return the bytes of an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from pipelines.report.style import INK, MUTED, ImageFormat, encode, figure
from sim.predictions.sharpness import REFERENCES

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_DASHES = (":", "--", "-.")
_PERCENT = FuncFormatter(lambda share, _: f"{100 * share:.3g} %")


def losses(table: pd.DataFrame, names: Sequence[str], generated: bool, image: ImageFormat = "svg") -> bytes:
    """Draw the quantile loss by level of predictors and references ``names``.

    The requested time is in ink, references are grey.
    """
    with figure(8.4, 3.8, generated) as drawing:
        panel = drawing.subplots()
        loss_curves(panel, table, names)
        drawing.legend(*panel.get_legend_handles_labels(), loc="outside right center", fontsize=8.5)
        return encode(drawing, image)


def loss_curves(panel: Axes, table: pd.DataFrame, names: Sequence[str]) -> None:
    """Draw one panel of :func:`losses`."""
    colours = iter(_COLOURS)
    for name in names:
        rows = table[table["predictor"] == name]
        style: dict[str, Any] = {"linewidth": 1.2}
        if name in REFERENCES:
            style |= {"color": MUTED, "linestyle": _DASHES[REFERENCES.index(name)]}
        elif name == "requested":
            style |= {"color": INK}
        else:
            style |= {"color": next(colours, MUTED), "linewidth": 1.8 if "distribution" in set(rows["kind"]) else 1.2}
        panel.plot(rows["level"], rows["pinball_s"] / 60, label=name, **style)
    panel.set(xlabel="level of the quantile", ylabel="quantile loss, minutes", xlim=(0, 1))
    panel.set_ylim(bottom=0)


def coverage(table: pd.DataFrame, predictor: str, generated: bool, image: ImageFormat = "svg") -> bytes:
    """Draw shares of jobs and processor-seconds within the quantiles of ``predictor``.

    By tenths of the request and by width.
    """
    mine = table[table["predictor"] == predictor]
    with figure(9.6, 3.6, generated) as drawing:
        panels = drawing.subplots(1, 2, sharey=True)
        for panel, by, words in zip(panels, ("request", "width"), ("requested time from", "processors from"), strict=True):
            coverage_curves(panel, mine[mine["by"] == by])
            panel.set_xlabel(words)
        panels[0].set_ylabel("at most as long as the quantile")
        drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=8.5)
        return encode(drawing, image)


def coverage_curves(panel: Axes, rows: pd.DataFrame) -> None:
    """Draw one panel of :func:`coverage`, of the rows that are ``by`` one thing."""
    groups: Any = rows.groupby("level")
    for colour, (level, mine) in zip(_COLOURS, groups, strict=False):
        place = np.arange(len(mine))
        panel.axhline(level, color=colour, linewidth=0.8, linestyle=":")
        panel.plot(place, mine["at_most"], "o-", color=colour, markersize=3.5, linewidth=1.2, label=f"{level:g}: jobs")
        panel.plot(
            place, mine["work_at_most"], "s--", color=colour, markersize=3, linewidth=1.0, label=f"{level:g}: processor-seconds"
        )
        panel.set_xticks(
            place, [_tick(str(by), float(begin)) for by, begin in zip(mine["by"], mine["begin"], strict=True)], rotation=45
        )
    panel.set_ylim(0, 1.02)
    panel.yaxis.set_major_formatter(_PERCENT)


def _tick(by: str, begin: float) -> str:
    if by == "width":
        return f"{begin:.0f}"
    return f"{begin / 60:.0f}m" if begin < 7200 else f"{begin / 3600:.2g}h"
