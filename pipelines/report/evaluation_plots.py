"""Figures of an evaluation of predictions: quality, experience, errors and calibration.

Every function takes the values of a :class:`sim.predictions.quality.Quality` and returns the bytes of an image. ``drawn`` holds
the look of each predictor that has a curve; the others are rows of points in grey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from features.clock import DAY_S
from pipelines.report.style import GRID, INK, MUTED, ImageFormat, Look, encode, figure
from sim.predictions.quality import MONTH_S, Quality
from sim.predictions.sharpness import REFERENCES

_UNDER, _OVER = "#d55e00", "#0072b2"
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_DASHES = (":", "--", "-.")
_COLUMNS = 4
"""Panels side by side in the figure of errors."""

_PERCENT = FuncFormatter(lambda share, _: f"{100 * share:.3g} %")

Drawn = Mapping[str, Look]


def overall(quality: Quality, predictors: Sequence[str], drawn: Drawn, generated: bool, image: ImageFormat = "svg") -> bytes:
    """Draw accuracy, under-prediction rate and mean absolute error with their intervals.

    A panel each, a row a predictor.
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
                colour = drawn[name].colour if name in drawn else MUTED
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
        panels[0].set_yticks(range(len(predictors)), list(predictors))
        panels[0].set_ylim(len(predictors) - 0.4, -0.6)
        for label, name in zip(panels[0].get_yticklabels(), predictors, strict=True):
            label.set_fontweight("bold" if name == quality.baseline else "normal")
        return encode(drawing, image)


def learning(quality: Quality, drawn: Drawn, generated: bool, image: ImageFormat = "svg") -> bytes:
    """Draw accuracy by 30 days of the trace and, with known users, by completed jobs.

    The number of the user's completed jobs is in bins that double.
    """
    users = quality.knows_users
    with figure(10.5, 3.9, generated) as drawing:
        panels = drawing.subplots(1, 1 + users, sharey=True, squeeze=False, width_ratios=[1.25, 1][: 1 + users])[0]
        for name, look in drawn.items():
            mine = quality.measures[(quality.measures["predictor"] == name) & (quality.measures["measure"] == "accuracy")]
            style = {"color": look.colour, "linewidth": 1.4, "marker": "o", "markersize": 3, "label": name}
            month = mine[mine["by"] == "month"]
            panels[0].plot((month["begin"] + MONTH_S / 2) / DAY_S, month["value"], **style)
            if users:
                bins = mine[mine["by"] == "completed"].reset_index(drop=True)
                place = [_place(begin) for begin in bins["begin"]]
                panels[1].plot(place, bins["value"], **style)
                if name == quality.baseline:
                    panels[1].fill_between(place, bins["low"], bins["high"], color=look.colour, alpha=0.12, linewidth=0)
        panels[0].set(title="by 30 days of the trace", xlabel="days since the first submission", ylabel="accuracy")
        panels[0].yaxis.set_major_formatter(_PERCENT)
        low, high = panels[0].get_ylim()
        panels[0].set_ylim(max(low, 0.0), min(high, 1.0))  # of few jobs, intervals reach beyond
        if users:
            panels[1].set(title="by experience", xlabel="jobs of the user completed before")
            named = quality.measures[quality.measures["by"] == "completed"].drop_duplicates("begin")
            panels[1].set_xticks([_place(begin) for begin in named["begin"]], list(named["group"]), rotation=45, fontsize=7.5)
        drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize=8.5)
        return encode(drawing, image)


def _place(begin: float) -> float:
    """Return where the bin of completed jobs that begins with ``begin`` is drawn."""
    return begin if begin <= 2 else float(np.log2(begin - 1)) + 2


def errors(quality: Quality, predictors: Sequence[str], generated: bool, image: ImageFormat = "svg") -> bytes:
    """Draw histograms of predicted over actual runtime, half an octave a bar.

    A panel a predictor, all on one scale.
    """
    columns = min(len(predictors), _COLUMNS)
    lines = -(-len(predictors) // columns)
    with figure(10.5, 0.4 + 1.75 * lines, generated) as drawing:
        panels = drawing.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for panel, name in zip(panels, predictors, strict=False):
            rows = quality.errors[quality.errors["predictor"] == name].reset_index(drop=True)
            place = (np.arange(len(rows)) - len(rows) // 2) / 2
            colours = [_UNDER if at < 0 else _OVER if at > 0 else MUTED for at in place]
            panel.bar(place, rows["share"], width=0.45, color=colours)
            panel.set_title(name)
            panel.grid(axis="x", visible=False)
        for panel in panels[len(predictors) :]:
            panel.set_visible(False)
        for panel in panels[max(len(predictors) - columns, 0) : len(predictors)]:  # also panels with no panel below
            panel.tick_params(labelbottom=True)
        panels[0].set_xticks([-8, -4, 0, 4, 8], ["1/256", "1/16", "1", "16", "256"])
        panels[0].yaxis.set_major_formatter(_PERCENT)
        drawing.supxlabel("predicted over actual runtime, logarithmic", fontsize=9)
        drawing.supylabel("share of jobs", fontsize=9)
        return encode(drawing, image)


def calibration(quality: Quality, predictor: str, generated: bool, image: ImageFormat = "svg") -> bytes:
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
        return encode(drawing, image)


def _curve(panel: Axes, curve: pd.DataFrame) -> None:
    panel.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9)
    panel.fill_between(curve["level"], curve["below"], curve["at_most"], color=_OVER, alpha=0.15, linewidth=0)
    reach = np.abs(curve[["at_most_low", "at_most_high"]].to_numpy().T - curve["at_most"].to_numpy())
    panel.errorbar(
        curve["level"], curve["at_most"], yerr=np.nan_to_num(reach), fmt="o-", color=_OVER, markersize=3.5, linewidth=1.2, capsize=2
    )
    panel.set(title="calibration", xlabel="level of the quantile", ylabel="share of jobs at most as long", xlim=(0, 1), ylim=(0, 1))
    panel.set_aspect("equal")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(_PERCENT)


def _band(panel: Axes, rows: pd.DataFrame, level: float) -> None:
    """Draw rates over time in the band of chance, and in the narrower one with feedback."""
    middle = (rows["month"] + 0.5) * MONTH_S / DAY_S
    panel.fill_between(middle, rows["low"], rows["high"], color=GRID, step="mid", linewidth=0)
    told = rows["feedback_low"].notna().all()
    within = rows["inside"].astype(bool)
    if told:
        within = rows["feedback_inside"].astype(bool)
        panel.fill_between(middle, rows["feedback_low"], rows["feedback_high"], color=_OVER, alpha=0.25, step="mid", linewidth=0)
    panel.axhline(1 - level, color=MUTED, linewidth=0.9)
    panel.plot(middle, rows["rate"], color=INK, linewidth=1.0)
    for inside, colour in ((True, INK), (False, _UNDER)):
        chosen = within == inside
        panel.plot(middle[chosen], rows["rate"][chosen], "o", color=colour, markersize=4)
    band = "the band with feedback" if told else "the band"
    panel.set_title(f"longer than the {level:g} quantile: {int(within.sum())} of {len(rows)} windows inside {band}")
    panel.set_ylim(bottom=max(0.0, float(min(rows["low"].min(), rows["rate"].min())) - 0.01))
    panel.yaxis.set_major_formatter(_PERCENT)


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
