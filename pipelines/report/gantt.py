"""A schedule as a picture: which job holds which processors when, and how many wait."""

from __future__ import annotations

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from features.clock import DAY_S
from features.errors import InputError
from pipelines.report.style import INK, figure, log_durations
from sim.metrics.seats import seats
from sim.metrics.timeline import queue_length
from sim.schedule import Schedule

_HOURS_UP_TO = 3
"""Max days of a window whose time axis is in hours. A longer window has days."""
_SHORT_S, _LONG_S = 60.0, 7.0 * DAY_S
"""Ends of the scale of waits."""
_EDGED = 5_000
"""Number of rectangles from which they have no white edges, since edges would hide narrow ones."""


def gantt(schedule: Schedule, from_s: float | None = None, to_s: float | None = None) -> Figure:
    """Draw the jobs that run between two seconds of the trace, by processor.

    The default is from the first submission to the last end. A job's colour is its wait. If the machine is one pool, or the
    schedule names no nodes, :func:`sim.metrics.seats.seats` chooses the processors. Raises InputError as :func:`window_of`.
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

    The default is the first submission and the last end. Raises InputError if the window is empty, or no job runs in it.
    """
    jobs = schedule.jobs
    first = float(jobs["submit_s"].min() if from_s is None else from_s)
    last = float(jobs["end_s"].max() if to_s is None else to_s)
    if first >= last:
        raise InputError(f"{schedule.label}: from second {first:,.0f} to {last:,.0f} is not a window: it ends before it begins")
    if not ((jobs["start_s"] < last) & (jobs["end_s"] > first)).any():
        raise InputError(f"{schedule.label}: no job runs between seconds {first:,.0f} and {last:,.0f} of the trace")
    return first, last
