"""Figures of a comparison, and of one schedule: which job holds which processors when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from features.clock import DAY_S
from features.errors import InputError
from pipelines.report.page import INK, MUTED, Key, Looks, Picture, data_uri, figure, log_durations, looks, rows_named
from pipelines.report.table import brief
from sim.metrics.names import METRICS
from sim.metrics.verdict import WEIGHED, change, signed
from sim.policy import NAMES
from sim.schedule import Schedule, queue_length, seats

_LOG_FROM = 3.0
"""A panel whose largest ratio exceeds this is drawn on a logarithmic scale."""
_RATIOS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0, 10_000.0)
"""Ticks of that scale."""
_LONGEST = 20
"""Max characters of a line of a label."""


def figure_of_changes(
    comparison: pd.DataFrame, keys: Sequence[Key], generated: bool, table: Looks | None = None, metrics: Sequence[str] = ()
) -> Figure:
    """Draw changes of the metrics of a verdict to the first of ``keys``, with intervals.

    Each metric has a panel, each other combination a row. ``comparison`` comes from
    :func:`sim.metrics.comparison.compare`. An axis is linear, or logarithmic if a value more than triples. ``table``
    has the looks of a whole comparison, by default those of ``keys``. ``metrics`` replaces the verdict's, with whole
    intervals.
    """
    table, shown = table or looks(keys), keys[1:]
    rows: Any = comparison.set_index([*NAMES, "metric"])[["relative", "low", "high"]].astype(np.float64)
    columns = -(-len(metrics or WEIGHED) // 2)
    with figure(2.9 * columns, 1.5 + 0.68 * max(len(shown), 1), generated) as drawing:
        panels = drawing.subplots(2, columns, sharey=True).ravel()
        for panel in panels[len(metrics or WEIGHED) :]:
            panel.remove()
        for panel, metric in zip(panels, metrics or WEIGHED, strict=False):
            panel.set_title(METRICS[metric].title.removeprefix("mean bounded "))
            panel.grid(axis="y", visible=False)
            present = [(place, key, rows.loc[(*key, metric)]) for place, key in enumerate(shown)]
            _change_axis(panel, np.array([row for _, key, row in present if key[1]], np.float64).reshape(-1, 3), bool(metrics))
            for place, key, row in present:
                look, x = table[key], 1.0 + row["relative"]
                first, last = panel.get_xlim()
                if not first <= x <= last:  # a recorded schedule may be far off; a missing value has no mark
                    text = "" if np.isnan(x) else f"◂ {change(row['relative'])}" if x < first else f"{change(row['relative'])} ▸"
                    side = 0.02 if x < first else 0.98
                    align = "left" if x < first else "right"
                    panel.text(side, place, text, transform=panel.get_yaxis_transform(), ha=align, va="center", fontsize=8)
                    continue
                panel.plot(1.0 + row[["low", "high"]], [place, place], color=look.colour, linewidth=1.8, alpha=0.7)
                panel.plot(x, place, look.marker, color=look.colour, markersize=6)
        rows_named(panels[0], ["\n".join(_short(part, _LONGEST) for part in table[key].label.split(" / ")) for key in shown])
        for panel in panels[: len(metrics or WEIGHED)]:
            panel.tick_params(axis="y", labelsize=8)
    return drawing


def picture_of_changes(comparison: pd.DataFrame, keys: Sequence[Key], generated: bool, table: Looks) -> Picture | None:
    """Return :func:`figure_of_changes` as a page's picture; None for the baseline alone."""
    caption = f"Changes against {table[keys[0]].label}; left is better. A line that reaches an edge goes on beyond it."
    return Picture(data_uri(figure_of_changes(comparison, keys, generated, table)), caption) if len(keys) > 1 else None


