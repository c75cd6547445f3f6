"""Figures of an evaluation of predictions: quality and calibration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from features.clock import DAY_S
from pipelines.report.style import BLUE, GRID, INK, MUTED, VERMILION, figure, rows_named
from sim.predictions.quality import MONTH_S, Quality

_PERCENT = FuncFormatter(lambda share, _: f"{100 * share:.3g} %")


def overall(quality: Quality, predictors: Sequence[str], generated: bool) -> Figure:
    """Draw accuracy, under-prediction rate and mean absolute error with their intervals.

    There is one panel per measure and one row per predictor.
    """
    shown = [
        ("accuracy", "accuracy", 1.0, "mean over jobs"),
        ("underprediction_rate", "under-predicted", 1.0, "share of jobs"),
        ("mae_s", "absolute error", 3600.0, "mean, hours"),
    ]
    with figure(6.4, 1.2 + 0.3 * len(predictors), generated) as drawing:
        panels = drawing.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for panel, (measure, title, scale, unit) in zip(panels, shown, strict=True):
            for place, name in enumerate(predictors):
                row = quality.figures(name)[measure]
                colour = INK if name == quality.baseline else BLUE
                panel.plot(
                    np.array([row["low"], row["high"]], np.float64) / scale, [place, place], color=colour, linewidth=1.8, alpha=0.7
                )
                panel.plot(row["value"] / scale, place, "o", color=colour, markersize=5)
            panel.set_title(title)
            panel.grid(axis="y", linewidth=0.5)
            panel.xaxis.set_major_locator(MaxNLocator(4, min_n_ticks=3))
            panel.set_xlabel(unit, fontsize=8)
            if scale == 1.0:
                panel.xaxis.set_major_formatter(_PERCENT)
        rows_named(panels[0], predictors)
        for label, name in zip(panels[0].get_yticklabels(), predictors, strict=True):
            label.set_fontweight("bold" if name == quality.baseline else "normal")
    return drawing


def calibration(quality: Quality, predictor: str, generated: bool) -> Figure:
    """Draw one distribution: its calibration curve, and its rates over time in chance bands."""
    curve = quality.calibration[quality.calibration["predictor"] == predictor].reset_index(drop=True)
    windows = quality.sharpness.windows
    windows = windows[windows["predictor"] == predictor]
    levels = windows["level"].unique().tolist()
    with figure(10.5, 1.1 + 1.35 * max(len(levels), 2), generated) as drawing:
        left, right = drawing.subfigures(1, 2, squeeze=False, width_ratios=[1, 1.6])[0]
        _curve(left.subplots(), curve)
        panels = right.subplots(len(levels), 1, sharex=True, squeeze=False)[:, 0]
        for panel, level in zip(panels, levels, strict=True):
            _band(panel, windows[windows["level"] == level].reset_index(drop=True), level)
        panels[-1].set_xlabel("days since the first submission")
    return drawing


def _curve(panel: Axes, curve: pd.DataFrame) -> None:
    panel.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9)
    panel.fill_between(curve["level"], curve["below"], curve["at_most"], color=BLUE, alpha=0.15, linewidth=0)
    reach = np.abs(curve[["at_most_low", "at_most_high"]].to_numpy().T - curve["at_most"].to_numpy())
    panel.errorbar(
        curve["level"], curve["at_most"], yerr=np.nan_to_num(reach), fmt="o-", color=BLUE, markersize=3.5, linewidth=1.2, capsize=2
    )
    panel.set(title="calibration", xlabel="level of the quantile", ylabel="share of jobs at most as long", xlim=(0, 1), ylim=(0, 1))
    panel.set_aspect("equal")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(_PERCENT)


def _band(panel: Axes, rows: pd.DataFrame, level: float) -> None:
    """Draw rates over time in the band of chance, and in the narrower one with feedback."""
    middle = (rows["month"] + 0.5) * MONTH_S / DAY_S
    panel.fill_between(middle, rows["low"], rows["high"], color=GRID, step="mid", linewidth=0)
    has_feedback = rows["feedback_low"].notna().all()
    within = rows["inside"].astype(bool)
    if has_feedback:
        within = rows["feedback_inside"].astype(bool)
        panel.fill_between(middle, rows["feedback_low"], rows["feedback_high"], color=BLUE, alpha=0.25, step="mid", linewidth=0)
    panel.axhline(1 - level, color=MUTED, linewidth=0.9)
    panel.plot(middle, rows["rate"], color=INK, linewidth=1.0)
    for inside, colour in ((True, INK), (False, VERMILION)):
        chosen = within == inside
        panel.plot(middle[chosen], rows["rate"][chosen], "o", color=colour, markersize=4)
    band = "the band with feedback" if has_feedback else "the band"
    panel.set_title(f"longer than the {level:g} quantile: {int(within.sum())} of {len(rows)} windows inside {band}")
    panel.set_ylim(bottom=max(0.0, float(min(rows["low"].min(), rows["rate"].min())) - 0.01))
    panel.yaxis.set_major_formatter(_PERCENT)
