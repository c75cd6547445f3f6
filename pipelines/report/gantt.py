"""Schedules as pictures: which job holds which processors when, and which jobs wait."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from features.clock import DAY_S, Clock, local_clock_s
from features.errors import InputError
from pipelines.report.style import INK, MUTED, figure, key, log_durations, looks
from sim.metrics.seats import seats
from sim.metrics.timeline import queue_length
from sim.schedule import Schedule

_HOURS_UP_TO = 3
"""Max days of a window whose time axis is in hours. A longer window has days."""
_SHORT_S, _LONG_S = 60.0, 7.0 * DAY_S
"""Ends of the scale of waits."""
_SHORTEST_S = 1.0
"""Shorter waits are drawn with this length, since the axis is logarithmic."""
_EDGED = 5_000
"""Number of rectangles from which they have no white edges, since edges would hide narrow ones."""


def gantt(schedule: Schedule, from_s: float | None = None, to_s: float | None = None) -> Figure:
    """Draw the jobs that run between two seconds of the trace, by processor.

    The default is from the first submission to the last end. A job's colour is its wait. If the machine is one pool, or the
    schedule names no nodes, :func:`sim.metrics.seats.seats` chooses the processors. Raises InputError as :func:`window_of`.
    """
    jobs, (first, last) = schedule.jobs, window_of([schedule], from_s, to_s)
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


def window_of(schedules: Sequence[Schedule], from_s: float | None, to_s: float | None) -> tuple[float, float]:
    """Return the first and last second between which schedules are drawn.

    The default is the first submission and the last end. Raises InputError if the window is empty, or no job runs in it.
    """
    first = float(min(schedule.jobs["submit_s"].min() for schedule in schedules) if from_s is None else from_s)
    last = float(max(schedule.jobs["end_s"].max() for schedule in schedules) if to_s is None else to_s)
    if first >= last:
        raise InputError(f"{schedules[0].label}: from second {first:,.0f} to {last:,.0f} is not a window: it ends before it begins")
    if not any(((schedule.jobs["start_s"] < last) & (schedule.jobs["end_s"] > first)).any() for schedule in schedules):
        raise InputError(f"{schedules[0].label}: no job runs between seconds {first:,.0f} and {last:,.0f} of the trace")
    return first, last


def figure_of_waits(schedules: Sequence[Schedule], clock: Clock, from_s: float | None = None, to_s: float | None = None) -> Figure:
    """Draw the mean and the 90 % quantile of waits, by processors and by hour of submission.

    Widths are in classes that end at powers of two. Hours are those of the ``clock`` of the trace. Bars below show
    the first schedule's shares of jobs. Jobs are those submitted between two seconds of the trace, by default all. Raises
    InputError as :func:`window_of`.
    """
    window = window_of(schedules, from_s, to_s)
    table = looks(key(schedule) for schedule in schedules)
    with figure(10.5, 5.0, any(schedule.generated for schedule in schedules)) as drawing:
        panels = drawing.subplots(2, 2, sharex="col", sharey="row", height_ratios=(3, 1))
        values = [60.0]
        for number, schedule in enumerate(schedules):
            look, jobs = table[key(schedule)], schedule.jobs[schedule.jobs["submit_s"].between(*window)]
            waits = (jobs["start_s"] - jobs["submit_s"]).clip(lower=_SHORTEST_S)
            width = np.ceil(np.log2(jobs["procs"].to_numpy(np.float64))).astype(np.int64)
            hour = local_clock_s(jobs["submit_s"].to_numpy(np.int64), *clock) % DAY_S // 3_600
            for (above, below), by in zip(panels.T, (width, hour), strict=True):
                groups = waits.groupby(by)
                mean, late = groups.mean(), groups.quantile(0.9)
                above.plot(mean.index, mean, look.marker, linestyle="-", color=look.colour, markersize=4, label=look.label)
                above.plot(late.index, late, linestyle=":", color=look.colour, linewidth=1.2)
                values += [*mean, *late]
                if number == 0:
                    share = 100.0 * groups.size() / len(jobs)
                    below.bar(share.index, share, color=MUTED, width=0.7)
        widest = int(np.ceil(np.log2(max(schedule.jobs["procs"].max() for schedule in schedules))))
        shortest, longest = min(values) / 2.0, 2.0 * max(values)
        panels[0, 0].set(title="by width", ylabel="wait: mean, and 90 % quantile (dotted)", yscale="log", ylim=(shortest, longest))
        log_durations(panels[0, 0].yaxis, longest, shortest)
        panels[0, 0].yaxis.set_minor_locator(NullLocator())
        panels[0, 1].set_title("by hour of submission")
        panels[1, 0].set(xlabel="processors, up to", ylabel="% of jobs")
        panels[1, 0].set_xticks(range(widest + 1), [f"{2**power:,}" for power in range(widest + 1)], fontsize=8, rotation=45)
        panels[1, 1].set_xlabel("hour of the day" if clock.origin_unix_s is not None else "hour since second 0 of the trace, of 24")
        panels[1, 1].set_xticks(range(0, 24, 3))
        drawing.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8.5)
    return drawing