def _short(label: str, most: int) -> str:
    text = " / ".join(map(brief, label.split(" / ")))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _change_axis(panel: Axes, values: np.ndarray, whole: bool) -> None:
    """Set up an axis of ratios to the baseline, ticked as changes in per cent.

    ``values`` [combinations, 3] are changes and the ends of their intervals. The axis covers all changes, and intervals
    if ``whole``; else it goes beyond the changes by at most their range.
    """
    marks = np.append(1.0 + values[np.isfinite(values[:, 0]), 0], [0.95, 1.0, 1.05])
    ends, apart = 1.0 + values[np.isfinite(values)], np.inf if whole else np.ptp(marks)
    low = max(min(ends.min(initial=1.0), marks.min()), marks.min() - apart, 0.02)
    high = min(max(ends.max(initial=1.0), marks.max()), marks.max() + apart)
    panel.axvline(1.0, color=MUTED, linewidth=1)
    logarithmic = high > _LOG_FROM
    if logarithmic:
        panel.set_xscale("log")
        ticks = [1.0]  # and as many others as have room, from 1 outwards
        for tick in sorted((tick for tick in _RATIOS if low <= tick <= high), key=lambda tick: abs(np.log(tick))):
            if min(abs(np.log(tick / other)) for other in ticks) > 0.18 * np.log(high / low):
                ticks.append(tick)
    else:
        ticks = [1.0 + tick for tick in MaxNLocator(3, steps=[1, 2, 5, 10], min_n_ticks=3).tick_values(low - 1.0, high - 1.0)]
        step = -(-len(ticks) // 4) if len(ticks) > 5 else 1
        ticks = ticks[int(np.abs(np.subtract(ticks, 1.0)).argmin()) % step :: step]
        low, high = min(low, ticks[0]), max(high, ticks[-1])
    panel.set_xlim(low * 0.98, high * 1.02)
    panel.set_xticks(
        ticks, [f"× {tick:g}" if logarithmic else signed(100 * tick - 100, ".0f") + " %" for tick in ticks], fontsize=8
    )
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel("ratio, logarithmic" if logarithmic else "change, per cent", fontsize=8)


_HOURS_UP_TO = 3
"""Max days of a window whose time axis is in hours. A longer window has days."""
_SHORT_S, _LONG_S = 60.0, 7.0 * DAY_S
"""Ends of the scale of waits."""
_EDGED = 5_000
"""Number of rectangles from which they have no white edges, since edges would hide narrow ones."""


def gantt(schedule: Schedule, from_s: float | None = None, to_s: float | None = None) -> Figure:
    """Draw the jobs that run between two seconds of the trace, by processor.

    The default is from the first submission to the last end. A job's colour is its wait. If the machine is one pool, or
    the schedule names no nodes, :func:`sim.schedule.seats` chooses the processors. Raises InputError as
    :func:`window_of`.
    """
    jobs, (first, last) = schedule.jobs, window_of(schedule, from_s, to_s)
    start, end = jobs["start_s"].to_numpy(np.float64), jobs["end_s"].to_numpy(np.float64)
    shown = np.flatnonzero((start < last) & (end > first))
    unit, name = (DAY_S / 24, "hours") if last - first <= _HOURS_UP_TO * DAY_S else (DAY_S, "days")
    held, wait = seats(schedule), start - jobs["submit_s"].to_numpy(np.float64)
    corners, waits = [], []
    for job in shown:
        left, right = (start[job] - first) / unit, (end[job] - first) / unit
        for low, high in held[job]:
            corners.append([(left, low), (right, low), (right, high + 1), (left, high + 1)])
            waits.append(max(wait[job], _SHORT_S))
    with figure(10.5, 5.4, schedule.generated) as drawing:
        above, below = drawing.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        bars = PolyCollection(
            corners,
            array=waits,
            cmap="cividis_r",
            norm=LogNorm(_SHORT_S, _LONG_S),
            edgecolor="white",
            linewidth=0.3 if len(corners) < _EDGED else 0,
        )
        above.add_collection(bars)
        above.set(title=schedule.label, ylabel="processor", ylim=(schedule.procs, 0), xlim=(0, (last - first) / unit))
        above.grid(visible=False)
        bar = drawing.colorbar(bars, ax=above, pad=0.01, label="wait", extend="both")
        log_durations(bar.ax.yaxis, _LONG_S, _SHORT_S)
        bar.ax.yaxis.set_minor_locator(NullLocator())
        steps = queue_length(schedule)
        below.step((steps.times - first) / unit, steps.values, where="post", color=INK, linewidth=1)
        lengths = steps.values[(steps.times >= first) & (steps.times <= last)]
        below.set(
            xlabel=f"{name} since second {first:,.0f} of the trace",
            ylabel="jobs waiting",
            ylim=(0, 1.05 * max(lengths.max(initial=0), 1)),
        )
    return drawing


def window_of(schedule: Schedule, from_s: float | None, to_s: float | None) -> tuple[float, float]:
    """Return the first and last second between which a schedule is drawn.

    The default is the first submission and the last end. Raises InputError if the window is empty, or no job runs in
    it.
    """
    jobs = schedule.jobs
    first = float(jobs["submit_s"].min() if from_s is None else from_s)
    last = float(jobs["end_s"].max() if to_s is None else to_s)
    if first >= last:
        raise InputError(f"{schedule.label}: from second {first:,.0f} to {last:,.0f} is not a window: it ends before it begins")
    if not ((jobs["start_s"] < last) & (jobs["end_s"] > first)).any():
        raise InputError(f"{schedule.label}: no job runs between seconds {first:,.0f} and {last:,.0f} of the trace")
    return first, last
